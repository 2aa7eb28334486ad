"""Names the phases of a published program by NVTX ranges, as those of our programs are named, so that traces can be compared.

The published programs open none. We wrap torch's `autocast`, `backward` and gradient scaler, and the loaders. Every run has
these ranges, as ours have theirs. Two differ from ours: the notebook copies a batch to the GPU outside of `dataload`, and
computing the Dice is in no range.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import nvtx
import torch
from monai.data import ThreadDataLoader
from torch.utils.data import DataLoader, RandomSampler

Method = Callable[..., Any]


@contextmanager
def named_phases() -> Iterator[None]:
    """Open ranges around the phases of what runs inside of this."""
    changes: list[tuple[Any, str, Callable[[Method], Method]]] = [
        (torch.autocast, "__enter__", begin_forward),
        (torch.autocast, "__exit__", end_forward),
        (torch.autograd, "backward", name_calls("backward", "blue")),  # Tensor's own calls itself again for a MetaTensor
        (torch.GradScaler, "step", begin_update),
        (torch.GradScaler, "update", end_update),
        (DataLoader, "__iter__", name_waits),
        (ThreadDataLoader, "__iter__", name_waits),
    ]
    before = [getattr(owner, name) for owner, name, _ in changes]
    for (owner, name, change), method in zip(changes, before, strict=True):
        setattr(owner, name, change(method))
    try:
        yield
    finally:
        for (owner, name, _), method in zip(changes, before, strict=True):
            setattr(owner, name, method)


def name_calls(name: str, color: str) -> Callable[[Method], Method]:
    """Return what opens a range around each call of a method."""

    def change(method: Method) -> Method:
        @wraps(method)
        def call(*arguments: Any, **options: Any) -> Any:
            with nvtx.annotate(name, color=color):
                return method(*arguments, **options)

        return call

    return change


def begin_forward(enter: Method) -> Method:
    """Open a range before half precision begins: the network and the loss, or, without gradients, a validation's windows."""

    @wraps(enter)
    def begin(precision: torch.autocast) -> Any:
        nvtx.push_range("forward" if torch.is_grad_enabled() else "sliding window", color="green")
        return enter(precision)

    return begin


def end_forward(leave: Method) -> Method:
    """Close that range."""

    @wraps(leave)
    def end(precision: torch.autocast, *error: Any) -> Any:
        try:
            return leave(precision, *error)
        finally:
            nvtx.pop_range()

    return end


def begin_update(step: Method) -> Method:
    """Open a range before an optimizer's step."""

    @wraps(step)
    def begin(*arguments: Any, **options: Any) -> Any:
        nvtx.push_range("update", color="yellow")
        return step(*arguments, **options)

    return begin


def end_update(update: Method) -> Method:
    """Close that range."""

    @wraps(update)
    def end(*arguments: Any, **options: Any) -> Any:
        try:
            return update(*arguments, **options)
        finally:
            nvtx.pop_range()

    return end


def name_waits(iterate: Method) -> Method:
    """Open a range while the next batch is waited for."""

    @wraps(iterate)
    def wait(loader: DataLoader) -> Iterator[Any]:
        batches = iter(iterate(loader))
        if type(loader).__iter__.__wrapped__ is not iterate:  # a thread of the loader takes batches from the class below
            yield from batches
            return
        name = "dataload" if isinstance(loader.sampler, RandomSampler) else "validation dataload"
        while True:
            with nvtx.annotate(name, color="red"):
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch

    return wait
