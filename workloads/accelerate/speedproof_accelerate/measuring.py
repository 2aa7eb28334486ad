"""How long parts of a network take by a kernel and by torch, at the shapes that a batch gives them."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from speedproof_accelerate.kernels.channels_last import as_channels_last
from speedproof_accelerate.parts import Part, load

_WARM_UPS, _CALLS, _ROUNDS = 3, 5, 3
# A kernel shall be so much faster at least, or torch's own stays: below that is noise.
_WORTH = 0.97


def count_cores() -> int:
    """Return how many cores this process may use, where the system tells; else how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Call:
    """What a part was called with."""

    shape: torch.Size
    kind: torch.dtype
    device: torch.device
    differentiated: bool


@dataclass(frozen=True)
class Times:
    """Forward and backward of a part, once, in ms."""

    kernel_ms: float
    torch_ms: float

    @property
    def pays(self) -> bool:
        """Return whether the kernel is faster by more than noise."""
        return self.kernel_ms < _WORTH * self.torch_ms


def note_calls(network: nn.Module, example: Tensor, parts: dict[str, Part], precision: torch.dtype | None) -> dict[str, Call]:
    """Return what each part is called with in a forward pass of the example, by its name; the network stays as it was."""
    calls: dict[str, Call] = {}

    def noting(name: str) -> Callable[[Tensor], None]:
        def note(x: Tensor) -> None:
            calls[name] = Call(x.shape, x.dtype, x.device, x is not example)

        return note

    autocast = torch.autocast(example.device.type, dtype=precision, enabled=precision is not None)
    with left_to_torch(parts, "its calls are noted"), keeping_buffers(network), torch.no_grad(), autocast:
        for name, part in parts.items():
            part.watch = noting(name)
        try:
            network(example)
        finally:
            for part in parts.values():
                part.watch = None
    return calls


def compile_kernels(network: nn.Module, example: Tensor, precision: torch.dtype | None) -> None:
    """Compile the kernels that a batch takes in both directions, each once, side by side on all cores."""
    call_once = partial(train_once, network, example, precision)
    enter = partial(torch.cuda.set_device, example.device) if example.is_cuda else None  # each thread has a device of its own
    with keeping_buffers(network), ThreadPoolExecutor(count_cores(), initializer=enter) as threads:
        list(threads.map(lambda kernel: kernel(), load("precompile").collect_kernels([call_once])))


def measure_parts(
    parts: dict[str, Part], calls: dict[str, Call], precision: torch.dtype | None, graphs: bool
) -> dict[str, Times]:
    """Return the times of each part that was called; equal parts of equal calls are measured once.

    With `graphs` as the GPU takes them, else as they are launched one after another.
    """
    known: dict[tuple[str, Call], Times] = {}
    found: dict[str, Times] = {}
    for name, call in calls.items():
        part = parts[name]
        alike = (f"{type(part).__name__} {part!r}", call)
        if alike not in known:
            known[alike] = _measure(part, call, precision, graphs)
        found[name] = known[alike]
    return found


def _measure(part: Part, call: Call, precision: torch.dtype | None, graphs: bool) -> Times:
    x = as_channels_last(torch.randn(call.shape, device=call.device, dtype=call.kind))
    x.requires_grad_(call.differentiated)
    autocast = torch.autocast(call.device.type, dtype=precision, enabled=precision is not None, cache_enabled=not graphs)
    with keeping_buffers(part), autocast:
        if part.find_misfit(x):
            return Times(float("inf"), 0.0)
        above = as_channels_last(torch.randn_like(part.compute_as_torch(x)))
        inputs = [one for one in (x, *part.parameters()) if one.requires_grad]

        def time_ms(compute: Callable[[Tensor], Tensor]) -> float:
            def call_once() -> None:
                y = as_channels_last(compute(x))  # what follows reads channels last
                if y.requires_grad:
                    torch.autograd.grad(y, inputs, above.to(y.dtype), allow_unused=True)

            return _time_ms(_record(call_once)) / _CALLS if graphs else _time_ms(call_once)

        return Times(time_ms(part.compute), time_ms(part.compute_as_torch))


def measure_network(network: nn.Module, example: Tensor, parts: dict[str, Part], precision: torch.dtype | None) -> Times:
    """Return the times of a network with its parts, and with torch's own in all their places."""
    call_once = partial(train_once, network, example, precision)
    with keeping_buffers(network):
        with_parts = _time_ms(call_once)
        with left_to_torch(parts, "the network is measured without its parts"):
            return Times(with_parts, _time_ms(call_once))


def train_once(network: nn.Module, example: Tensor, precision: torch.dtype | None) -> None:
    """Do a forward and a backward pass, whose gradients nobody keeps."""
    parameters = [one for one in network.parameters() if one.requires_grad]
    with torch.autocast(example.device.type, dtype=precision, enabled=precision is not None):
        total: Any = sum(one.float().mean() for one in _find_tensors(network(example)))
    if parameters:
        torch.autograd.grad(total, parameters, allow_unused=True)


def _find_tensors(outs: Any) -> Iterator[Tensor]:
    """Yield the tensors in what a network returns: one, or lists and dictionaries of them."""
    if isinstance(outs, Tensor):
        yield outs
    elif isinstance(outs, dict | list | tuple):
        for one in outs.values() if isinstance(outs, dict) else outs:
            yield from _find_tensors(one)


@contextmanager
def left_to_torch(parts: dict[str, Part], reason: str) -> Iterator[None]:
    """Have torch's own modules compute in the places of all parts."""
    before = {part: part.own_because for part in parts.values()}
    try:
        for part in parts.values():
            part.own_because = reason
        yield
    finally:
        for part, own in before.items():
            part.own_because = own


@contextmanager
def keeping_buffers(module: nn.Module) -> Iterator[None]:
    """Leave a module's buffers afterwards as they were: running statistics count no trial."""
    before = [buffer.clone() for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, values in zip(module.buffers(), before, strict=True):
                buffer.copy_(values)


def _record(call: Callable[[], None]) -> Callable[[], None]:
    """Return what launches, as one graph, what some of these calls launch: so the launch itself hardly counts."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_CALLS):
            call()
    return graph.replay


def _time_ms(call: Callable[[], None]) -> float:
    """Return how long a call takes, of several one behind the other; the shortest of some rounds."""
    for _ in range(_WARM_UPS):
        call()
    rounds = []
    for _ in range(_ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(_CALLS):
            call()
        end.record()
        end.synchronize()
        rounds.append(begin.elapsed_time(end) / _CALLS)
    return min(rounds)
