"""Kernels compiled side by side, each once, before they are needed.

Where calls follow one another, each waits for its own kernel; and where several threads make such calls, each compiles what it
needs, whether another is at it or not. And a quarter of compiling holds Python's lock, of which threads have one: forks of this
process compile, into Triton's cache on disk, from where threads load.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import torch
from triton import knobs
from triton.runtime import driver

Kernel = Callable[[], object]  # compiles a kernel, or finds it on disk, and loads it
_MOST_S = 60.0  # forks that are not done then are ended, and what they have not compiled this process does


def note_kernels(calls: Iterable[Callable[[], object]]) -> list[Kernel]:
    """Return what makes each kernel ready that these calls would launch: one function each, for any thread.

    Kernels that are not ready yet are noted instead of being launched, so that the calls' results are no values. Nobody else
    may launch kernels meanwhile.
    """
    noted: dict[tuple[str, str], Kernel] = {}

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
    return list(noted.values())


def make_ready(kernels: Sequence[Kernel], workers: int) -> None:
    """Make noted kernels ready for the current device, by so many processes and threads."""
    if not kernels:
        return
    first, *others = kernels
    if not _was_on_disk(first):
        _compile_in_forks(others, min(workers, len(others)))
    enter = partial(torch.cuda.set_device, torch.cuda.current_device()) if torch.cuda.is_available() else None
    with ThreadPoolExecutor(workers, initializer=enter) as threads:  # each thread has a device of its own
        list(threads.map(lambda kernel: kernel(), others))


def _was_on_disk(kernel: Kernel) -> bool:
    """Make a kernel ready, and return whether Triton found it compiled."""
    found: list[bool] = []
    before = knobs.compilation.listener

    def note(**told: Any) -> None:
        found.append(told["cache_hit"])
        if before is not None:
            before(**told)

    knobs.compilation.listener = note
    try:
        kernel()
    finally:
        knobs.compilation.listener = before
    return all(found)


class _StillDriver:
    """The driver as it was before a fork, in which nobody may ask the device anything."""

    def __init__(self) -> None:
        """Ask what compiling needs to know."""
        self._driver = driver.active
        self._device, self._target = self._driver.get_current_device(), self._driver.get_current_target()

    def __getattr__(self, name: str) -> Any:
        """Return what is of the driver itself, as what makes launchers."""
        return getattr(self._driver, name)

    def get_current_device(self) -> int:
        """Return the number of the device for which this process compiled."""
        return int(self._device)

    def get_current_target(self) -> Any:
        """Return what is compiled for."""
        return self._target


_forked: Sequence[Kernel] = ()  # what a fork of this process compiles


def _compile_in_forks(kernels: Sequence[Kernel], processes: int) -> None:
    """Compile kernels into Triton's cache on disk. What does not come to be there is compiled by who makes it ready."""
    if processes < 2:
        return
    pool = multiprocessing.get_context("fork").Pool(processes, _enter_fork, (kernels, _StillDriver()))
    with pool, suppress(Exception):
        pool.map_async(_compile, range(len(kernels)), chunksize=1).get(_MOST_S)


def _enter_fork(kernels: Sequence[Kernel], still: _StillDriver) -> None:
    global _forked
    _forked = kernels
    driver.set_active(still)
    for one in (signal.SIGTERM, signal.SIGINT):  # what handles these is the program's
        signal.signal(one, signal.SIG_DFL)


def _compile(number: int) -> None:
    kernel: Any = _forked[number]
    function, specialization = kernel.args
    compiled = function.preload(specialization)
    driver.active.launcher_cls(compiled.src, compiled.metadata)  # some versions of Triton compile what launches, too


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
