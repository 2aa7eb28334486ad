"""How long parts of a network take by a kernel and by torch, at the shapes that a batch gives them."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from speedproof_accelerate.decisions import Decisions
from speedproof_accelerate.kernels.channels_last import as_channels_last
from speedproof_accelerate.parts import Part, load
from speedproof_accelerate.recording import recording

_WARM_UPS, _CALLS, _ROUNDS = 3, 5, 3
# Fewer calls of a round, or of a graph, are enough if they take longer than this together: their launch hardly counts, and
# training waits for them.
_ROUND_MS = 5.0
# Of a network's arrangements: rounds, in each of which every arrangement runs for about so long, or at most so many passes.
_TURNS, _TURN_MS, _MOST_PASSES = 6, 60.0, 8
_HOPELESS = 1.25  # an arrangement that takes so much longer than the fastest is not measured again
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


@dataclass(frozen=True)
class Training:
    """How a network will train: with batches like the example, and in autocast of this precision, or in none."""

    network: nn.Module
    example: Tensor
    precision: torch.dtype | None
    graphs: bool = False

    def autocast(self) -> torch.autocast:
        """Return the context of forward passes."""
        return torch.autocast(self.example.device.type, dtype=self.precision, enabled=self.precision is not None)

    def run(self) -> None:
        """Do a forward and a backward pass, whose gradients nobody keeps."""
        parameters = [one for one in self.network.parameters() if one.requires_grad]
        with self.autocast():
            outs = self.network(self.example)
            total: Any = sum(one.float().mean() for one in _find_tensors(outs))
        if not isinstance(total, Tensor):
            raise TypeError(f"it returns {type(outs).__name__}, not tensors, or lists or dictionaries of them")
        if parameters:
            torch.autograd.grad(total, parameters, allow_unused=True)

    def describe(self) -> tuple[object, ...]:
        """Return what the network's times depend on: modules and their mode, parameters, the batch and torch's settings."""
        modes = [one.training for one in self.network.modules()]
        parameters = [(one.requires_grad, one.dtype, one.stride()) for one in self.network.parameters()]
        about = f"{type(self.network).__module__} {self.network!r} {modes} {parameters}"
        example = self.example
        return about, tuple(example.shape), example.stride(), example.dtype, self.precision, *_list_settings()


def note_calls(training: Training, parts: dict[str, Part]) -> dict[str, Call]:
    """Return what each part is called with in a forward pass of the example, by its name; the network stays as it was."""
    network, example = training.network, training.example
    calls: dict[str, Call] = {}

    def noting(name: str) -> Callable[[Tensor], None]:
        def note(x: Tensor) -> None:
            calls[name] = Call(x.shape, x.dtype, x.device, x is not example)

        return note

    # This pass is not timed: cuDNN need not search its fastest kernels.
    unchanged = left_to_torch(parts, "its calls are noted"), keeping_buffers(network)
    with unchanged[0], unchanged[1], torch.no_grad(), _without_search(), training.autocast():
        for name, part in parts.items():
            part.watch = noting(name)
        try:
            network(example)
        finally:
            for part in parts.values():
                part.watch = None
    return calls


def compile_kernels(training: Training, further: Iterable[Callable[[], None]] = ()) -> None:
    """Compile the kernels that a batch, and further calls, take in both directions, each once, side by side on all cores."""
    example = training.example
    enter = partial(torch.cuda.set_device, example.device) if example.is_cuda else None  # each thread has a device of its own
    with keeping_buffers(training.network), ThreadPoolExecutor(count_cores(), initializer=enter) as threads:
        list(threads.map(lambda kernel: kernel(), load("precompile").collect_kernels([training.run, *further])))


class Stopwatch:
    """Measures parts; equal parts of equal calls are measured once, also by earlier calls of `accelerate`."""

    def __init__(self, precision: torch.dtype | None, graphs: bool, decisions: Decisions) -> None:
        """With `graphs`, parts are measured as the GPU takes them, otherwise as they are launched one after another."""
        self._precision, self._graphs, self._decisions = precision, graphs, decisions
        self._known: dict[tuple[object, ...], Times] = {}

    def list_passes(self, calls: Iterable[tuple[Part, Call]]) -> list[Callable[[], None]]:
        """Return functions that launch the kernels of parts whose times are not known, each of equal calls once."""
        unknown = {self._key(part, call): (part, call) for part, call in calls if self.recall(part, call) is None}
        return [partial(_launch, part, call, self._precision) for part, call in unknown.values()]

    def recall(self, part: Part, call: Call) -> Times | None:
        """Return the times of a part if they are known."""
        key = self._key(part, call)
        if key not in self._known and (found := self._decisions.find(key, 2)):
            self._known[key] = Times(*found)
        return self._known.get(key)

    def measure(self, part: Part, call: Call) -> Times:
        """Return the times of a part."""
        known = self.recall(part, call)
        if known is None:
            known = _measure(part, call, self._precision, self._graphs)
            key = self._key(part, call)
            self._known[key] = known
            self._decisions.note(key, [known.kernel_ms, known.torch_ms])
        return known

    def _key(self, part: Part, call: Call) -> tuple[object, ...]:
        parameters = tuple((one.requires_grad, one.dtype) for one in part.parameters())
        what = f"{type(part).__name__} {part!r}", part.training, tuple(call.shape), call.kind, call.differentiated, parameters
        return "part", *what, self._graphs, self._precision, *_list_settings()


def _list_settings() -> tuple[bool, ...]:
    """Return torch's settings that change how long its operations take."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    return cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32


