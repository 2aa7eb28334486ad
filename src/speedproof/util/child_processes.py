"""Child processes: each stands behind a guardian, which ends all that came of it when it ends, or when this process does."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from pathlib import Path
from select import poll

from speedproof.util.signals import StoppedError

GUARDIAN = Path(__file__).with_name("guardian.py")
# Set by the workflow: the process that runs it, whose end is also its jobs'.
WORKFLOW_VARIABLE = "SPEEDPROOF_WORKFLOW"
# How long a child may take to write its record once it was told to stop.
STOP_GRACE_S = 60


def end_with_parent() -> None:
    """Let a pool's process end when its parent does: where that is killed nothing else tells it, and it would wait for ever."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass
class Life:
    """When a program began and ended, by the machine's monotonic clock and without its guardian's start, and what it left."""

    began_s: float
    ended_s: float
    left: int  # processes that still ran, and were ended
    gone_s: float  # when its last process had ended, whether by itself or not
    left_cpu_s: float = 0.0  # that those which were ended had used
    cpu_s: float | None = None  # user and system, of all of its processes that ended; None: not known
    read_bytes: int | None = None  # that these read in all, from memory too; None: the system does not tell
    storage_bytes: int | None = None  # of those, from storage


def run_child(
    command: Sequence[str],
    output: int,
    environment: Mapping[str, str],
    launched: str = "",
    errors: int | None = None,
    limit_s: float | None = None,
    lives: list[Life] | None = None,
    pipe: Path | None = None,
) -> int:
    """Run a command in a session of its own, its output to the file `output`; return its exit status, negative for a signal.

    What the command leaves behind is killed when it ends; all of it at once when this process is killed. A stop signal
    (:func:`raising_when_stopped`) is passed on to its process group, which gets :data:`STOP_GRACE_S` seconds. `launched` names
    a variable that tells it when it was launched, by the machine's monotonic clock. What it says of errors may go to a file of
    its own. To `lives` its own is added, unless it was killed with its guardian. A named `pipe` goes if this process is killed.

    Raises:
        subprocess.TimeoutExpired: it took longer than `limit_s`, and was killed with all that came of it

    """
    control, ours = socket.socketpair()
    words = [sys.executable, "-I", "-S", str(GUARDIAN), str(control.fileno()), launched, str(pipe or ""), *command]
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output if errors is None else errors,
        env=dict(environment),
        start_new_session=True,
        pass_fds=(control.fileno(),),
    ) as child:
        try:
            control.close()
            status = child.wait(limit_s)
            reported = ours.recv(4096).split()
            if lives is not None and reported:
                began_s, ended_s, left, left_s, gone_s, cpu_s, *read = reported
                life = Life(
                    float(began_s), float(ended_s), int(left), float(gone_s), float(left_s), float(cpu_s), *map(int, read)
                )
                lives.append(life)
            return status
        except StoppedError:
            _stop(child)
            raise
        finally:
            ours.close()  # the guardian ends all that is left, and is waited for


def _stop(child: subprocess.Popen[bytes]) -> None:
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        return


@contextmanager
def ending_with_workflow(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Send this process SIGTERM while the block runs if the workflow that started it dies: its shell in between would not tell.

    A process that outlived its workflow would go on beside the one that a rerun starts. Without a workflow, or where it is out
    of sight, nothing is done.
    """
    workflow = _open_ancestor(environ.get(WORKFLOW_VARIABLE, ""))
    if workflow is None:
        yield
        return
    ended, end = os.pipe()

    def watch() -> None:
        watched = poll()
        for file in (workflow, ended):
            watched.register(file)
        if workflow in dict(watched.poll()):
            # To the main thread itself: any other could take it, and leave the main one waiting.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.close(end)
        watcher.join()
        os.close(ended)
        os.close(workflow)


def _open_ancestor(number: str) -> int | None:
    """Return an open file that tells when a process ends; None where it is none that this one stands below."""
    if not (number.isdigit() and int(number) in _list_ancestors()):
        return None
    try:
        return os.pidfd_open(int(number))
    except (OSError, AttributeError):  # it has just ended, or the kernel is too old, or not Linux
        return None


def _list_ancestors() -> list[int]:
    found, number = [], os.getppid()
    while number > 0:
        found.append(number)
        try:
            number = int(Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            break
    return found
