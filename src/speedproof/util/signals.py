"""Stop signals as an exception: SIGTERM, which ends a cluster's jobs, SIGINT, or Ctrl-C, and SIGHUP of a closing terminal."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


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
