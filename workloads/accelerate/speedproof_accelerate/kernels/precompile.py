"""Compile kernels in parallel, each once, before they are needed.

Otherwise each call compiles its kernel on first use, and two threads that need the same kernel both compile it.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from threading import Lock, Thread
from typing import Any

from triton import knobs
from triton.runtime import driver

from speedproof_accelerate.kernels.launch import allow_next, wait_for_previous

_DIGESTING = Lock()


def make_ready(function: Any, specialization: str) -> None:
    """Compile a kernel, load it to the current device, and make what launches it."""
    kernel = function.preload(specialization)
    kernel.run  # noqa: B018 (the property loads it)


def compile_to_disk(function: Any, specialization: str) -> None:
    """Compile a kernel and what launches it to Triton's folder on disk, from where other processes load them."""
    kernel = function.preload(specialization)
    driver.active.launcher_cls(kernel.src, kernel.metadata)  # Triton up to 3.6 compiles it


def collect_kernels(
    calls: Iterable[Callable[[], object]], make: Callable[[Any, str], None] = make_ready
) -> list[Callable[[], object]]:
    """Return a function for each kernel that these calls would launch; it makes the kernel, in any thread.

    Kernels that are not compiled yet are collected and not launched, so the results of the calls hold no values. Nothing else
    may launch kernels meanwhile.
    """
    collected: dict[tuple[str, str], Callable[[], object]] = {}

    def collect(*, key: str, fn: Any, compile: dict[str, Any], **_: object) -> bool:
        collected[fn.name, key] = partial(make, fn.jit_function, compile["specialization_data"])
        return True  # neither compiled nor launched

    before = knobs.runtime.jit_cache_hook
    knobs.runtime.jit_cache_hook = collect
    try:
        for call in calls:
            call()
    finally:
        knobs.runtime.jit_cache_hook = before
    if collected:
        _digest_compiler()
        # A kernel's key in Triton's cache depends on whether the functions it calls have keys: compute theirs first.
        for called in (wait_for_previous, allow_next):
            called.cache_key  # noqa: B018 (the property remembers it)
    return list(collected.values())


def pretend_current_gpu() -> None:
    """Let Triton compile for the current GPU of NVIDIA in this process and in its forks, which cannot ask CUDA for it."""
    from triton.backends.nvidia.driver import CudaDriver

    known = CudaDriver()
    target = known.get_current_target()
    known.get_current_target = lambda: target
    known.get_current_device = known.get_current_stream = lambda *_: 0
    driver.set_active(known)


def begin_digest() -> None:
    """Begin to compute Triton's checksum of itself, in a thread, while the network is prepared."""
    Thread(target=_digest_compiler, daemon=True).start()


def _digest_compiler() -> None:
    """Let Triton compute the checksum of itself, half a gigabyte, once; otherwise each thread does.

    It takes two seconds and is then cached. The function has moved between modules from one version of Triton to the next.
    """
    with _DIGESTING:
        _digest_once()


def _digest_once() -> None:
    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        with suppress(ImportError, AttributeError):
            import_module(module).triton_key()
            return
