"""A child process of a block: its output goes to the run's log, and a stop signal reaches it before it ends the block."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from speedproof.errors import RecordError, TrainingError
from speedproof.records.ranks import find_first_failure, find_silent_ranks, rank_folder
from speedproof.records.run import LOG_FILE, read_run
from speedproof.scrub import profiled_environment
from speedproof.signals import StoppedError, raising_when_stopped
from speedproof.training.conditions import LAUNCHED_VARIABLE

# How long a child may take to write its record once it was told to stop.
STOP_GRACE_S = 60


@contextmanager
def stoppable() -> Iterator[None]:
    """Let a stop signal end what stands inside in good order: children first, then folders that are to go.

    Raises:
        TrainingError: SIGTERM or SIGINT arrived.
    """
    with raising_when_stopped():
        try:
            yield
        except StoppedError as signal_name:
            raise TrainingError(
                f"stopped by {signal_name}; run again to go on: whole runs are kept, and checkpoints continued"
            ) from None


def run_process(
    module: Sequence[str], folder: Path, wrap: Sequence[str] = (), variables: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Run `python -m MODULE…`, behind the words of `wrap` (a profiler's), with the allowed environment and `variables` only.

    Every arm's process starts this way, so that the arms differ in the profiler alone; its clock starts here. Inside of
    :func:`stoppable`, SIGTERM and SIGINT are passed on; the child gets :data:`STOP_GRACE_S` seconds to write its record.

    Raises:
        TrainingError: the child ended badly; its record or its log says why.
    """
    command = [*wrap, sys.executable, "-m", *module]
    with (folder / LOG_FILE).open("ab") as output:
        launched = {LAUNCHED_VARIABLE: repr(time.time())}
        environment = {**profiled_environment(os.environ), **launched, **variables}
        status = _wait_passing_stop_on(command, output.fileno(), environment)
    if status == 0:
        return
    raise TrainingError(_explain_end(folder, status))


def _wait_passing_stop_on(command: Sequence[str], output: int, environment: Mapping[str, str]) -> int:
    """Start a child in a process group of its own and return its exit status, negative for a signal."""
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(environment), start_new_session=True
    )
    try:
        return child.wait()
    except StoppedError:
        _end(child)
        raise


def _end(child: subprocess.Popen[bytes]) -> None:
    """Tell a child's process group to stop, and kill it where it has not after a while."""
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _explain_end(folder: Path, status: int) -> str:
    """Return one line on why the child ended: its record's reason, the signal that killed it, or its last words."""
    log_file = folder / LOG_FILE
    silent = ", ".join(map(str, find_silent_ranks(folder)))
    killed = f"killed (SIGKILL), as the system does when memory runs out; give the job more, see {log_file}"
    try:
        run = read_run(folder)
        if run.outcome == "failed" and silent:
            return f"{folder.name}: rank {silent} ended without a word, probably {killed}"
        if run.outcome != "completed":
            return f"{folder.name}: {run.outcome.replace('_', ' ')}: {run.reason}; see {log_file}"
    except RecordError:
        pass
    if failure := find_first_failure(folder):
        log_file = rank_folder(folder, failure.rank) / LOG_FILE
        return f"{folder.name}, rank {failure.rank}: {failure.outcome.replace('_', ' ')}: {failure.reason}; see {log_file}"
    if status == -signal.SIGKILL:
        return f"{folder.name}: {killed}"
    if status < 0:
        return f"{folder.name}: ended by {signal.Signals(-status).name}; see {log_file}"
    lines = [line for line in log_file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f"{folder.name}: exit status {status}: {lines[-1][:300] if lines else 'no output'}; see {log_file}"
