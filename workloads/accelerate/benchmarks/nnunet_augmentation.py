"""How long nnU-Net's augmentation of a batch takes: ours on a device, and batchgeneratorsv2's on one CPU core.

    python workloads/accelerate/benchmarks/nnunet_augmentation.py --out FILE [--patch 128 160 112] [--batch 2]

Writes a JSON file with times in ms. `whole`: the mean of many batches, each with nnU-Net's probabilities. `certain`: each
transformation of all samples and, if it draws them, half of the channels. Give a patch of two sizes to augment images.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nnunetv2.training.data_augmentation.compute_initial_patch_size import get_patch_size
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.pipeline import Pipeline, translate_pipeline

LABELS = (-1, 0, 1, 2)


def publish(patch: list[int], angle: float) -> Any:
    """Return nnU-Net's training transforms with five targets of deep supervision."""
    scales = [[0.5**level] * len(patch) for level in range(5)]
    return nnUNetTrainer.get_training_transforms(
        patch, (-angle, angle), scales, tuple(range(len(patch))), False, foreground_labels=(1, 2)
    )


def make_certain(one: Any) -> Any:
    """Return a transformation that is applied to each sample."""
    known = {field.name for field in fields(one)}
    return replace(one, **{name: 1.0 for name in ("probability", "p_rotation", "p_scaling") if name in known})


def time_ms(call: Callable[[], object], calls: int, device: torch.device) -> float:
    """Return the mean time of a call."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    call()
    wait()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - begin) / calls * 1e3


def measure(patch: list[int], batch: int, channels: int, calls: int, device: torch.device) -> dict[str, Any]:
    """Return all times."""
    angle = np.pi if len(patch) == 2 else np.pi / 6
    larger = [int(side) for side in get_patch_size(patch, (-angle, angle), (-angle, angle), (-angle, angle), (0.85, 1.25))]
    published = publish(patch, angle)
    ours = translate_pipeline(published, LABELS)
    images = torch.randn((batch, channels, *larger))
    labels = torch.randint(-1, 3, (batch, 1, *larger), dtype=torch.int16)
    on_device = images.to(device), labels.to(device)

    def apply(transformations: tuple[Any, ...], given: tuple[Tensor, Tensor], scales: Any = None) -> Callable[[], object]:
        return lambda: Pipeline(transformations, scales)(*(one.clone() for one in given))

    crop, *others = ours.transformations
    patches = tuple(one.clone() for one in Pipeline((make_certain(crop),), None)(*on_device))
    found = {"patch": patch, "from": larger, "batch": batch, "channels": channels, "device": str(device), "certain": {}}
    found["whole"] = time_ms(apply(ours.transformations, on_device, ours.scales), calls, device)
    found["certain"]["copy"] = time_ms(apply((), patches), calls, device)
    for one, given in ((crop, on_device), *((one, patches) for one in others)):
        name = type(one).__name__ + (" inverted" if getattr(one, "inverted", False) else "")
        found["certain"][name] = time_ms(apply((make_certain(one),), given), calls, device)
    found["certain"]["targets"] = time_ms(apply((), patches, ours.scales), calls, device)
    torch.set_num_threads(1)  # as nnU-Net's worker processes

    def augment_batch() -> None:
        for image, label in zip(images, labels, strict=True):
            published(image=image.clone(), segmentation=label.clone())

    found["published_whole_one_core"] = time_ms(augment_batch, max(calls // 10, 2), torch.device("cpu"))
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--patch", type=int, nargs="+", default=[128, 160, 112], help="default: 128 160 112")
    parser.add_argument("--batch", type=int, default=2, help="default: 2")
    parser.add_argument("--channels", type=int, default=1, help="default: 1")
    parser.add_argument("--calls", type=int, default=100, help="default: 100")
    parser.add_argument("--device", default="cuda", help="default: cuda")
    given = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  # batchgeneratorsv2 draws from it
    found = measure(given.patch, given.batch, given.channels, given.calls, torch.device(given.device))
    given.out.write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
