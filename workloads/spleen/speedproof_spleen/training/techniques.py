"""From a variant's switches to the objects they stand for: optimizer, precision, memory format, kernels, randomness."""

import random
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from speedproof.api import TrainingError
from speedproof_accelerate.copies import WeightCopies
from speedproof_accelerate.optimizer import Optimizer, Scaler
from speedproof_accelerate.resident import TORCH, Crops
from speedproof_accelerate.step import GraphedStep, Precision, Step
from speedproof_spleen import variant as config
from speedproof_spleen.training.fused_network import FUSED_OPERATIONS, Operations, fuse


def build_copies(variant: config.SpleenVariant, network: nn.Module, precision: Precision) -> WeightCopies | None:
    """Return the half-precision copies of weights that the network computes with, if the variant's optimizer keeps such."""
    if "adam" not in variant.kernels or precision.device.type != "cuda" or precision.half is None:
        return None
    return WeightCopies(network, precision.half)


def build_optimizer(variant: config.SpleenVariant, network: nn.Module, copies: WeightCopies | None = None) -> Optimizer:
    """Return the optimizer of the network's parameters, and of their copies, if there are any."""
    optimizer = variant.optimizer
    if copies is not None and isinstance(optimizer, config.Adam):
        own: Optimizer = _import_kernels("fused_adam").FusedAdam(copies, optimizer.learning_rate, optimizer.betas)
        return own
    capturable = variant.launch == "graphs" and next(network.parameters()).is_cuda
    if isinstance(optimizer, config.AdamW):
        return AdamW(
            network.parameters(),
            optimizer.learning_rate,
            optimizer.betas,
            weight_decay=optimizer.weight_decay,
            fused=optimizer.fused,
            capturable=capturable,
        )
    if isinstance(optimizer, config.Adam):
        return Adam(
            network.parameters(),
            optimizer.learning_rate,
            optimizer.betas,
            fused=optimizer.fused,
            capturable=capturable,
        )
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


def apply_meta_tracking(variant: config.SpleenVariant, tracked: bool) -> None:
    """Switch MONAI's metadata on or off for all that follows; nothing where all that follows is plain torch."""
    if variant.toolkit == "monai":
        from monai.data import set_track_meta

        set_track_meta(tracked)


def build_precision(variant: config.SpleenVariant, device: torch.device) -> Precision:
    """Return the variant's precision on a device; see :class:`Precision` for why a CPU has fp32 alone."""
    scaler = Scaler(device.type) if variant.precision == "fp16" else None
    if variant.precision == "fp32" or device.type == "cpu":
        return Precision(device, None, scaler)
    return Precision(device, torch.bfloat16 if variant.precision == "bf16" else torch.float16, scaler)


def fix_randomness(variant: config.SpleenVariant, seed: int) -> None:
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


def apply_memory_format(variant: config.SpleenVariant, network: nn.Module) -> nn.Module:
    """Return the network with its weights in the variant's memory format; activations follow the weights."""
    if variant.memory_format == "channels_last":
        network.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]  # torch's annotations lack it
    return network


def apply_kernels(variant: config.SpleenVariant, network: nn.Module, device: torch.device) -> nn.Module:
    """Return the network with those kernels of ours in place that the variant names; without a GPU, their references."""
    if "norm" not in variant.kernels:
        return network
    return fuse(network, _find_operations(device), direct="convolutions" in variant.kernels)


def image_precision(variant: config.SpleenVariant, device: torch.device) -> torch.dtype:
    """Return the precision in which resident volumes come; autocast makes bfloat16 of half precision by itself."""
    return torch.float32 if variant.precision == "fp32" or device.type == "cpu" else torch.float16


def choose_crops(variant: config.SpleenVariant, device: torch.device) -> Crops:
    """Return who draws and takes patches of resident volumes: our kernels if the variant names them; without a GPU, torch."""
    if "crops" in variant.kernels and device.type == "cuda":
        return cast(Crops, _import_kernels("random_crop").CROPS)
    return TORCH


def build_objective(
    variant: config.SpleenVariant, network: Callable[[Tensor], Tensor], loss: nn.Module, device: torch.device
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function of (images, labels) whose value training lowers."""
    settings = variant.loss
    if "loss" in variant.kernels and device.type == "cuda" and isinstance(settings, config.DiceCELoss):
        dice_ce_loss = _import_kernels("dice_ce_loss").dice_ce_loss
        smooth, weight = settings.smooth, settings.weight
        return lambda images, labels: dice_ce_loss(network(images), labels, smooth, weight)
    return lambda images, labels: loss(network(images), labels)


def build_step(
    variant: config.SpleenVariant,
    objective: Callable[[Tensor, Tensor], Tensor],
    optimizer: Optimizer,
    precision: Precision,
    averaged: Sequence[Tensor] = (),
) -> Step:
    """Return what the loop does with each batch; see :class:`speedproof_accelerate.step.Step`."""
    graphs = variant.launch == "graphs" and precision.device.type == "cuda"
    return (GraphedStep if graphs else Step)(objective, optimizer, precision, averaged, variant.overlap)


def _find_operations(device: torch.device) -> Operations:
    names = FUSED_OPERATIONS if device.type == "cuda" else ("reference",)
    return Operations.of(*map(_import_kernels, names))


def _import_kernels(name: str) -> ModuleType:
    try:
        return import_module(f"speedproof_accelerate.kernels.{name}")
    except ModuleNotFoundError as error:
        raise TrainingError(f"`kernels` need the package `{error.name}`, which is not installed; install it") from None
