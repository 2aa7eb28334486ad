"""Doing a step on a throwaway network while files are read: kernels are compiled and chosen in time that would be lost."""

import logging
import time

import torch

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
    """Take one step of random patches, and predict one batch of random windows; nothing of it stays but what was chosen.

    On a GPU and with a resident cache only: other caches are filled by the processor's own work, which this would slow down.
    """
    if device.type != "cuda" or variant.cache != "resident":
        return
    start = time.perf_counter()
    with torch.random.fork_rng([device]):
        network = apply_memory_format(variant, apply_kernels(variant, case.network(), device))
        precision = build_precision(variant, device)
        objective = build_objective(variant, network, case.loss(), device)
        step = Step(objective, build_optimizer(variant, network), precision)
        kind = torch.float32 if variant.precision == "fp32" else torch.float16
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
    log.info("rehearsed in %.1f s", time.perf_counter() - start)
