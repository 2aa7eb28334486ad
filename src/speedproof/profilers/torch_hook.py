"""Starts torch.profiler in whatever program imports torch, and leaves what it recorded in the folder that a variable names.

A profiled program finds this file as `sitecustomize`, so it is of the standard library alone, for any Python that has a torch.
"""

import atexit
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import os
import sys
import threading
from pathlib import Path
from typing import Any

TRACES_VARIABLE = "SPEEDPROOF_TORCH_TRACES"
EXPORT_SUFFIX = ".json.gz"
MOST_STEPS = 200  # of an optimizer; a longer recording costs memory and tells no more of an iteration


class TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch as the others do, and has the profiler start once it is imported."""

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
                start_recording(module)

            spec.loader.exec_module = execute_and_start  # type: ignore[method-assign]
        return spec


def start_recording(torch: Any) -> None:
    """Record from now on, until the program ends or its optimizers made :data:`MOST_STEPS` steps."""
    kinds = torch.profiler.ProfilerActivity
    known = torch.profiler.supported_activities()  # asks no driver, which a program's forked processes would not survive
    profiler = torch.profiler.profile(activities=[kind for kind in (kinds.CPU, kinds.CUDA) if kind in known])
    profiler.start()
    process, thread, recording = os.getpid(), threading.get_ident(), [True]

    def stop() -> None:
        if recording and os.getpid() == process and threading.get_ident() == thread:  # another one cannot stop it
            recording.clear()
            if not torch.autograd._profiler_enabled():  # the program profiled itself, and ended this one
                return
            profiler.stop()
            # Under its last name only when it is whole: a program may be killed meanwhile.
            part = Path(os.environ[TRACES_VARIABLE], f"{process}.part.gz")
            profiler.export_chrome_trace(str(part))
            part.replace(part.with_name(f"{process}{EXPORT_SUFFIX}"))

    steps = itertools.count(1)

    def count(*_: Any) -> None:
        if next(steps) >= MOST_STEPS:
            stop()

    atexit.register(stop)
    optimizers = importlib.import_module("torch.optim.optimizer")  # which `torch.optim` does not name
    if hasattr(optimizers, "register_optimizer_step_post_hook"):  # from torch 2.0 on
        optimizers.register_optimizer_step_post_hook(count)


def run_hidden() -> None:
    """Run the `sitecustomize` that the program would have without this one."""
    here = Path(__file__).parent.resolve()
    places = [place for place in sys.path if Path(place).resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get(TRACES_VARIABLE) and __name__ == "sitecustomize":
    sys.meta_path.insert(0, TorchFinder())
    run_hidden()
