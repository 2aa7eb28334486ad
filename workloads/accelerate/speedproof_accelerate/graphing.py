"""A network's forward and backward pass in training, each launched as one CUDA graph, for batches of a few shapes."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.second_stream import beside
from speedproof_accelerate.measuring import fresh_parameters, keeping_buffers
from speedproof_accelerate.parts import as_plain
from speedproof_accelerate.recording import make_streams, recording
from speedproof_accelerate.rounding import Rounded

SHAPES = 4  # of batches that are recorded; others are computed operation by operation
_WARM_UPS = 3


def graph_training(network: nn.Module, example: Tensor, precision: torch.dtype | None, shapes: int = SHAPES) -> None:
    """Record what the network does in training with batches of the example's shape, and launch it as a whole from then on.

    The first training batch of another shape is recorded, too, up to so many shapes. All else is computed operation by
    operation, as before: more shapes, evaluation, passes without gradients, a batch whose gradient is needed, and passes in
    autocast of another precision. If weights or buffers have moved in memory, or if others are trained or modules have changed
    their mode, everything is recorded again.

    Recordings share memory, so a network's results and gradients are valid until its next training batch. The backward pass
    of a batch must come before the next batch. Recording leaves buffers unchanged.

    Args:
        network: in training mode, on a GPU.
        example: shape (items, channels, …); its values do not matter.
        precision: of the autocast in which it trains. Default: no autocast.
        shapes: at most so many are recorded, with the example's.

    Raises:
        ValueError: the network is not in training mode, or the example is not on a GPU.
    """
    require_training(network)
    if not example.is_cuda:
        raise ValueError(f"graphs are recorded on a GPU; the example is on {example.device}")
    forget_graphs(network)
    # Its collectives would be run by the ranks that record a shape, and awaited by the others.
    synchronizes = any(isinstance(one, nn.SyncBatchNorm) for one in network.modules())
    graphed = GraphedForward(network, network.forward, example.device, precision, 1 if synchronizes else shapes)
    graphed.record(example)
    network.forward = graphed


def require_training(network: nn.Module) -> None:
    """Raise a ValueError if a network is not in training mode."""
    if not network.training:
        raise ValueError("graphs are recorded of a network in training; call its train() first")


def forget_graphs(network: nn.Module) -> None:
    """Let a network compute operation by operation again, if it was recorded."""
    recorded = vars(network).get("forward")
    if isinstance(recorded, GraphedForward):
        del network.forward
        if recorded.eager != network.forward:  # it had one of its own
            network.forward = recorded.eager


@dataclass
class Recording:
    """The graphs of one shape of batches, and the tensors that they read and write.

    Attributes:
        given: the batch.
        outs: the tensors in the result.
        result: the result, with tensors in the places of `outs`.
        above: gradients of `outs`; None: it has none.
        parameters: those that are trained.
        below: their gradients; None: it has none.
        forward: the recorded forward pass.
        backward: the recorded backward pass; None: nothing is trained.
        rounded: weights that the graphs read in half precision.
    """

    given: Tensor
    outs: list[Tensor]
    result: Callable[[Sequence[Tensor]], Any]
    above: list[Tensor | None]
    parameters: list[nn.Parameter]
    below: list[Tensor | None]
    forward: Any
    backward: Any
    rounded: Rounded

    def compute(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the results of a batch."""
        self.given.copy_(x)
        self.forward.replay()
        return tuple(one.detach() for one in self.outs)

    def differentiate(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return the gradients of the parameters."""
        for read, found in zip(self.above, gradients, strict=True):
            if read is not None:
                read.zero_() if found is None else read.copy_(found)
        if self.backward is not None:
            self.backward.replay()
        return [None if one is None else one.detach() for one in self.below]


class GraphedForward:
    """Takes the place of a network's `forward`: launches what is recorded, and calls the network's own for all else.

    Attributes:
        eager: the network's own.
    """

    def __init__(
        self, network: nn.Module, eager: Callable[..., Any], device: torch.device, precision: torch.dtype | None, shapes: int
    ) -> None:
        """Record nothing yet."""
        self.eager = eager
        self._network, self._device, self._precision, self._shapes = network, device, precision, shapes
        self._recordings: dict[tuple[torch.Size, torch.dtype], Recording | None] = {}
        self._pool: Any = None
        self._streams: Any = None  # recordings can share memory only if they share streams
        self._turn = 0
        # Ways to replace the network's parameters in a recording, the fastest first. A way that fails is not tried again.
        self._ways: list[Callable[[nn.Module, torch.dtype | None], Rounded]] = [Rounded.of, lambda *_: Rounded()]
        self._modules, self._places = list(network.modules()), _list_tensors(network)
        self._state = self._observe()

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Return the network's result."""
        if named or len(given) != 1 or not self._can_launch(given[0]):
            return self.eager(*given, **named)
        x = as_plain(given[0])
        recording = self.record(x, required=False)
        if recording is None:
            return self.eager(*given)
        self._turn += 1
        self._keep_gradients()
        return recording.result(cast(Any, _Replay.apply)(self, recording, x, *recording.parameters))

    def _keep_gradients(self) -> None:
        """Copy gradients that the optimizer has not taken yet: autograd keeps a first one where a recording wrote it.

        The next pass, of any recording, may write there.
        """
        for made in filter(None, self._recordings.values()):
            for parameter, written in zip(made.parameters, made.below, strict=True):
                kept = parameter.grad  # the network itself lists its parameters more slowly
                if kept is not None and written is not None and kept.data_ptr() == written.data_ptr():
                    parameter.grad = kept.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return the plain `forward` of the network's copy, whose tensors no graph knows."""
        copied = memo.get(id(self._network))
        return MethodType(type(self._network).forward, copied) if copied is not None else self.eager

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a network be saved as a whole: the loaded one computes operation by operation."""
        return getattr, (self._network, "forward")

    def record(self, x: Tensor, *, required: bool = True) -> Recording | None:
        """Return the recording of a batch's shape, made if there is none; None: this shape is not recorded.

        If it is not required, a failure is a warning.
        """
        if self._observe() != self._state:
            self._recordings.clear()
            self._pool = None  # the last graph's end ends it
            self._modules, self._places = list(self._network.modules()), _list_tensors(self._network)
            self._state = self._observe()
        key = x.shape, x.dtype
        if key not in self._recordings and len(self._recordings) < self._shapes:
            self._turn += 1
            try:
                self._recordings[key] = self._record(x)
            except RuntimeError as error:
                if required:
                    raise
                self._recordings[key] = None
                said = str(error).partition("\n")[0]
                warnings.warn(f"batches of shape {tuple(x.shape)} are not recorded as a graph: {said}", stacklevel=4)
        return self._recordings.get(key)

    def _observe(self) -> list[int]:
        """Return what a recording holds for: which modules are in training, where tensors are, and which are trained."""
        return [one.training for one in self._modules] + _find_addresses(self._places)

    def end_turn(self, turn: int) -> None:
        """Begin a backward pass, of which each forward pass has one; both run before the next.

        Raises:
            RuntimeError: another pass has used the memory that this one reads.
        """
        if turn != self._turn:
            raise RuntimeError(
                "a backward pass of a network recorded as graphs finds the memory of another pass; "
                "call backward once for each batch, before the next batch"
            )
        self._turn += 1

    @property
    def turn(self) -> int:
        """Return the number of the pass that uses the memory."""
        return self._turn

    def _can_launch(self, x: Any) -> bool:
        """Return whether a graph may compute a batch as the network would."""
        if not (isinstance(x, Tensor) and self._network.training and torch.is_grad_enabled()):
            return False
        if x.device != self._device or x.requires_grad or torch.compiler.is_compiling():
            return False
        kind = self._device.type
        if torch.is_autocast_enabled(kind) != (self._precision is not None):
            return False
        if self._precision is not None and torch.get_autocast_dtype(kind) != self._precision:
            return False
        return kind != "cuda" or not torch.cuda.is_current_stream_capturing()

    def _record(self, x: Tensor) -> Recording:
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._streams = self._streams or make_streams(self._device)
        # Autocast keeps no copies of weights between passes: a graph would find those of its recording.
        autocast = torch.autocast("cuda", dtype=self._precision, enabled=self._precision is not None, cache_enabled=False)
        formers = list(self._network.parameters())
        parameters = [one for one in formers if one.requires_grad]
        given = x.detach().clone()
        with keeping_buffers(self._network), autocast, torch.enable_grad():
            while self._ways:
                rounded = self._ways[0](self._network, self._precision)
                with fresh_parameters(self._network, rounded.find()) as fresh:
                    torch.cuda.synchronize()
                    with torch.cuda.stream(self._streams[0]):
                        alone = computes_alone(rounded.watch(self.eager), given, formers, fresh)
                    if alone:
                        own = [fresh[id(one)] for one in parameters]
                        made = _record(self.eager, given, own, self._pool, self._streams, rounded)
                        made.parameters = parameters
                        return made
                self._ways.pop(0)
            return _record(self.eager, given, parameters, self._pool, self._streams, Rounded())


class _Replay(Function):
    @staticmethod
    def forward(ctx: Any, graphed: GraphedForward, recording: Recording, x: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        ctx.graphed, ctx.recording, ctx.turn = graphed, recording, graphed.turn
        ctx.set_materialize_grads(False)
        outs = recording.compute(x)
        ctx.mark_non_differentiable(*(out for out, above in zip(outs, recording.above, strict=True) if above is None))
        return outs

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.graphed.end_turn(ctx.turn)
        return None, None, None, *ctx.recording.differentiate(gradients)


def computes_alone(
    eager: Callable[[Tensor], Any], given: Tensor, formers: Sequence[nn.Parameter], fresh: Mapping[int, nn.Parameter]
) -> bool:
    """Return whether a network computes with fresh parameters, and not with the former ones, which it may keep elsewhere, too.

    A recording would miss those gradients. Nor may it move the fresh ones in memory, as torch's recurrent layers do on a GPU:
    the optimizer would change what no recording reads.
    """
    if any(id(one) not in fresh for one in formers):  # it lists parameters that no module has
        return False
    trained = [one for one in formers if one.requires_grad]
    before = [(one.data_ptr(), fresh[id(one)].data_ptr()) for one in formers]
    try:
        outs = [one for one in find_outs(eager(given)) if one.requires_grad]
        # Only paths to the former ones are computed: usually there is none.
        above = [torch.zeros_like(one) for one in outs]
        found = torch.autograd.grad(outs, trained, above, allow_unused=True) if outs and trained else ()
    except torch.OutOfMemoryError:
        raise
    except Exception:  # it may look something up by its parameter; any other failure will come again
        return False
    moved = [(one.data_ptr(), fresh[id(one)].data_ptr()) for one in formers] != before
    return not moved and all(one is None for one in found)


def _record(
    eager: Callable[[Tensor], Any],
    given: Tensor,
    parameters: list[nn.Parameter],
    pool: Any,
    streams: tuple[Any, Any],
    rounded: Rounded,
) -> Recording:
    """Record a forward and a backward pass."""
    record = partial(recording, pool=pool, stream=streams[0])

    def differentiate(outs: list[Tensor], above: list[Tensor | None]) -> Sequence[Tensor | None]:
        return torch.autograd.grad(
            [out for out, one in zip(outs, above, strict=True) if one is not None],
            parameters,
            [one for one in above if one is not None],
            allow_unused=True,
        )

    torch.cuda.synchronize()
    with torch.cuda.stream(streams[0]):
        for _ in range(_WARM_UPS):  # libraries choose kernels, and compilers compile
            outs = find_outs(eager(given))
            above = [torch.zeros_like(out) if out.requires_grad else None for out in outs]
            trains = bool(parameters) and any(one is not None for one in above)
            if trains:
                differentiate(outs, above)
    torch.cuda.synchronize()
    forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph() if trains else None
    del outs
    with record(forward):
        rounded.round()
        result = eager(given)
    leaves, spec = tree_flatten(result)
    outs = find_outs(result)
    below: Sequence[Tensor | None] = [None] * len(parameters)
    if backward is not None:
        context = beside(outs, *streams)
        with record(backward):
            with context:
                below = differentiate(outs, above)
            below = rounded.widen(parameters, below)
    plain = [one.detach() for one in outs]
    result = partial(_fill, _mark_tensors(leaves), spec)
    return Recording(given, plain, result, above, parameters, list(below), forward, backward, rounded)


def find_outs(result: Any) -> list[Tensor]:
    """Return the tensors in a network's result.

    Raises:
        RuntimeError: something in it may hold tensors that no recording finds.
    """
    leaves = tree_flatten(result)[0]
    for one in leaves:
        if not isinstance(one, Tensor | torch.Size | int | float | str | None):
            raise RuntimeError(
                f"the network returns {type(one).__name__}; a recorded one returns tensors, lists or dictionaries"
            )
    return [one for one in leaves if isinstance(one, Tensor)]


def _mark_tensors(leaves: list[Any]) -> list[Any]:
    """Return what a result holds beside tensors, with an ellipsis for each tensor."""
    return [... if isinstance(one, Tensor) else one for one in leaves]


def _fill(leaves: list[Any], spec: TreeSpec, outs: Sequence[Tensor]) -> Any:
    """Return a result with these tensors."""
    tensors = iter(outs)
    return tree_unflatten([next(tensors) if one is ... else one for one in leaves], spec)


def _list_tensors(network: nn.Module) -> list[tuple[dict[str, Any], str]]:
    """Return where a network keeps its parameters and buffers."""
    owners: list[dict[str, Any]] = [own for one in network.modules() for own in (one._parameters, one._buffers)]
    return [(own, name) for own in {id(own): own for own in owners}.values() for name in own]


def _find_addresses(places: list[tuple[dict[str, Any], str]]) -> list[int]:
    """Return where in memory the tensors of these places are; negative: without a gradient. Then which ones are trained."""
    tensors = [own.get(name) for own, name in places]
    addresses = [0 if one is None else one.data_ptr() if one.requires_grad else -one.data_ptr() for one in tensors]
    return addresses + [id(one) for one in tensors if one is not None and one.requires_grad]  # recordings keep these alive