def _launch(part: Part, call: Call, precision: torch.dtype | None) -> None:
    """Compute a part forward and backward by its kernel."""
    x = _draw(call)
    with keeping_buffers(part), _autocast(call, precision):
        if not part.find_misfit(x):
            _pass(part, part.compute, x)


def _measure(part: Part, call: Call, precision: torch.dtype | None, graphs: bool) -> Times:
    x = _draw(call)
    with keeping_buffers(part), fresh_parameters(part), _autocast(call, precision, cache=not graphs):
        if part.find_misfit(x):
            return Times(float("inf"), 0.0)
        above = as_channels_last(torch.randn_like(part.compute_as_torch(x)))

        def time_ms(compute: Callable[[Tensor], Tensor]) -> float:
            return _time_ms(lambda: _pass(part, compute, x, above), graphs)

        return Times(time_ms(part.compute), time_ms(part.compute_as_torch))


def _pass(part: Part, compute: Callable[[Tensor], Tensor], x: Tensor, above: Tensor | None = None) -> None:
    """Compute a part forward, and backward from a gradient `above`."""
    y = as_channels_last(compute(x))  # what follows reads channels last
    inputs = [one for one in (x, *part.parameters()) if one.requires_grad]
    if y.requires_grad and inputs:  # an activation's parameter alone is not in the part
        torch.autograd.grad(y, inputs, torch.zeros_like(y) if above is None else above.to(y.dtype), allow_unused=True)


def _draw(call: Call) -> Tensor:
    x = as_channels_last(torch.randn(call.shape, device=call.device, dtype=call.kind))
    return x.requires_grad_(call.differentiated)


def _autocast(call: Call, precision: torch.dtype | None, *, cache: bool = True) -> torch.autocast:
    return torch.autocast(call.device.type, dtype=precision, enabled=precision is not None, cache_enabled=cache)


def recall_arrangements(about: tuple[object, ...], names: Iterable[str], decisions: Decisions) -> dict[str, float] | None:
    """Return how long a training pass takes in each arrangement, in ms, if all are known."""
    found = {name: decisions.find(("network", name, *about), 1) for name in names}
    known = {name: times[0] for name, times in found.items() if times is not None}
    return known if len(known) == len(found) else None


