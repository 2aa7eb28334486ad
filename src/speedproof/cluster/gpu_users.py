"""How many GPUs a run computed on, by NVML's lists of processes; the program that is measured has no part in it."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count, takewhile
from typing import Any

import pynvml

from speedproof.cluster.gpu_monitor import ask_nvml, find_gpu

_INTERVAL_S = 0.25


class GpuUse:
    """Which of a machine's GPUs had processes that were not there before, so far."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles
        self._before = [self._list_processes(handle) for handle in handles]
        self._used: set[int] = set()

    @property
    def gpus(self) -> int | None:
        """Return how many GPUs have been used; None if there are none, or none was seen used, as by a run of a moment."""
        return len(self._used) or None

    def look(self) -> None:
        """Take note of the GPUs that are used now."""
        for number, handle in enumerate(self._handles):
            if number not in self._used and self._list_processes(handle) - self._before[number]:
                self._used.add(number)

    def look_until(self, stop: threading.Event) -> None:
        """Look four times a second."""
        while not stop.wait(_INTERVAL_S):
            self.look()

    @staticmethod
    def _list_processes(handle: Any) -> set[int]:
        # In a container NVML may number processes as the host does, so they cannot be told by who started them.
        found = ask_nvml(partial(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)) or []
        return {one.pid for one in found if one.pid != os.getpid()}


@contextmanager
def counting_gpus(environ: Mapping[str, str]) -> Iterator[GpuUse]:
    """Count the GPUs that are used while the block runs, of those that CUDA sees under `environ`."""
    handles = takewhile(lambda found: found is not None, (find_gpu(environ, number) for number in count()))
    use, stop = GpuUse(list(handles)), threading.Event()
    watcher = threading.Thread(target=use.look_until, args=(stop,), daemon=True)
    watcher.start()
    try:
        yield use
    finally:
        stop.set()
        watcher.join()
