"""Starts torch.profiler in whatever program imports torch, and leaves what it recorded in the folder that a variable names.

A profiled program finds this file as `sitecustomize`, so it is of the standard library alone, for any Python that has a torch.
"""

import _thread
import atexit
import ctypes
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

TRACES_VARIABLE = "SPEEDPROOF_TORCH_TRACES"
EXPORT_SUFFIX = ".json.gz"
MOST_STEPS = 200  # of an optimizer; a longer recording costs memory and tells no more of an iteration
# By so much the process may grow while it records: an event takes 0.2 KB, 1.5 KB once it is stopped, and its export 60 us.
# If fewer events were recorded, the program's own data grew.
RECORDED_BYTES, MANY_EVENTS = 64 * 2**20, 30_000


class TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch as the others do, and calls `start` with it once it is imported."""

    def __init__(self, start: Callable[[Any], None]) -> None:
        self._start = start

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return torch's specification; of other modules nothing."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_start(module: Any) -> None:
                execute(module)
                self._start(module)

            spec.loader.exec_module = execute_and_start  # type: ignore[method-assign]
        return spec


class TorchRecording:
    """Profiles this process from torch's import until it ends, has made :data:`MOST_STEPS` steps, or has recorded too much
    before its first.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._process, self._thread = os.getpid(), threading.get_ident()
        # The profiler belongs to the thread that starts it, and one that outlives its thread ends the program.
        self._everywhere = threading.current_thread() is not threading.main_thread()
        self._lock, self._most_bytes = threading.Lock(), RECORDED_BYTES
        self._call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._limit)  # lives as long as it may be called
        self._profiler: Any = None
        self._longest: Any = None  # a part that was recorded before the program's own data grew

    def begin(self) -> bool:
        """Start to record; return whether this torch can."""
        kinds = self._torch.profiler.ProfilerActivity
        known = self._torch.profiler.supported_activities()  # asks no driver, which forked processes would not survive
        options: dict[str, Any] = {"activities": [kind for kind in (kinds.CPU, kinds.CUDA) if kind in known]}
        if self._everywhere:
            try:
                options["experimental_config"] = self._torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
            except (AttributeError, TypeError):  # an older torch
                return False
        self._profiler, self._steps, self._began_bytes = self._torch.profiler.profile(**options), 0, _read_memory()
        self._profiler.start()
        return True

    def end(self) -> None:
        """Stop, and export what was recorded."""
        if (profiler := self._stop()) is not None:
            self._export(profiler if self._steps else max(profiler, self._longest, key=_count_events))

    def _export(self, profiler: Any) -> None:
        # Under its last name only when it is whole: a program may be killed meanwhile.
        part = Path(os.environ[TRACES_VARIABLE], f"{self._process}.part.gz")
        profiler.export_chrome_trace(str(part))
        part.replace(part.with_name(f"{self._process}{EXPORT_SUFFIX}"))

    def _stop(self) -> Any:
        """Return the stopped profiler; None if it is not ours to stop."""
        if os.getpid() != self._process or not (self._everywhere or threading.get_ident() == self._thread):
            return None
        with self._lock:
            profiler, self._profiler = self._profiler, None
        if profiler is None or not (self._everywhere or self._torch.autograd._profiler_enabled()):
            return None  # the program profiled itself, and ended this one
        profiler.stop()
        return profiler

    def count_step(self, *_: Any) -> None:
        """Count an optimizer's step, and end with the last that is recorded."""
        self._steps += 1
        if self._steps >= MOST_STEPS:
            self.end()

    def watch(self) -> None:
        """Look how much memory the process takes, while it records."""
        while self._profiler is not None:
            time.sleep(0.1)
            if _read_memory() - self._began_bytes > self._most_bytes:
                if self._everywhere:
                    self._limit()
                else:  # its own thread has to, which is the main one
                    ctypes.pythonapi.Py_AddPendingCall(self._call, None)
                self._most_bytes *= 2  # until that is done, and if it was not for the recording

    def _limit(self, *_: Any) -> int:
        """End if what is recorded takes the memory; if the program's own data do, begin again, before its first step."""
        profiler = None if self._steps else self._stop()
        if profiler is not None and _count_events(profiler) >= MANY_EVENTS:
            self._export(profiler)
        elif profiler is not None:
            self._longest = max(self._longest, profiler, key=_count_events)
            self.begin()
        return 0


def _count_events(profiler: Any) -> int:
    return len(profiler.profiler.kineto_results.events()) if profiler is not None else 0


def start_recording(torch: Any) -> None:
    """Record until the program ends, its optimizers have made :data:`MOST_STEPS` steps, or the recording grows too large before
    the first step.
    """
    recording = TorchRecording(torch)
    if not recording.begin():
        return
    atexit.register(recording.end)
    os.register_at_fork(after_in_child=lambda: _leave_child_alone(torch))
    optimizers = importlib.import_module("torch.optim.optimizer")  # which `torch.optim` does not name
    if hasattr(optimizers, "register_optimizer_step_post_hook"):  # from torch 2.0 on
        optimizers.register_optimizer_step_post_hook(recording.count_step)
    _thread.start_new_thread(recording.watch, ())  # one that `threading` lists would be the program's


def _leave_child_alone(torch: Any) -> None:
    """Record nothing in a forked process, and let it end: torch waits at its end for the profiler's threads, which it lacks."""
    with suppress(AttributeError):
        torch._C._autograd._clear_callbacks()
        libc = ctypes.CDLL(None)
        libc.on_exit(libc._exit, None)  # called with the status, before what was there earlier; the last one first
        libc.on_exit(libc.fcloseall, None)  # writes what C has not written yet


def _read_memory() -> int:
    """Return how many bytes of memory this process takes; 0 if the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def follow_import(start: Callable[[Any], None], hook: str) -> None:
    """Call `start` once torch is imported, and run the `sitecustomize` that the program would have without the file `hook`."""
    sys.meta_path.insert(0, TorchFinder(start))
    here = Path(hook).parent.resolve()
    places = [place for place in sys.path if Path(place).resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get(TRACES_VARIABLE) and __name__ == "sitecustomize":
    follow_import(start_recording, __file__)
