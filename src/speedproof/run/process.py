"""A child process of an experiment: its output goes to the run's log, and a stop signal reaches it first."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from speedproof.results.run_record import LOG_FILE, Run, read_run
from speedproof.results.trace_results import find_first_failure, find_silent_ranks, rank_folder
from speedproof.run.failure_reason import find_failure
from speedproof.util.child_processes import StoppedError, ending_with_workflow, raising_when_stopped, run_child
from speedproof.util.environment import LAUNCHED_VARIABLE, describe_umask, python_environment
from speedproof.util.errors import RecordError, TrainingError
from speedproof.util.scrub import profiled_environment

_END_BYTES = 65536
_SILENT = "no output"


@contextmanager
def stoppable() -> Iterator[None]:
    """Let a stop signal, or the workflow's death, end what stands inside in good order: children first, then folders.

    Raises:
        TrainingError: SIGTERM, SIGINT or SIGHUP arrived, or the workflow was killed.
    """
    with raising_when_stopped(), ending_with_workflow():
        try:
            yield
        except StoppedError as signal_name:
            raise TrainingError(
                f"stopped by {signal_name}; run again to resume: completed runs are kept, and checkpoints continued"
            ) from None


def run_process(
    program: Sequence[str], folder: Path, wrap: Sequence[str] = (), variables: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Run a program, behind the words of `wrap` (a profiler's), with the allowed environment and `variables` only.

    Every mode's process starts this way, so that the modes differ in the profiler alone; its clock starts here. Inside of
    :func:`stoppable`, a stop is passed on, and the child gets some time to write its record. Nothing of it outlives it, or us.

    Raises:
        TrainingError: the child ended badly; its record or its log says why.
    """
    command = [*wrap, *program]
    with (folder / LOG_FILE).open("ab") as output:
        status = run_child(command, output.fileno(), list_allowed(variables), LAUNCHED_VARIABLE)
    if status == 0:
        return
    raise TrainingError(_explain_end(folder, status))


Ended = tuple[Run, str | None]  # a run's record, and the stop signal that ended it, if one did


def run_here(watch: Callable[[Mapping[str, str], int], Ended], folder: Path, variables: Mapping[str, str]) -> None:
    """Have a run's program watched by this process: as by :func:`run_process`, which costs the start of another.

    `watch` takes the program's variables and the file where its output goes, and leaves the run's record.

    Raises:
        TrainingError: the program ended badly.
    """
    with (folder / LOG_FILE).open("ab") as output:
        run, stop = watch(list_allowed(variables), output.fileno())
    if stop:  # the watcher took the signal, to write the record: it is this experiment's, too
        raise StoppedError(stop)
    if run.outcome != "completed":
        raise TrainingError(_explain_end(folder, 1))


def list_allowed(variables: Mapping[str, str]) -> dict[str, str]:
    """Return what a run's process sees: the allowed variables, and these."""
    return {**profiled_environment(os.environ), **python_environment(os.environ), **describe_umask(), **variables}


def _explain_end(folder: Path, status: int) -> str:
    """Return one line on why the child ended: its record's reason, the signal that killed it, or its last words."""
    log_file = folder / LOG_FILE
    silent = ", ".join(map(str, find_silent_ranks(folder)))
    killed = f"killed (SIGKILL), as the system does when memory runs out; give the job more memory, see {log_file}"
    try:
        run = read_run(folder)
        if run.outcome == "failed" and silent:
            return f"{folder.name}: rank {silent} ended without a message, probably {killed}"
        if run.outcome != "completed":
            said = f": {last_words(log_file) or _SILENT}" if run.exit_status is not None else ""
            return f"{folder.name}: {run.outcome.replace('_', ' ')}: {run.reason}{said}; see {log_file}"
    except RecordError:
        pass
    if failure := find_first_failure(folder):
        log_file = rank_folder(folder, failure.rank) / LOG_FILE
        return f"{folder.name}, rank {failure.rank}: {failure.outcome.replace('_', ' ')}: {failure.reason}; see {log_file}"
    if status == -signal.SIGKILL:
        return f"{folder.name}: {killed}"
    if status < 0:
        return f"{folder.name}: ended by {signal.Signals(-status).name}; see {log_file}"
    return f"{folder.name}: exit status {status}: {last_words(log_file) or _SILENT}; see {log_file}"


def last_words(log_file: Path) -> str:
    return find_failure(read_end(log_file))


def read_end(log_file: Path) -> str:
    """Return the last part of a log, in which a program says why it failed; a log may have gigabytes."""
    with log_file.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _END_BYTES))
        return file.read().decode("utf-8", "replace")
