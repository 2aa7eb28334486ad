"""Stop signals as an exception: SIGTERM, which ends a cluster's jobs, SIGINT, or Ctrl-C, and SIGHUP of a closing terminal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StoppedError(BaseException):
    """A stop signal arrived; the text is its name. Not an Exception, so that no library's handler swallows it."""


@contextmanager
def raising_when_stopped() -> Iterator[None]:
    """Turn the first SIGTERM, SIGINT or SIGHUP into :class:`StoppedError`; further ones are ignored until the context ends.

    For what has something to put in order. Code that waits inside a library without coming back to Python is not reached.
    """
    # Under nohup a terminal's end is ignored, and stays so.
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    watched = (signal.SIGTERM, signal.SIGINT, *hangup)

    def stop(number: int, _frame: FrameType | None) -> None:
        for other in watched:
            signal.signal(other, signal.SIG_IGN)
        # A handler must raise: waiting inside it would wait for the lock of the wait that it interrupted.
        raise StoppedError(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in watched}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
