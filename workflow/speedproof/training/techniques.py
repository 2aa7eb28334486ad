"""From a variant's switches to the objects they stand for: optimizer, precision, memory format, compilation, randomness."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from speedproof.config import model as config


def build_optimizer(variant: config.Variant, network: nn.Module) -> Optimizer:
    """Return the optimizer of the network's parameters."""
    optimizer = variant.optimizer
    if isinstance(optimizer, config.AdamW):
        return AdamW(
            network.parameters(),
            optimizer.learning_rate,
            optimizer.betas,
            weight_decay=optimizer.weight_decay,
            fused=optimizer.fused,
        )
    if isinstance(optimizer, config.Adam):
        return Adam(network.parameters(), optimizer.learning_rate, optimizer.betas, fused=optimizer.fused)
    if isinstance(optimizer, config.Novograd):
        from monai.optimizers import Novograd

        return Novograd(network.parameters(), optimizer.learning_rate)
    return SGD(
        network.parameters(),
        lr=optimizer.learning_rate,
        momentum=optimizer.momentum,
        weight_decay=optimizer.weight_decay,
        nesterov=optimizer.nesterov,
    )


def apply_meta_tracking(variant: config.Variant, tracked: bool) -> None:
    """Switch MONAI's metadata on or off for all that follows; nothing where all that follows is plain torch."""
    if variant.toolkit == "monai":
        from monai.data import set_track_meta

        set_track_meta(tracked)


@dataclass(frozen=True)
class Precision:
    """The precision of a training step: plain fp32, or half-precision autocast, with a gradient scaler where it needs one.

    On a CPU, autocast computes in bfloat16, the half precision that CPUs have; there, too, the scaler leaves out the steps
    whose gradients are not finite, as some processors' bfloat16 convolutions make them now and then.
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
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            optimizer.step()


def build_precision(variant: config.Variant, device: torch.device) -> Precision:
    """Return the variant's precision on a device."""
    if variant.precision == "fp32":
        return Precision(device, None, None)
    if device.type == "cpu":
        return Precision(device, torch.bfloat16, torch.amp.GradScaler(device.type))
    if variant.precision == "bf16":
        return Precision(device, torch.bfloat16, None)
    return Precision(device, torch.float16, torch.amp.GradScaler(device.type))


def fix_randomness(variant: config.Variant, seed: int) -> None:
    """Seed all generators, and let cuDNN try its kernels where the variant wants the fastest."""
    if variant.toolkit == "monai":
        from monai.utils import set_determinism

        set_determinism(seed)
    else:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (libraries draw from it)
    torch.backends.cudnn.deterministic = variant.cudnn == "deterministic"
    torch.backends.cudnn.benchmark = variant.cudnn == "autotune"


def apply_memory_format(variant: config.Variant, network: nn.Module) -> nn.Module:
    """Return the network with its weights in the variant's memory format; activations follow the weights."""
    if variant.memory_format == "channels_last":
        network.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]  # torch's annotations lack it
    return network


def build_objective(variant: config.Variant, network: nn.Module, loss: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function of (images, labels) whose value training lowers, compiled where the variant says so.

    Compiled for the shapes it meets: the batches of an epoch, of which the last may be smaller.
    """

    def objective(images: Tensor, labels: Tensor) -> Tensor:
        return loss(network(images), labels)

    if variant.compile == "none":
        return objective
    return torch.compile(objective, mode="reduce-overhead" if variant.compile == "cuda_graphs" else "default", dynamic=False)
