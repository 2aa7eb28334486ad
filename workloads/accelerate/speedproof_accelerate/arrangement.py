"""The modules of a network and the memory order of its convolutions' weights, as they are at one time, to bring them back."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from speedproof_accelerate.kernels.channels_last import channels_last_of
from speedproof_accelerate.originals import CONVOLUTIONS, is_own
from speedproof_accelerate.parts import Part


@dataclass(frozen=True)
class Arrangement:
    """Which modules a network has in which places, and which of its convolutions' weights are channels last."""

    children: list[tuple[nn.Module, dict[str, nn.Module | None]]]
    orders: list[tuple[Any, torch.memory_format]]

    @classmethod
    def of(cls, network: nn.Module) -> "Arrangement":
        """Return a network's arrangement of now."""
        orders = [(one, _order_of(one.weight)) for one in _find_convolutions(network)]
        return cls([(module, dict(module._modules)) for module in network.modules()], orders)

    def install(self) -> None:
        """Bring it back; parameters stay the same tensors, but their values may move to another place in memory."""
        for module, children in self.children:
            module._modules = dict(children)
        for convolution, order in self.orders:
            if not convolution.weight.is_contiguous(memory_format=order):
                convolution.to(memory_format=order)


def lay_out(network: nn.Module) -> bool:
    """Lay out convolutions' weights channels last; return whether any were not."""
    changed = False
    for one in _find_convolutions(network):
        order = channels_last_of(one.weight.dim())
        if not one.weight.is_contiguous(memory_format=order):
            one.to(memory_format=order)
            changed = True
    return changed


def _find_convolutions(network: nn.Module) -> list[Any]:
    modules = [module.replaced if isinstance(module, Part) else module for module in network.modules()]
    return [one for one in modules if is_own(one, CONVOLUTIONS)]


def _order_of(weight: torch.Tensor) -> torch.memory_format:
    last = channels_last_of(weight.dim())
    return torch.contiguous_format if weight.is_contiguous() or not weight.is_contiguous(memory_format=last) else last
