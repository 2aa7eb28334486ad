"""Doing a step on a throwaway network while files are read: kernels are compiled and loaded in time that would be lost."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from speedproof.cases import Case
from speedproof.config.model import Variant
from speedproof.training.step import Step
from speedproof.training.techniques import (
    apply_kernels,
    apply_memory_format,
    build_objective,
    build_optimizer,
    build_precision,
)

log = logging.getLogger("speedproof")


def rehearse(case: Case, variant: Variant, device: torch.device) -> None:
    """Compile our kernels, take one step of random patches, and predict one batch of random windows; nothing of it stays.

    On a GPU and with a resident cache only: other caches are filled by the processor's own work, which this would slow down.
    """
    if device.type != "cuda" or variant.cache != "resident":
        return
    start = time.perf_counter()
    kind = torch.float32 if variant.precision == "fp32" else torch.float16
    with torch.random.fork_rng([device]):
        if variant.kernels:
            compile_kernels(variant, torch.bfloat16 if variant.precision == "bf16" else kind, device)
        compiled = time.perf_counter()
        network = apply_memory_format(variant, apply_kernels(variant, case.network(), device))
        precision = build_precision(variant, device)
        objective = build_objective(variant, network, case.loss(), device)
        step = Step(objective, build_optimizer(variant, network), precision)
        patches = variant.batch_size * case.patches_per_volume()
        images = torch.rand((patches, 1, *case.patch_size()), device=device, dtype=kind)
        step.forward(images, (images > 0.5).byte())
        step.backward()
        step.update()
        windows = torch.rand((case.window_batch(), 1, *case.window_size()), device=device, dtype=kind)
        network.eval()
        with torch.no_grad(), precision.autocast():
            network(windows)
    torch.cuda.synchronize(device)
    log.info("rehearsed in %.1f s, of which %.1f s compiled kernels", time.perf_counter() - start, compiled - start)


def compile_kernels(variant: Variant, kind: torch.dtype, device: torch.device) -> None:
    """Run each of the variant's kernels once on a small volume, several at a time: each compiles on its first call."""

    def volume(channels: int, side: int = 16) -> Tensor:
        made = torch.rand((2, channels, side, side, side), device=device).to(kind, memory_format=torch.channels_last_3d)
        return made.requires_grad_()

    def weights(*shape: int) -> Tensor:
        return torch.rand((*shape, 3, 3, 3), device=device, requires_grad=True)

    def pass_both_ways(work: Callable[[], Tensor | tuple[Tensor, ...]]) -> None:
        # The gradient in this thread, too: one thread for all of a GPU would compile one kernel after the other.
        with torch.cuda.device(device), torch.autograd.set_multithreading_enabled(False):
            made = work()
            sum(one.float().sum() for one in (made if isinstance(made, tuple) else (made,))).backward()  # type: ignore[union-attr]

    tasks: list[Callable[[], Tensor | tuple[Tensor, ...]]] = [
        lambda: nn.functional.conv3d(volume(16), weights(16, 16).to(kind))
    ]
    if "norm" in variant.kernels:
        from speedproof.training.kernels.norm import norm_activate

        norm, slope, bias = (
            nn.BatchNorm3d(16).to(device),
            torch.rand(1, device=device, requires_grad=True),
            torch.rand(16, device=device),
        )
        tasks += [
            lambda: norm_activate(volume(16), norm, slope, bias),
            lambda: norm_activate(volume(16), norm, slope, bias, volume(16), bias),
        ]
    if "convolutions" in variant.kernels:
        from speedproof.training.kernels.few_channels import convolve_strided_pair, convolve_transposed, convolve_with_residual

        channels = variant.network.channels[0]
        tasks += [
            lambda: convolve_transposed(volume(2 * channels), weights(2 * channels, 2)),
            lambda: convolve_with_residual(volume(2), weights(2, 2), torch.rand(2, device=device, requires_grad=True)),
            lambda: convolve_strided_pair(volume(1).detach(), weights(channels, 1), weights(channels, 1)),
        ]
    if "loss" in variant.kernels:
        from speedproof.training.kernels.loss import dice_cross_entropy

        tasks.append(lambda: dice_cross_entropy(volume(2), (volume(1) > 0.5).byte(), 1e-5, 1.0))
    with ThreadPoolExecutor(len(tasks)) as threads:
        list(threads.map(pass_both_ways, tasks))
