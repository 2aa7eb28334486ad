"""Kernels compiled side by side, each once, before they are needed.

Where calls follow one another, each waits for its own kernel; and where several threads make such calls, each compiles what it
needs, whether another is at it or not.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from triton import knobs

from speedproof_accelerate.kernels.launching import follow, let_next_in


def note_kernels(calls: Iterable[Callable[[], object]]) -> list[Callable[[], object]]:
    """Return what makes each kernel ready that these calls would launch: one function each, for any thread.

    Kernels that are not ready yet are noted instead of being launched, so that the calls' results are no values. Nobody else
    may launch kernels meanwhile.
    """
    noted: dict[tuple[str, str], Callable[[], object]] = {}

    def note(*, key: str, fn: Any, compile: dict[str, Any], **_: object) -> bool:
        noted[fn.name, key] = partial(_make_ready, fn.jit_function, compile["specialization_data"])
        return True  # neither compiled nor launched

    before = knobs.runtime.jit_cache_hook
    knobs.runtime.jit_cache_hook = note
    try:
        for call in calls:
            call()
    finally:
        knobs.runtime.jit_cache_hook = before
    if noted:
        _digest_compiler()
        # Triton's key of a kernel is another one while what it calls has none: so first these, in all processes and threads.
        for called in (follow, let_next_in):
            called.cache_key  # noqa: B018 (the property remembers it)
    return list(noted.values())


def _digest_compiler() -> None:
    """Have Triton digest itself, half a gigabyte, by which it finds compiled kernels: each thread would do it again.

    It remembers the digest once it has it, two seconds later. Its function has moved from one module to another.
    """
    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        with suppress(ImportError, AttributeError):
            import_module(module).triton_key()
            return


def _make_ready(function: Any, specialization: str) -> None:
    """Compile a kernel, load it to the current device, and make what launches it."""
    kernel = function.preload(specialization)
    kernel.run  # noqa: B018 (the property loads it)
