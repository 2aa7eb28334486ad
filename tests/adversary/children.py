"""What runs in a process of its own: a program timed from outside, and a command line of ours. Standard library only."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_LONGEST_S = 20.0


def time_program(told: Connection, command: list[str], folder: Path, environ: dict[str, str], whole_tree: bool) -> None:
    """Send the seconds from a program's start until it, or all that it started, has ended."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # what outlives its parent becomes a child of ours
    with (folder / "printed.txt").open("wb") as printed:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, _LONGEST_S)
        began = time.monotonic()
        program = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True
        )
        status = program.wait()  # without a limit of its own, with which it would look every 50 ms only
        if whole_tree:
            _await_all()
        told.send((time.monotonic() - began, status, (folder / "printed.txt").read_text(errors="replace")))


def _await_all() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def run_command_line(words: list[str], folder: Path, environ: dict[str, str], written: Path) -> None:
    """Run a command line of ours as in a terminal of its own: in this folder, with these variables."""
    from speedproof.cli import main
    from speedproof.report.figures import draw

    draw.FIGURES = ()  # to draw takes as long as to measure, and nobody looks
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ, PAIR_TOP=str(os.getpid()))
    tempfile.tempdir = None
    for name, number in (("out", 1), ("err", 2)):
        file = os.open(written.with_suffix(f".{name}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115
    sys.argv = ["speedproof", *words]
    main()


def end_marked(mark: str) -> list[int]:
    """Kill each process in whose environment a mark stands, and return their ids."""
    killed = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
    return killed


def remove_named(tag: str) -> None:
    """Remove what programs left outside of their folders under a name of ours."""
    for top in ("/tmp", "/var/tmp", "/dev/shm"):
        for path in Path(top).glob(f"{tag}*"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
