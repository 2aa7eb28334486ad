"""Weights that a recorded network reads in half precision only: one launch rounds them, and one widens their gradients."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

from speedproof_accelerate.originals import CONVOLUTIONS, find_addition
from speedproof_accelerate.parts import HALVES, PaddedConvolution
from speedproof_accelerate.residual_unit import PairedUnit

# What autocast computes in half precision, from weights in either precision.
_ROUNDING = (
    functional.conv2d,
    functional.conv3d,
    functional.conv_transpose2d,
    functional.conv_transpose3d,
    functional.linear,
)
_COPYING = (functional.pad, torch.cat)  # what parts do with weights before a convolution
_DESCRIBING = (
    Tensor.dim,
    Tensor.size,
    *(cast(Any, one).__get__ for one in (Tensor.shape, Tensor.device, Tensor.requires_grad)),
)


class Rounded:
    """Weights that autocast rounds to half precision: one launch rounds all of them, and one widens their gradients.

    Autocast takes a launch for each. A weight is among them if only cuDNN's convolutions or linear layers have it.
    """

    def __init__(self, weights: Sequence[nn.Parameter] = (), precision: torch.dtype | None = None) -> None:
        """Take the weights."""
        self._weights = [one.detach() for one in weights]
        self._copies = [nn.Parameter(one.detach().to(precision), one.requires_grad) for one in weights]
        self._formers = [id(one) for one in weights]

    @classmethod
    def of(cls, network: nn.Module, precision: torch.dtype | None) -> "Rounded":
        """Return those of a network that trains in autocast of this precision."""
        return cls(find_rounded(network), precision) if precision in HALVES else cls()

    def find(self) -> dict[int, nn.Parameter]:
        """Return the copies by the `id` of their weights."""
        return dict(zip(self._formers, self._copies, strict=True))

    def watch(self, eager: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
        """Return a function that raises an error if anything but a convolution or a linear layer reads a copy.

        A network may also penalize, standardize, change or return the weights of its layers.
        """
        if not self._copies:
            return eager

        def watched(x: Tensor) -> Any:
            with _Watch(self._copies) as watch:
                result = eager(x)
            watch.note("return", tree_flatten(result)[0])
            if watch.misread:
                raise RuntimeError(f"the network reads the weights of its layers itself: {', '.join(watch.misread)}")
            return result

        return watched

    def round(self) -> None:
        """Round all weights, as they are now."""
        if self._weights:
            torch._foreach_copy_([one.detach() for one in self._copies], self._weights)

    def widen(self, parameters: Sequence[nn.Parameter], found: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return the gradients of parameters, those of copies in the precision of their weights."""
        kinds = {id(one): weight.dtype for one, weight in zip(self._copies, self._weights, strict=True)}
        gradients = list(found)
        narrow = [i for i, one in enumerate(parameters) if gradients[i] is not None and id(one) in kinds]
        if narrow:
            read = [cast(Tensor, gradients[i]) for i in narrow]
            wide = [torch.empty_like(one, dtype=kinds[id(parameters[i])]) for i, one in zip(narrow, read, strict=True)]
            torch._foreach_copy_(wide, read)
            for i, one in zip(narrow, wide, strict=True):
                gradients[i] = one
        return gradients


class _Watch(TorchFunctionMode):
    """Notes functions that read a copy, but for those that read weights only in half precision."""

    def __init__(self, copies: Iterable[Tensor]) -> None:
        super().__init__()
        self.misread: list[str] = []
        self._copies = {id(one): one for one in copies}

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        result = function(*args, **named)
        if function in _COPYING and self._finds_copy((*args, *named.values())):
            self._copies[id(result)] = result
        elif function not in _COPYING + _ROUNDING + _DESCRIBING:
            self.note(getattr(function, "__name__", str(function)), (*args, *named.values()))
        return result

    def note(self, name: str, read: Iterable[Any]) -> None:
        """Note a function if a copy is among what it reads."""
        if self._finds_copy(read):
            self.misread.append(name)

    def _finds_copy(self, read: Iterable[Any]) -> bool:
        return any(self._finds_copy(one) if isinstance(one, list | tuple) else id(one) in self._copies for one in read)


def find_rounded(network: nn.Module) -> list[nn.Parameter]:
    """Return the weights in single precision that only cuDNN's convolutions or linear layers have."""
    readers: dict[int, list[nn.Module]] = {}
    weights: dict[int, nn.Parameter] = {}
    by_kernels: set[int] = set()
    for module in network.modules():
        for name, one in module._parameters.items():
            if one is not None:
                readers.setdefault(id(one), []).append(module)
                if name == "weight" and type(one) is nn.Parameter and one.dtype == torch.float32:
                    weights[id(one)] = one
        if isinstance(module, PairedUnit):
            by_kernels |= {id(one) for one in module.list_kernel_weights()}
    return [
        one
        for number, one in weights.items()
        if number not in by_kernels and all(map(_is_rounded_by_autocast, readers[number]))
    ]


def _is_rounded_by_autocast(module: nn.Module) -> bool:
    return type(module) is PaddedConvolution or (type(module) in (*CONVOLUTIONS, nn.Linear) and find_addition(module) is None)
