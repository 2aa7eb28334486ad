"""Gradients averaged over the ranks in a few pieces: some while the backward pass goes on, the others behind it.

DistributedDataParallel averages them from hooks that no CUDA graph records, and waits for the gradients of all parameters, of
which fused networks leave out those that are 0. So where either matters, this takes its place.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Share:
    """A rank's share of the mean gradients of some leaves, one behind the other in memory.

    What is added up are shares: in half precision, sums overflow no earlier than gradients then.
    """

    values: Tensor
    higher: list[Tensor]  # the pieces of `values` whose gradients are of less precision,
    rounded: list[Tensor]  # and these gradients

    @torch.no_grad()
    def hand_back(self) -> None:
        """Round what has been added up to the gradients that are not pieces of it themselves."""
        if self.rounded:
            torch._foreach_copy_(self.rounded, self.higher)


def collect_from(
    backward: Callable[[], None], leaves: Sequence[Tensor], overlap: float, send: Callable[[list[Tensor]], None]
) -> list[Share]:
    """Run a backward pass and return this rank's shares of the mean gradients, one for each precision.

    With an `overlap`, `send` is called during the pass, as soon as the gradients that are ready make up this part of the bytes.
    The rest is then returned as one share, in the highest precision among them: for few gradients, a second collective takes
    longer than the additional bytes. All ranks' passes run in the same order, so they send the same gradients.
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
            send(early)

    with ExitStack() as hooks:
        for leaf in leaves if overlap else ():
            hooks.callback(leaf.register_post_accumulate_grad_hook(note).remove)
        backward()
    if not early or awaited > 0:
        return collect_gradients(leaves)
    sent = {id(leaf) for leaf in early}
    late = [leaf for leaf in leaves if id(leaf) not in sent and leaf.grad is not None]
    return [_join_gradients(late)] if late else []


def collect_gradients(leaves: Sequence[Tensor]) -> list[Share]:
    """Return this rank's shares of the leaves' mean gradients, one for each precision.

    Each leaf's gradient is a piece of one afterwards, and is the mean once the ranks' have been added up (:func:`add_shares`).
    """
    return [_join_gradients(alike) for alike in _by_precision(leaves).values()]


def begin_to_add(shares: Sequence[Share]) -> list[dist.Work]:
    """Begin to add up the ranks' shares, each of one precision, in place; :func:`add_shares` ends it."""
    return [work for share in shares if (work := dist.all_reduce(share.values, async_op=True))]


def add_shares(shares: Sequence[Share], begun: Sequence[dist.Work] = ()) -> None:
    """Add up the ranks' shares, in place, and wait for what has begun; all ranks call it with as many."""
    for share in shares:
        dist.all_reduce(share.values)
        share.hand_back()
    for work in begun:
        work.wait()


@torch.no_grad()
def _join_gradients(leaves: Sequence[Tensor]) -> Share:
    """Put gradients one behind the other, in the highest precision among them."""
    kinds = _by_precision(leaves)
    highest = max(kinds, key=lambda kind: kind.itemsize)
    sizes = [leaf.numel() for alike in kinds.values() for leaf in alike]
    share = Share(torch.empty(sum(sizes), dtype=highest, device=leaves[0].device), [], [])
    pieces = iter(share.values.split(sizes))
    for kind, alike in kinds.items():
        # As they lie in memory, densely: autograd gives a leaf that lies densely such a gradient, in the leaf's own order.
        gradients = [leaf.grad for leaf in alike if leaf.grad is not None]
        dense = [one.as_strided((one.numel(),), (1,)) for one in gradients]
        theirs = list(islice(pieces, len(dense)))
        torch._foreach_copy_(theirs, dense)
        if kind == highest:
            for leaf, gradient, piece in zip(alike, gradients, theirs, strict=True):
                leaf.grad = piece.as_strided(gradient.shape, gradient.stride())
        else:
            share.higher.extend(theirs)
            share.rounded.extend(dense)
    share.values.div_(dist.get_world_size())
    return share


def _by_precision(leaves: Sequence[Tensor]) -> dict[torch.dtype, list[Tensor]]:
    """Return the leaves that have a gradient, in their order, by its precision."""
    kinds: dict[torch.dtype, list[Tensor]] = {}
    for leaf in leaves:
        if leaf.grad is not None:
            kinds.setdefault(leaf.grad.dtype, []).append(leaf)
    return kinds
