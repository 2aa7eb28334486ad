"""The module twins of the kernels: parts of a network that replace torch's modules, with the same parameters and names.

Each part decides for each call: if device, precision or shape do not fit, the replaced modules compute instead.
"""

import os
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import handle_torch_function

from speedproof_accelerate.kernels.channels_last import channels_last_of

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32)
# Channels for which a convolution of stride 1 has a kernel; cuDNN's kernels are good for all others.
CONV3D_CHANNELS = (2, 4, 8, 16, 32)
PADDED_CHANNELS = 8  # to which few input channels are padded: cuDNN's kernels for tensor cores read so many at once
POINTWISE_RESULTS, POINTWISE_CHANNELS = 4, 64  # at most, for pointwise_conv.py
# Dimensions of the batches that a norm accepts.
NORM_DIMENSIONS = {
    nn.BatchNorm2d: (4,),
    nn.BatchNorm3d: (5,),
    nn.InstanceNorm2d: (4,),
    nn.InstanceNorm3d: (5,),
    nn.GroupNorm: (4, 5),
}
_OLDEST = (8, 0)  # compute capability: the first GPUs with bfloat16 and asynchronous copies


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


@cache
def _sees_gpu() -> bool:
    return torch.cuda.is_available() and torch.version.hip is None


def find_missing_gpu(device: torch.device) -> str | None:
    """Return why a device is not an NVIDIA GPU; None: it is one."""
    if device.type == "cuda" and torch.version.hip is None:
        return None
    return f"the network is on {device.type}, not on the GPU" if _sees_gpu() else "no NVIDIA GPU is visible"


def find_obstacle(device: torch.device) -> str | None:
    """Return why no kernel runs on this device; None: they run. With Triton's interpreter they run on a CPU, too."""
    if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1" and _has_triton():
        return None
    missing = find_missing_gpu(device)
    if missing:
        return missing
    if not _has_triton():
        return "Triton is not installed"
    capability = _find_capability(device)
    return None if capability >= _OLDEST else f"the GPU's compute capability is {capability[0]}.{capability[1]}, below 8.0"


@cache
def _find_capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@cache
def load(name: str) -> Any:
    """Return a module of kernels; the first one imports Triton."""
    return import_module(f"speedproof_accelerate.kernels.{name}")


def precision_of(x: Tensor) -> torch.dtype:
    """Return the precision in which a convolution computes: autocast's, or the tensor's own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def keeping_kind(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a function return the subclass of tensors that it gets, as torch's own do: for example, MONAI's tensors."""

    def compute_plainly(*args: Any) -> Tensor:
        return compute(*(as_plain(one) if isinstance(one, Tensor) else one for one in args))

    @wraps(compute)
    def answer(*args: Any, **named: Any) -> Any:
        args = (*args, *named.values())  # torch's modules call their one argument `input`
        special = tuple(one for one in args if isinstance(one, Tensor) and as_plain(one) is not one)
        return handle_torch_function(compute_plainly, special, *args) if special else compute(*args)

    return answer


def as_plain(x: Tensor) -> Tensor:
    """Return a tensor without its subclass, if that changes torch's functions; otherwise as it is."""
    kind = type(x)
    adds = kind is not Tensor and kind.__torch_function__ is not torch._C._disabled_torch_function_impl
    return x.as_subclass(Tensor) if adds else x


class Part(nn.Module):
    """Replaces a module, and has the same parameters and buffers under the same names.

    Attributes:
        own_because: why torch's own module computes all calls; None: each call decides.
        watch: called with the input of each call.
    """

    def __init__(self, replaced: nn.Module) -> None:
        """Share a module's parameters and buffers: both move with the network."""
        super().__init__()
        self._parameters = replaced._parameters
        self._buffers = replaced._buffers
        self._non_persistent_buffers_set = replaced._non_persistent_buffers_set
        self._version = getattr(replaced, "_version", 1)  # of what is saved
        self.training = replaced.training
        self._replaced = (replaced,)  # in a tuple, so that its parameters are not listed twice
        self.own_because: str | None = None
        self.watch: Callable[[Tensor], None] | None = None

    @property
    def replaced(self) -> Any:
        """Return the replaced module."""
        return self._replaced[0]

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; the mode also of the replaced module. Some libraries set `training` without calling `train`."""
        super().__setattr__(name, value)
        if name == "training" and "_replaced" in vars(self):
            self.replaced.training = value

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the replaced module, such as its `stride`: a network may read it."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_replaced" not in vars(self):  # while it is unpickled
                raise
            return getattr(self.replaced, name)

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError("an accelerated network has no replicas: train with torch's DistributedDataParallel")

    def find_misfit(self, x: Tensor) -> str | None:
        """Return why torch's own module computes this call; None: the kernel does."""
        if self.watch is not None:
            self.watch(x)
        return self.own_because or find_obstacle(x.device) or (self._find_misfit(x) if x.numel() else "nothing in it")

    @keeping_kind
    def forward(self, x: Tensor) -> Tensor:
        """Return the module's result."""
        return self.compute_as_torch(x) if self.find_misfit(x) else self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """Return the kernel's result; x fits."""
        raise NotImplementedError

    def compute_as_torch(self, x: Tensor) -> Tensor:
        """Return the result of torch's modules."""
        return cast(Tensor, self.replaced(x))

    def _find_misfit(self, x: Tensor) -> str | None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Return the replaced module."""
        return repr(self.replaced)


class Absorbed(Part):
    """A dropout or an activation that the norm before it computes; its mode and its parameter stay under its name."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


