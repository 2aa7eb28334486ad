"""Gradients averaged over the ranks behind the backward pass, in a few pieces.

DistributedDataParallel averages them within that pass, from hooks that no CUDA graph records, and waits for the gradients of
all parameters, of which fused networks leave out those that are 0. So where either matters, this takes its place.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


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


def add_shares(shares: list[Tensor]) -> None:
    """Add up the ranks' shares, in place; all ranks call it with as many."""
    for share in shares:
        dist.all_reduce(share)


def _join_gradients(leaves: list[Tensor]) -> Tensor:
    # As they lie in memory, densely: autograd gives a leaf that lies densely such a gradient, in the leaf's own order.
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    share = torch.cat([one.as_strided((one.numel(),), (1,)) for one in gradients]).div_(dist.get_world_size())
    pieces = share.split([one.numel() for one in gradients])
    for leaf, gradient, piece in zip(leaves, gradients, pieces, strict=True):
        leaf.grad = piece.as_strided(gradient.shape, gradient.stride())
    return share
