"""Gradients averaged over the ranks in a few pieces: one while the backward pass goes on, the others behind it.

DistributedDataParallel averages them from hooks that no CUDA graph records, and waits for the gradients of all parameters, of
which fused networks leave out those that are 0. So where either matters, this takes its place.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
import torch.distributed as dist
from torch import Tensor


def collect_from(
    backward: Callable[[], None], leaves: Sequence[Tensor], overlap: float, send: Callable[[list[Tensor]], None]
) -> list[Tensor]:
    """Run a backward pass and return this rank's shares of the mean gradients, as :func:`collect_gradients` makes them.

    With an `overlap`, `send` is called within the pass with those of the gradients that come first, as soon as they make up
    this part of the bytes, and the others' are returned. All ranks' passes go in one order, so they send the same.
    """
    early: list[Tensor] = []
    awaited = overlap * sum(leaf.nbytes for leaf in leaves)

    def note(leaf: Tensor) -> None:
        nonlocal awaited
        if awaited <= 0:
            return
        early.append(leaf)
        awaited -= leaf.nbytes
        if awaited <= 0:
            send(collect_gradients(early))

    with ExitStack() as hooks:
        for leaf in leaves if overlap else ():
            hooks.callback(leaf.register_post_accumulate_grad_hook(note).remove)
        backward()
    sent = {id(leaf) for leaf in early} if awaited <= 0 else set()
    return collect_gradients([leaf for leaf in leaves if id(leaf) not in sent])


@torch.no_grad()
def collect_gradients(leaves: Sequence[Tensor]) -> list[Tensor]:
    """Return this rank's share of the mean gradients, one behind the other: a tensor for each precision.

    Each leaf's gradient is a piece of it afterwards, and is the mean once the ranks' shares have been added up
    (:func:`add_shares`). What is added are shares: in half precision, sums overflow no earlier than gradients then.
    """
    kinds: dict[torch.dtype, list[Tensor]] = {}
    for leaf in leaves:
        if leaf.grad is not None:
            kinds.setdefault(leaf.grad.dtype, []).append(leaf)
    return [_join_gradients(alike) for alike in kinds.values()]


def begin_to_add(shares: list[Tensor]) -> list[dist.Work]:
    """Begin to add up the ranks' shares, in place; :func:`add_shares` ends it."""
    return [work for share in shares if (work := dist.all_reduce(share, async_op=True))]


def add_shares(shares: list[Tensor], begun: Sequence[dist.Work] = ()) -> None:
    """Add up the ranks' shares, in place, and wait for what has begun; all ranks call it with as many."""
    for share in shares:
        dist.all_reduce(share)
    for work in begun:
        work.wait()


def _join_gradients(leaves: list[Tensor]) -> Tensor:
    # As they lie in memory, densely: autograd gives a leaf that lies densely such a gradient, in the leaf's own order.
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    share = torch.cat([one.as_strided((one.numel(),), (1,)) for one in gradients]).div_(dist.get_world_size())
    pieces = share.split([one.numel() for one in gradients])
    for leaf, gradient, piece in zip(leaves, gradients, pieces, strict=True):
        leaf.grad = piece.as_strided(gradient.shape, gradient.stride())
    return share
