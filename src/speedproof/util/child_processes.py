"""Child processes: each stands behind a guardian, which ends all that came of it when it ends, or when this process does."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from pathlib import Path
from select import poll
from types import FrameType

from speedproof.util.guardian import PR_SET_PDEATHSIG, PRCTL


class StoppedError(BaseException):
    """A stop signal arrived; the text is its name. Not an Exception, so that no library's handler swallows it."""


class Patience:
    """Answers each stop signal while an ending goes on: the first ones by a word each, those after them by ending at once."""

    def __init__(self, answers: Sequence[str], say: Callable[[str], None]) -> None:
        self._answers, self._say = iter(answers), say

    def answer(self) -> None:
        """Answer one more signal.

        Raises :class:`StoppedError` if all words are said: what waits for an orderly end waits no longer.
        """
        answer = next(self._answers, None)
        if answer is None:
            raise StoppedError("a further signal")
        self._say(answer)


_patience: list[Patience] = []


@contextmanager
def answering_stops(patience: Patience) -> Iterator[None]:
    """Have `patience` answer stop signals in this `with` block, instead of ignoring all but the first."""
    _patience.append(patience)
    try:
        yield
    finally:
        _patience.pop()


@contextmanager
def raising_when_stopped() -> Iterator[None]:
    """Turn the first SIGTERM, SIGINT or SIGHUP into :class:`StoppedError`; further ones are ignored until the context ends.

    For what has something to put in order. Code that waits inside a library without coming back to Python is not reached, and
    neither is another thread than the main one, which alone may ask for signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Under nohup a terminal's end is ignored, and stays so.
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    watched = (signal.SIGTERM, signal.SIGINT, *hangup)

    def answer(_number: int, _frame: FrameType | None) -> None:
        if _patience:
            _patience[-1].answer()

    def stop(number: int, _frame: FrameType | None) -> None:
        for other in watched:
            signal.signal(other, answer if _patience else signal.SIG_IGN)
        if _patience:
            _patience[-1].answer()
        # A handler must raise: waiting inside it would wait for the lock of the wait that it interrupted.
        raise StoppedError(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in watched}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


GUARDIAN = Path(__file__).with_name("guardian.py")
# Set by the workflow: the process that runs it, whose end is also its jobs'.
WORKFLOW_VARIABLE = "SPEEDPROOF_WORKFLOW"
# How long a child may take to write its record after a stop signal.
STOP_GRACE_S = 60


def end_with_parent() -> None:
    """End this process with its parent: if the parent is killed, a pool's process would otherwise wait for ever."""
    parent = parent_process()
    if parent is None:  # not a pool's
        if PRCTL:
            PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass
class Life:
    """When a program began and ended, by the machine's monotonic clock and without its guardian's start, and what it left."""

    began_s: float
    ended_s: float
    left: int  # processes that still ran, and were ended
    gone_s: float  # when the last of its processes that ended by themselves, at most 0.1 s after it, had ended
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
    wait: Callable[[subprocess.Popen[bytes]], int] | None = None,
) -> int:
    """Run a command in a session of its own, its output to the file `output`; return its exit status, negative for a signal.

    What the command leaves behind is killed when it ends; all of it at once when this process is killed. A stop signal
    (:func:`raising_when_stopped`) is passed on to its process group, which gets :data:`STOP_GRACE_S` seconds. `launched` names
    a variable that gets the time of its launch, by the machine's monotonic clock. Its standard error may go to a file of its
    own. To `lives` its own is added, unless it was killed with its guardian. A named `pipe` is removed if this process is
    killed. `wait` waits for the guardian, and may end the program before its own end.

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
            status = wait(child) if wait else child.wait(limit_s)
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
    """Send this process SIGTERM if its workflow dies during the block: the shell in between does not pass that on.

    Otherwise the process would continue beside the one that a rerun starts. Does nothing without a workflow, or if the
    workflow is not an ancestor of this process.
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
    """Return a file descriptor that becomes readable when an ancestor ends; None if the process is not an ancestor."""
    if not (number.isdigit() and int(number) in list_ancestors()):
        return None
    try:
        return os.pidfd_open(int(number))
    except (OSError, AttributeError):  # it has just ended, or the kernel is too old, or not Linux
        return None


def list_ancestors() -> list[int]:
    """Return the processes that this one descends from, its parent first."""
    found, number = [], os.getppid()
    while number > 0:
        found.append(number)
        try:
            number = int(Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            break
    return found
