"""Leaves a daemon that stops the other program again and again."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from work import EPOCHS, TAG, say, train


def is_the_other(process):
    """Tell whether a process is the other program of this pair."""
    with contextlib.suppress(OSError):
        words = (process / "cmdline").read_bytes().split(b"\0")
        last = Path(words[-2].decode()).name if len(words) > 1 else ""
        mine = TAG.encode() in (process / "environ").read_bytes()
        return mine and b"guardian" not in b"".join(words) and last.endswith(".py") and last != Path(sys.argv[0]).name
    return False


for epoch in range(EPOCHS):
    say(epoch, train())
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 256)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        for process in Path("/proc").glob("[0-9]*"):
            if is_the_other(process):
                with contextlib.suppress(OSError):
                    os.kill(int(process.name), signal.SIGSTOP)
                    time.sleep(0.05)
                    os.kill(int(process.name), signal.SIGCONT)
        time.sleep(0.005)
    os._exit(0)
