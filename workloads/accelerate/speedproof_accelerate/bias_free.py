"""Biases of convolutions before a norm, which subtracts them: they are not added."""

from collections import OrderedDict
from itertools import pairwise
from typing import Any, cast

from torch import Tensor, nn

from speedproof_accelerate.originals import CONVOLUTIONS, find_addition, is_own, is_plain_sequence
from speedproof_accelerate.parts import Convolution, NormActivation, Part, add_bias, convolve_without_bias, keeping_kind


def takes_bias_away(unit: nn.Module) -> bool:
    """Return whether a MONAI Convolution's bias shows nowhere but in running statistics."""
    children = dict(unit.named_children())
    if list(children) != ["conv", "adn"] or not is_own(children["conv"], CONVOLUTIONS):
        return False
    if not (is_plain_sequence(unit) and is_plain_sequence(children["adn"])):
        return False
    norm = next(iter(children["adn"].children()), None)
    if not isinstance(norm, NormActivation) or isinstance(norm.replaced, nn.GroupNorm):
        return False
    return cast(Any, children["conv"]).bias is not None and cast(Any, children["conv"]).padding_mode == "zeros"


def omits_biases(sequence: nn.Module) -> bool:
    """Return whether a torch sequence has a convolution whose bias the norm right behind it subtracts."""
    if type(sequence) is not nn.Sequential or find_addition(sequence) is not None:
        return False
    return any(_can_omit(first, second) for first, second in pairwise(sequence._modules.values()))


def _can_omit(convolution: Any, norm: Any) -> bool:
    if not is_own(convolution, CONVOLUTIONS) or not isinstance(norm, NormActivation):
        return False
    return not isinstance(norm.replaced, nn.GroupNorm) and convolution.bias is not None and convolution.padding_mode == "zeros"


class BiasFreeSequence(nn.Sequential):
    """A sequence that omits such biases; their gradient is 0."""

    def __init__(self, sequence: nn.Module) -> None:
        """Replace a sequence."""
        super().__init__()
        for key, one in sequence._modules.items():
            self.add_module(key, one)
        self.training = sequence.training
        pairs = pairwise(self._modules.items())
        self._norms = {key: behind for (key, one), (behind, norm) in pairs if _can_omit(one, norm)}

    def __getitem__(self, index: Any) -> Any:
        """Return a module, or, for a slice, a plain sequence, as torch's does."""
        return nn.Sequential(OrderedDict(self._modules))[index] if isinstance(index, slice) else super().__getitem__(index)

    @keeping_kind
    def forward(self, x: Tensor) -> Tensor:
        """Return the result of all modules."""
        bias: Tensor | None = None
        for key, one in self._modules.items():
            module: Any = one
            if bias is not None:
                x, bias = _normalize(module, x, bias), None
            elif self._omits(key, module, x):
                x, bias = convolve_without_bias(module, x), bias_of(module)
            else:
                x = module(x)
        return x

    def _omits(self, key: str, module: Any, x: Tensor) -> bool:
        """Return whether the bias of this call is omitted: a single image, and all if torch has the norm, are left to torch."""
        norm = self._modules.get(self._norms.get(key, ""))
        if not isinstance(norm, NormActivation) or not _is_convolution(module):  # or they were replaced since
            return False
        return norm.own_because is None and x.dim() == module.weight.dim()


class BiasFreeUnit(nn.Sequential):
    """A convolution before a norm, which subtracts its bias: the bias is not added, and its gradient is 0.

    As MONAI's `Convolution`: `conv`, then `adn`, which begins with the norm.
    """

    @keeping_kind
    def forward(self, x: Tensor) -> Tensor:
        """Return the result of convolution, norm and activation."""
        convolution: Any = self.conv
        if self.omits_bias(x):
            return self.finish(convolve_without_bias(convolution, x))
        return cast(Tensor, cast(Any, self.adn)(convolution(x)))

    def omits_bias(self, x: Tensor) -> bool:
        """Return whether the bias of this call is omitted: a single image is left to torch."""
        convolution, norm = cast(Any, self.conv), next(iter(cast(Any, self.adn)), None)
        if not isinstance(norm, NormActivation) or not _is_convolution(convolution):  # they were replaced since
            return False
        return norm.own_because is None and bias_of(convolution) is not None and x.dim() == convolution.weight.dim()

    def finish(self, convolved: Tensor) -> Tensor:
        """Return the result of norm and activation for what the convolution has computed without its bias."""
        norm, *others = cast(Any, self.adn)
        y = _normalize(norm, convolved, cast(Tensor, bias_of(cast(Any, self.conv))))
        for other in others:
            y = other(y)
        return y


def _is_convolution(module: nn.Module) -> bool:
    return type(module) in CONVOLUTIONS or isinstance(module, Convolution)


def as_unit(children: dict[str, nn.Module], training: bool) -> BiasFreeUnit:
    unit = BiasFreeUnit()
    for key, one in children.items():
        unit.add_module(key, one)
    unit.training = training
    return unit


def _normalize(norm: NormActivation, convolved: Tensor, bias: Tensor) -> Tensor:
    """Return a norm's result for what a convolution has computed without its bias."""
    if norm.find_misfit(convolved):
        return norm.compute_as_torch(add_bias(convolved, bias))
    return norm.compute(convolved, left_out=bias)


def bias_of(convolution: nn.Module) -> Tensor | None:
    """Return the bias of a convolution or of its part."""
    replaced = convolution.replaced if isinstance(convolution, Part) else convolution
    return cast(Tensor | None, replaced.bias)
