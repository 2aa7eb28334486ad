"""What happens to a batch: forward, backward, update; one operation after another, or each launched as one CUDA graph."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from speedproof_accelerate.averaging import Share, add_shares, begin_to_add, collect_from, collect_gradients
from speedproof_accelerate.kernels.second_stream import beside
from speedproof_accelerate.optimizer import Optimizer
from speedproof_accelerate.recording import make_streams, recording

# Steps of a batch's shape before it is recorded: in the first, libraries choose kernels, optimizer and scaler make their state.
_WARM_UPS = 3


@dataclass(frozen=True)
class Precision:
    """The precision of a training step: plain fp32, or half-precision autocast, with a gradient scaler where it needs one.

    On a CPU all is computed in fp32: the library's bfloat16 gradients of small convolutions differ from one call to the next,
    and are not always finite. The scaler stays, for the same steps as on a GPU.
    """

    device: torch.device
    half: torch.dtype | None  # None: fp32
    scaler: torch.amp.GradScaler | None

    def autocast(self) -> torch.autocast:
        """Return the context in which network and loss are computed."""
        return torch.autocast(self.device.type, dtype=self.half, enabled=self.half is not None)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients, scaled where the precision scales."""
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def update(self, optimizer: Optimizer) -> None:
        """Take the optimizer's step, skipped by the scaler where a gradient overflowed."""
        if self.scaler:
            self.scaler.step(optimizer)  # type: ignore[arg-type]  # it asks for no more than ours has, either
            self.scaler.update()
        else:
            optimizer.step()


@dataclass
class Step:
    """The three parts of a step, which the loop calls one after another."""

    objective: Callable[[Tensor, Tensor], Tensor]  # of images and labels
    optimizer: Optimizer
    precision: Precision
    averaged: Sequence[Tensor] = ()  # what has gradients that are averaged over the ranks here
    overlap: float = 0.0  # the share of their bytes for which that begins within the backward pass

    def __post_init__(self) -> None:
        self._loss: Tensor | None = None

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        self.optimizer.zero_grad()
        with self.precision.autocast():
            self._loss = self.objective(images, labels)
        return self._loss

    def backward(self) -> None:
        """Compute the gradients of the last loss."""
        begun: list[dist.Work] = []
        late = self._differentiate(lambda leaves: begun.extend(begin_to_add(collect_gradients(leaves))))
        add_shares(late, begun)

    def update(self) -> None:
        """Take the optimizer's step."""
        self.precision.update(self.optimizer)

    def _differentiate(self, send: Callable[[list[Tensor]], None]) -> list[Share]:
        """Compute the gradients; return the shares of those that are averaged, but for those whose leaves went to `send`."""
        return collect_from(self._pass_back, self.averaged, self.overlap, send)

    def _pass_back(self) -> None:
        assert self._loss is not None
        self.precision.backward(self._loss)


@dataclass(frozen=True)
class _Recording:
    """The graphs of one shape of batches, and the tensors that they read and write."""

    images: Tensor
    labels: Tensor
    loss: Tensor
    early: list[Share]  # of the mean gradients: those that are there within the backward pass, at this event
    ready: torch.cuda.Event
    late: list[Share]  # and those that are there behind it
    forward: torch.cuda.CUDAGraph
    backward: torch.cuda.CUDAGraph
    update: torch.cuda.CUDAGraph


class GraphedStep(Step):
    """A step whose parts are recorded once and then each launched as a whole, which leaves the CPU little to do.

    The first steps with each shape of batches run operation by operation. Recording executes nothing, so no step runs twice.
    Everything that the recorded parts touch keeps its address: weights, the optimizer's state, gradients.
    """

    def __post_init__(self) -> None:
        """From here on the process works on a stream of its own, as recording needs it."""
        super().__post_init__()
        torch.cuda.synchronize()  # what was made on the stream before is there for the new one
        first, self._second = make_streams()
        torch.cuda.set_stream(first)
        self._sender = torch.cuda.Stream()
        self._beside: AbstractContextManager[object] = nullcontext()
        self._seen: Counter[torch.Size] = Counter()
        self._recordings: dict[torch.Size, _Recording] = {}
        self._current: _Recording | None = None

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch; valid until the next."""
        shape = images.shape
        self._seen[shape] += 1
        if self._seen[shape] == _WARM_UPS + 1:
            self._recordings[shape] = self._record(images, labels)
        self._current = self._recordings.get(shape)
        if self._current is None:
            return super().forward(images, labels)
        for given, read in ((images, self._current.images), (labels, self._current.labels)):
            if not read.is_set_to(given):  # a loader may take all batches into the same memory
                read.copy_(given)
        self._current.forward.replay()
        return self._current.loss

    def backward(self) -> None:
        """Compute the gradients of the last loss."""
        if self._current is None:
            super().backward()
            return
        self._current.backward.replay()
        begun: list[dist.Work] = []
        if self._current.early:
            with torch.cuda.stream(self._sender):  # the pass goes on meanwhile
                self._current.ready.wait()
                begun = begin_to_add(self._current.early)
        add_shares(self._current.late, begun)

    def update(self) -> None:
        """Take the optimizer's step."""
        self._current.update.replay() if self._current else super().update()

    def _pass_back(self) -> None:
        with self._beside:
            super()._pass_back()

    def _record(self, images: Tensor, labels: Tensor) -> _Recording:
        forward, backward, update = (torch.cuda.CUDAGraph() for _ in range(3))
        stream = torch.cuda.current_stream()
        record = partial(recording, stream=stream)
        with record(forward):
            loss = super().forward(images, labels)
        early: list[Share] = []
        sent: list[Tensor | None] = []
        ready = torch.cuda.Event(external=True)  # it is recorded each time that the graph comes to it

        def note(leaves: list[Tensor]) -> None:
            sent.extend(leaf.grad for leaf in leaves)  # their memory is not used again before the sender has read it
            self._sender.wait_stream(stream)
            with torch.cuda.stream(self._sender):  # a branch of the graph: the pass does not wait for it
                early.extend(collect_gradients(leaves))
                ready.record()

        if not (self.averaged and self.overlap):  # the sender does not wait for a second stream
            self._beside = beside([loss], stream, self._second)
        with record(backward, pool=forward.pool()):
            late = self._differentiate(note)
            if early:
                stream.wait_stream(self._sender)
        self._beside = nullcontext()
        if hasattr(self.optimizer, "note_gradients"):
            self.optimizer.note_gradients()
        with record(update, pool=forward.pool()):
            super().update()
        self._loss = None
        return _Recording(images, labels, loss.detach(), early, ready, late, forward, backward, update)
