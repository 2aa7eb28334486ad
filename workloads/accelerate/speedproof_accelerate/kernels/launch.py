"""How kernels are launched.

Programmatic dependent launch: from Hopper on, a kernel may start while the previous one is finishing. Until
:func:`wait_for_previous` returns, a kernel must not read or write memory.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import knobs
from triton.runtime import driver
from triton.runtime.jit import JITFunction

try:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
except ImportError:  # an older Triton, or one for GPUs of other vendors
    gdc_launch_dependents = gdc_wait = None

_KNOWN = gdc_wait is not None and torch.version.hip is None
_OVERLAPS = tl.constexpr(_KNOWN and torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0))

LAUNCH = {"launch_pdl": True} if _OVERLAPS else {}  # options of every launch


@triton.jit
def wait_for_previous() -> None:
    """Wait until the previous kernel has ended and its writes are visible."""
    if _OVERLAPS:
        gdc_wait()


@triton.jit
def allow_next() -> None:
    """Let the next kernel's programs start once all of this kernel's have started, and not only once they have ended.

    Use it in a kernel of few programs before one of many. If many programs called it, those of the next kernel would crowd the
    first multiprocessors that become free.
    """
    if _OVERLAPS:
        gdc_launch_dependents()


_MOST_READY = 1024  # launches that a kernel remembers; a network has a few for each of its layers


class Kernel(JITFunction):
    """A kernel of Triton that remembers, for each kind of call, what it has compiled.

    For each launch, Triton binds arguments, looks at each, makes a text of all options and reads the environment. But equal
    numbers, constants and types of tensors, if they are equally aligned, always have the same compiled kernel.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        """Take what Triton's own takes."""
        super().__init__(*given, **options)
        self._ready: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        """Return what launches so many programs."""
        return partial(self._launch, grid)

    def _launch(self, grid: tuple[int, ...], *given: Any, **constants: Any) -> Any:
        active = driver.active
        device = active.get_current_device()
        key = device, *map(_describe, given), *constants.items()
        ready = self._ready.get(key)
        if ready is None or self.pre_run_hooks or _is_watched():
            made = self.run(*given, grid=grid, warmup=False, **constants)
            self._remember(key, made, len(given), constants)
            return made
        made, run, function, metadata, last = ready
        x, y, z = (*grid, 1, 1)[:3]
        run(x, y, z, active.get_current_stream(device), function, metadata, None, None, None, *given, *last)
        return made

    def _remember(self, key: tuple[Any, ...], made: Any, count: int, constants: dict[str, Any]) -> None:
        names = self.arg_names[count:]
        if made is None or not all(name in constants for name in names):  # not compiled, but noted; or there are defaults
            return
        if len(self._ready) >= _MOST_READY:
            self._ready.clear()
        last = tuple(constants[name] for name in names)
        self._ready[key] = made, made.run, made.function, made.packed_metadata, last


def _describe(one: Any) -> Any:
    """Return what decides which compiled kernel takes an argument."""
    if isinstance(one, Tensor):
        return one.dtype, one.data_ptr() % 16
    return one if type(one) is int else (type(one), one)


def _is_watched() -> bool:
    """Return whether a profiler of Triton's wants to know of launches."""
    return any(getattr(hook, "calls", hook) for hook in (knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook))


def jit(do_not_specialize: list[str]) -> Callable[[Callable[..., None]], Any]:
    """Make kernels of functions, as `triton.jit` does; without a GPU, they may be interpreted."""

    def make(function: Callable[..., None]) -> Any:
        make_own = triton.jit if knobs.runtime.interpret else Kernel
        return make_own(function, do_not_specialize=do_not_specialize)

    return make
