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
from triton.compiler import ASTSource
from triton.runtime import driver

from speedproof_accelerate.kernels.launch import allow_next, wait_for_previous

_DIGESTING = Lock()

Task = Callable[[], object]


def make_ready(function: Any, specialization: str) -> None:
    """Compile a kernel, load it to the current device, and make what launches it."""
    kernel = function.preload(specialization)
    kernel.run  # noqa: B018 (the property loads it)


def make_launcher(function: Any, signature: dict[str, Any]) -> None:
    """Compile what launches kernels with such arguments to Triton's folder on disk; Triton compiles none from 3.7 on."""
    with suppress(AttributeError):  # a launcher also keeps a compiled kernel's metadata, but is compiled without it
        driver.active.launcher_cls(ASTSource(function, signature), None)


def collect_kernels(calls: Iterable[Task]) -> list[Task]:
    """Return a function for each kernel that these calls would launch; it makes the kernel, in any thread.

    Kernels that are not compiled yet are collected and not launched, so the results of the calls hold no values. Nothing else
    may launch kernels meanwhile.
    """
    return [partial(make_ready, function, noted["specialization_data"]) for function, noted in _collect(calls)]


def collect_compilations(calls: Iterable[Task]) -> list[Task]:
    """Return functions that compile these calls' kernels and launchers to Triton's folder on disk, for other processes.

    Kernels come first, then launchers, of which equal ones are compiled once.
    """
    collected = _collect(calls)
    kernels = [partial(function.preload, noted["specialization_data"]) for function, noted in collected]
    launchers = {_describe_launcher(noted["signature"]): (function, noted["signature"]) for function, noted in collected}
    return [*kernels, *(partial(make_launcher, *one) for one in launchers.values())]


def _describe_launcher(signature: dict[str, Any]) -> tuple[Any, ...]:
    """Return what decides how kernels are launched: to a launcher, all pointers are alike."""
    return tuple("*" if str(kind).startswith("*") else kind for kind in signature.values())


def _collect(calls: Iterable[Task]) -> list[tuple[Any, dict[str, Any]]]:
    """Return the kernels that these calls would launch, and what Triton reports of each; those of the longest source first."""
    collected: dict[tuple[str, str], tuple[Any, dict[str, Any]]] = {}

    def collect(*, key: str, fn: Any, compile: dict[str, Any], **_: object) -> bool:
        collected[fn.name, key] = fn.jit_function, compile
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
    return sorted(collected.values(), key=lambda one: len(one[0].src), reverse=True)


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
