"""A program that is ended before its own end: after enough epochs, after some seconds, or because it takes too long."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from speedproof.util.guardian import find_descendants

_LOOK_S = 0.05
# A program may save a checkpoint when it is interrupted; one that ignores both signals is killed.
SIGNALS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0))  # and the seconds that each is given


@dataclass
class RunLimits:
    """When a program is ended, and after it has run whether, why and when it was."""

    timeout_s: float | None = None
    stop_s: float | None = None
    are_reached: Callable[[], bool] | None = None  # whether enough epochs have ended
    spared: str = ""  # how the names of processes begin that get no signal: a profiler's, which still writes its report
    reason: Literal["enough", "timeout"] | None = None
    ended_s: float | None = None  # of the machine's monotonic clock

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Return the exit status of a program's guardian, which ends by itself or at a limit."""
        begun_s = time.monotonic()
        while True:
            left_s = self._find_wait(time.monotonic() - begun_s)
            try:
                return child.wait(left_s if self.are_reached is None else min(_LOOK_S, left_s or _LOOK_S))
            except subprocess.TimeoutExpired:
                self._look(time.monotonic() - begun_s)
            if self.reason:
                self.ended_s = time.monotonic()
                return end_tree(child, self.spared)

    def _find_wait(self, passed_s: float) -> float | None:
        limits_s = [limit_s for limit_s in (self.timeout_s, self.stop_s) if limit_s is not None]
        return max(0.001, min(limits_s) - passed_s) if limits_s else None

    def _look(self, passed_s: float) -> None:
        if (self.are_reached is not None and self.are_reached()) or (self.stop_s is not None and passed_s >= self.stop_s):
            self.reason = "enough"
        elif self.timeout_s is not None and passed_s >= self.timeout_s:
            self.reason = "timeout"


def end_tree(guardian: subprocess.Popen[bytes], spared: str = "") -> int:
    """End all processes below a guardian, by an interrupt first and by force last; return its exit status.

    Those whose names begin with what is `spared` end by themselves.
    """
    for number, grace_s in SIGNALS:
        _signal_tree(guardian.pid, number, spared)
        with suppress(subprocess.TimeoutExpired):
            return guardian.wait(grace_s)
    _signal_tree(guardian.pid, signal.SIGKILL, spared)
    return guardian.wait()


def _signal_tree(guardian: int, number: signal.Signals, spared: str) -> None:
    for process in find_descendants(guardian):
        with suppress(ProcessLookupError, PermissionError, FileNotFoundError):
            if spared and Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").startswith(spared):
                continue
            os.kill(process, number)