class NormActivation(Part):
    """A norm, and the dropout and the activation after it, channels last."""

    def __init__(self, norm: nn.Module, activation: nn.Module | None, dropout: nn.Dropout | None = None) -> None:
        """Replace a norm and, if given, the dropout and the activation after it."""
        super().__init__(norm)
        self._activation, self._dropout = (activation,), (dropout,)
        self._channels = norm.num_channels if isinstance(norm, nn.GroupNorm) else cast(Any, norm).num_features
        self._slopes = activation.num_parameters if isinstance(activation, nn.PReLU) else 1

    @property
    def has_activation(self) -> bool:
        """Return whether an activation was replaced, too."""
        return self._activation[0] is not None

    def extra_repr(self) -> str:
        """Return the replaced modules."""
        dropout = self._dropout[0]
        drops = "" if dropout is None else f"{dropout!r}{'' if dropout.training else ' in evaluation'}, "
        return f"{self.replaced!r}, {drops}{self._activation[0]!r}"

    def _find_misfit(self, x: Tensor) -> str | None:
        norm = self.replaced
        if x.dim() not in NORM_DIMENSIONS[type(norm)] or x.dtype not in FLOATS:
            return f"of {x.dim()} dimensions and {x.dtype}"
        if x.shape[1] != self._channels or self._slopes not in (1, self._channels):
            return f"of {x.shape[1]} channels"
        if self._dropping == 1:
            return "all is dropped"
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):
            if not norm.training and norm.running_mean is not None and torch.is_grad_enabled():
                return "gradients through running statistics"
            if x.numel() == x.shape[1]:
                return "a single voxel"
        elif x.numel() == x.shape[0] * x.shape[1]:
            return "a single voxel"
        return None

    @property
    def _dropping(self) -> float:
        """Return the probability with which the dropout drops a value at present."""
        dropout = self._dropout[0]
        return dropout.p if dropout is not None and dropout.training else 0.0

    def compute(self, x: Tensor, left_out: Tensor | None = None) -> Tensor:
        """Return activation(dropout(norm(x + left_out)))."""
        return self.compute_and_pass(x, left_out)[0]

    def compute_and_pass(self, x: Tensor, left_out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return activation(dropout(norm(x + left_out))), and x for its other uses: one pass gives the gradient of both."""
        kernels, norm = load("group_norm"), self.replaced
        dropout = kernels.draw_dropout(x, self._dropping) if self._dropping else None
        weight, bias = norm.weight, norm.bias
        slope = slope_of(self._activation[0])
        if isinstance(norm, nn.GroupNorm):
            kind, running = kernels.Norm(norm.num_channels // norm.num_groups, False, norm.eps), None
        elif isinstance(norm, nn.modules.instancenorm._InstanceNorm):
            kind, running = kernels.Norm(1, False, norm.eps), None
        elif norm.training or norm.running_mean is None:
            kept = norm.track_running_stats and norm.running_mean is not None
            running = (norm.running_mean, norm.running_var) if kept else None
            kind = kernels.Norm(1, True, norm.eps, norm.momentum or 0.0)
            if running:
                norm.num_batches_tracked.add_(1)
        else:
            return self._compute_with_running(x, slope, left_out, dropout), x
        given = {"slope": slope, "left_out": left_out, "running": running, "dropout": dropout}
        return cast(tuple[Tensor, Tensor], kernels.group_norm_and_input(x, kind, weight, bias, **given))

    def _compute_with_running(self, x: Tensor, slope: Tensor | float, left_out: Tensor | None, dropout: Any) -> Tensor:
        norm = self.replaced
        inverse = torch.rsqrt(norm.running_var + norm.eps)
        factor = inverse if norm.weight is None else norm.weight * inverse
        mean = norm.running_mean if left_out is None else norm.running_mean - left_out
        summand = -mean * factor if norm.bias is None else norm.bias - mean * factor
        folded = torch.stack([mean, inverse, factor, summand])[:, None].float()
        return cast(Tensor, load("group_norm").apply_folded(x, folded, slope, dropout, over_items=True))

    def compute_as_torch(self, x: Tensor) -> Tensor:
        """Return the result of torch's norm, dropout and activation."""
        y = self.replaced(x)
        for behind in (self._dropout[0], self._activation[0]):
            y = y if behind is None else behind(y)
        return cast(Tensor, y)


def slope_of(activation: nn.Module | None) -> Tensor | float:
    """Return an activation's slope below zero: the parameter of a PReLU, otherwise a number; 1 without an activation."""
    if activation is None:
        return 1.0
    if isinstance(activation, nn.PReLU):
        return activation.weight
    return activation.negative_slope if isinstance(activation, nn.LeakyReLU) else 0.0


class Convolution(Part):
    """A convolution in half precision, whose bias may be left out."""

    def _find_misfit(self, x: Tensor) -> str | None:
        kind, conv = precision_of(x), self.replaced
        if x.dim() != 2 + len(conv.kernel_size) or x.shape[1] != conv.in_channels or x.dtype not in FLOATS:
            return f"of shape {tuple(x.shape)} and {x.dtype}"
        return None if kind in HALVES else f"in {kind}"

    def compute(self, x: Tensor) -> Tensor:
        """Return the convolution, with its bias."""
        return add_bias(self.compute_without_bias(x), self.replaced.bias)

    def compute_without_bias(self, x: Tensor) -> Tensor:
        """Return the kernel's result; x fits."""
        raise NotImplementedError


class FewChannelConvolution(Convolution):
    """A 3 × 3 × 3 or 3 × 3 convolution of stride 1 from few channels to as many."""

    def compute_without_bias(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the kernel's result, plus a residual in the kernel's precision."""
        return _convolve_few(x.to(precision_of(x)), self.replaced.weight, residual)


def _convolve_few(x: Tensor, weight: Tensor, residual: Tensor | None = None) -> Tensor:
    """Return the kernel's result; an image is a volume of one plane, whose weights before and behind it are 0."""
    conv3d = load("conv3d").conv3d
    if x.dim() == 5:
        return cast(Tensor, conv3d(x, weight, residual))
    deep = functional.pad(weight.unsqueeze(2), (0, 0, 0, 0, 1, 1))
    return cast(Tensor, conv3d(x.unsqueeze(2), deep, None if residual is None else residual.unsqueeze(2)).squeeze(2))


class PointwiseConvolution(Convolution):
    """A 1 × 1 × 1 convolution to few channels."""

    def compute(self, x: Tensor) -> Tensor:
        """Return the convolution, with its bias."""
        return cast(
            Tensor, load("pointwise_conv").pointwise_conv(x.to(precision_of(x)), self.replaced.weight, self.replaced.bias)
        )

    def compute_without_bias(self, x: Tensor) -> Tensor:
        """Return the kernel's result."""
        return cast(Tensor, load("pointwise_conv").pointwise_conv(x.to(precision_of(x)), self.replaced.weight))


class PaddedConvolution(Convolution):
    """A convolution of few input channels, padded by zeros: cuDNN then has kernels for tensor cores."""

    def compute_without_bias(self, x: Tensor) -> Tensor:
        """Return cuDNN's result for x and zeros."""
        return convolve_like(self.replaced, *pad_channels(x, self.replaced.weight, PADDED_CHANNELS))


def pad_channels(x: Tensor, weight: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Return x, in the precision of convolutions, and weights, padded by zeros to so many input channels."""
    kind = precision_of(x)
    items, given, *sides = x.shape
    order = channels_last_of(x.dim())
    beyond = (*(0, 0) * len(sides), 0, channels - given)
    if x.requires_grad:
        wide = functional.pad(x.to(kind), beyond).contiguous(memory_format=order)
    else:
        wide = torch.empty((items, channels, *sides), dtype=kind, device=x.device, memory_format=order).zero_()
        wide[:, :given] = x
    return wide, functional.pad(weight, beyond)


def convolve_like(one: Any, x: Tensor, weight: Tensor) -> Tensor:
    """Return what a convolution makes of x without its bias, with these weights."""
    convolve: Any = functional.conv3d if weight.dim() == 5 else functional.conv2d
    return cast(Tensor, convolve(x, weight, None, one.stride, one.padding, one.dilation, one.groups))


class WidenedConvolution(Convolution):
    """A 3 × 3 × 3 or 3 × 3 convolution of stride 1, padded to as many input channels as results: then our kernel fits."""

    def compute_without_bias(self, x: Tensor) -> Tensor:
        """Return the kernel's result for x and zeros."""
        return _convolve_few(*pad_channels(x, self.replaced.weight, self.replaced.out_channels))


def convolve_without_bias(convolution: nn.Module, x: Tensor) -> Tensor:
    """Return the result of a convolution, or of its part, without the bias."""
    if isinstance(convolution, Convolution) and not convolution.find_misfit(x):
        return convolution.compute_without_bias(x)
    one = cast(Any, convolution.replaced if isinstance(convolution, Part) else convolution)
    if isinstance(one, nn.ConvTranspose3d | nn.ConvTranspose2d):
        transpose: Any = functional.conv_transpose3d if isinstance(one, nn.ConvTranspose3d) else functional.conv_transpose2d
        return transpose(x, one.weight, None, one.stride, one.padding, one.output_padding, one.groups, one.dilation)
    return convolve_like(one, x, one.weight)


def add_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """Return a convolution's result with its bias."""
    return y if bias is None else y + bias.to(y.dtype).view(1, -1, *[1] * (y.dim() - 2))