def measure_arrangements(
    training: Training, arrangements: dict[str, Callable[[], None]], similar: dict[str, str] | None = None
) -> dict[str, float]:
    """Return how long a training pass of a network takes in each arrangement, in ms; one that runs out of memory: infinity.

    Arrangements take turns, so what else the machine does affects all alike. After a turn, those far behind are dropped.

    Args:
        training: of the network, which then has any of the arrangements.
        arrangements: functions that install them, by their names.
        similar: arrangements that are not measured if another, already measured, takes more than twice the least: infinity.
    """
    others = similar or {}
    times: dict[str, list[float]] = {name: [] for name in arrangements}
    with keeping_buffers(training.network):
        for turn in range(_TURNS if len(arrangements) > 1 else 0):
            for name, install in arrangements.items():
                best = min((min(one) for one in times.values() if one), default=float("inf"))
                if turn == 0 and min(times.get(others.get(name, ""), []), default=0.0) > 2 * best:
                    times[name].append(float("inf"))
                elif turn == 0 or min(times[name]) < _HOPELESS * best:
                    install()
                    times[name].append(_take_turn(training.run, min(times[name], default=0.0)))
    return {name: min(one, default=0.0) for name, one in times.items()}


def _take_turn(call: Callable[[], None], known_ms: float) -> float:
    """Return how long a call takes, of as many as fit into a turn."""
    try:
        if not known_ms:
            for _ in range(_WARM_UPS - 1):
                call()
        known_ms = known_ms or _time_calls(call, 1)
        call()
        return _time_calls(call, max(min(round(_TURN_MS / max(known_ms, 1e-3)), _MOST_PASSES), 1))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return float("inf")


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
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, values in before:
                buffer.copy_(values)


@contextmanager
def fresh_parameters(module: nn.Module, copies: Mapping[int, nn.Parameter] | None = None) -> Iterator[dict[int, nn.Parameter]]:
    """Replace each parameter by a new one while the context is open; yield the new ones in a dict, by the `id` of the old.

    A new parameter shares the memory of the old one. If `copies` has an entry for the `id` of the old one, that copy is used
    instead.

    An earlier pass may be alive in results that a network keeps. Autograd would then hand over gradients on the stream of that
    pass, and no recording may wait for torch's default stream.
    """
    formers = {id(one): one for own in _list_owners(module) for one in own.values() if one is not None}
    fresh = {number: _renew(one) for number, one in formers.items()} | dict(copies or {})
    back = {id(fresh[number]): one for number, one in formers.items()}
    try:
        _exchange(module, fresh)
        yield fresh
    finally:
        _exchange(module, back)  # restores these alone: a pass may have replaced others


def _list_owners(module: nn.Module) -> list[dict[str, nn.Parameter | None]]:
    """Return the dictionaries of a module's parameters, each once: some modules share them."""
    return list({id(one._parameters): one._parameters for one in module.modules()}.values())


def _exchange(module: nn.Module, others: dict[int, nn.Parameter]) -> None:
    """Put others in the places of parameters, by their `id`."""
    for own in _list_owners(module):
        for name, former in list(own.items()):
            if id(former) in others:
                own[name] = others[id(former)]


def _renew(former: nn.Parameter) -> nn.Parameter:
    """Return a new parameter that shares a parameter's memory, its class and its attributes."""
    memory, kind = former.detach(), type(former)
    fresh: Any
    if issubclass(kind, nn.Parameter) and type(memory) is Tensor:  # not a tensor of another class that is called a parameter
        fresh = memory.as_subclass(kind).requires_grad_(former.requires_grad)
    else:
        fresh = nn.Parameter(memory, former.requires_grad)
    vars(fresh).update(vars(former))
    return cast(nn.Parameter, fresh)


@contextmanager
def _without_search() -> Iterator[None]:
    """Let cuDNN take the kernels that it assumes to be fast."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _record(call: Callable[[], None], calls: int) -> Callable[[], None]:
    """Return what launches, as one graph, what so many calls launch: so the launch itself hardly counts."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with recording(graph):
        for _ in range(calls):
            call()
    return graph.replay


def _time_ms(call: Callable[[], None], graphs: bool) -> float:
    """Return how long a call takes, of several one behind the other, of slow ones less; the shortest of some rounds."""
    for _ in range(_WARM_UPS):
        call()
    calls = max(1, min(_CALLS, int(_ROUND_MS / max(_time_calls(call, 1), 1e-3))))
    if not graphs:
        return min(_time_calls(call, calls) for _ in range(_ROUNDS))
    replay = _record(call, calls)
    replay()  # the first one also uploads the graph
    return min(_time_calls(replay, calls) for _ in range(_ROUNDS)) / calls


def _time_calls(call: Callable[[], None], calls: int) -> float:
    """Return how long one of so many calls takes."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls
