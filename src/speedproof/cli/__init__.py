"""The command line: what people type, and the steps that the workflow's rules call."""

import os
import sys

INTERRUPTED_STATUS = 130  # typer's exit status on Ctrl-C, too


def _forget_working_folder() -> None:
    """Look for modules no longer in the working folder, where `python -m` and PYTHONPATH may have Python look.

    A user's own `queue.py` there is none of ours; the programs that are measured find it as ever.
    """
    # By `os` alone: what else is imported here could be the user's.
    here = os.getcwd()  # noqa: PTH109
    package = os.path.realpath(__file__).rpartition(f"{os.sep}speedproof{os.sep}")[0]
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != here or here == package]


def _end_interrupted(*_: object) -> None:
    """End at once, with one line: an exception would show a traceback of whatever is imported, or be lost in a callback."""
    try:
        os.write(2, b"speedproof: interrupted\n")
    finally:
        os._exit(INTERRUPTED_STATUS)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does, unless what it runs handles the signal itself."""
    _forget_working_folder()
    import signal

    def leave_to_default() -> None:  # a forked process ends by the signal, as ever
        if signal.getsignal(signal.SIGTERM) is _interrupt:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    stops = [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, _end_interrupted) for one in stops}
    try:
        from speedproof.cli.application import app
        from speedproof.cli.exits import run_app

        os.register_at_fork(after_in_child=leave_to_default)
        for one, handler in before.items():  # asyncio looks for Python's own of SIGINT
            signal.signal(one, _interrupt if handler is signal.SIG_DFL else handler)
        run_app(app)
    except KeyboardInterrupt:  # outside of typer's own handler
        _end_interrupted()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
