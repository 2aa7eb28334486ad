"""Half-precision copies of a network's weights. The network computes with the copies, and they receive the gradients.

Autocast makes such copies in every forward pass and single-precision gradients in every backward pass, with one kernel each.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call


@dataclass(frozen=True)
class Pair:
    """A weight, and what has its gradient: its copy, or the weight itself."""

    weight: Tensor
    leaf: Tensor


class WeightCopies:
    """A network that computes with copies of its convolutions' weights, those parameters of five dimensions."""

    def __init__(self, network: nn.Module, kind: torch.dtype) -> None:
        """Make copies of this precision, laid out as the weights are."""
        self._network = network
        named = dict(network.named_parameters())
        self._copies = {name: one.detach().to(kind).requires_grad_() for name, one in named.items() if one.dim() == 5}
        self.like = next(iter(self._copies.values()))

    def __call__(self, images: Tensor) -> Tensor:
        """Return what the network makes of images."""
        return functional_call(self._network, self._copies, (images,))

    def pair_weights(self) -> list[Pair]:
        """Return all parameters, each with what has its gradient."""
        return [Pair(one, self._copies.get(name, one)) for name, one in self._network.named_parameters()]

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy all weights again after they were set."""
        for pair in self.pair_weights():
            pair.leaf.copy_(pair.weight)
