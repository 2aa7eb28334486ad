"""Preprocessed cases on the training device, and patches cut there."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from acvl_utils.cropping_and_padding.bounding_boxes import crop_and_pad_nd
from torch import Tensor

_OUTSIDE = -1  # nnU-Net's label outside of a case


@dataclass(frozen=True)
class Case:
    """One preprocessed case.

    Attributes:
        image: shape (channels, x, y, z).
        label: shape (1, x, y, z).
        class_locations: voxels of each class, as nnU-Net's preprocessing has chosen them.
    """

    image: Tensor
    label: Tensor
    class_locations: Any


def open_cases(datasets: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield each case of nnU-Net's datasets once, by its name, without reading its voxels; fold "all" has all of them twice."""
    seen = set()
    for dataset in datasets:
        for identifier in dataset.identifiers:
            if identifier not in seen:
                seen.add(identifier)
                yield identifier, dataset.load_case(identifier)


def count_bytes(datasets: Iterable[Any]) -> int:
    """Return how much memory the cases of nnU-Net's datasets take."""
    opened = (case[:2] for _, case in open_cases(datasets))
    return sum(math.prod(one.shape) * one.dtype.itemsize for arrays in opened for one in arrays)


def find_free_bytes(device: torch.device) -> int:
    """Return how much memory of a device, or of this machine, is free."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def load_cases(datasets: Iterable[Any], device: torch.device) -> dict[str, Case]:
    """Read the cases of nnU-Net's datasets onto a device, each in the precision of its file."""
    cases = {}
    for identifier, (image, label, _, properties) in open_cases(datasets):
        tensors = [torch.tensor(one[:], device=device) for one in (image, label)]
        cases[identifier] = Case(tensors[0], tensors[1], properties["class_locations"])
    return cases


def cut_patch(case: Case, lowest: Sequence[int], highest: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return a patch of a case, float32, and its labels, int16; outside, the image is 0 and the label -1."""
    box = [[int(low), int(high)] for low, high in zip(lowest, highest, strict=True)]
    image = crop_and_pad_nd(case.image, box, 0).float()
    return image, crop_and_pad_nd(case.label, box, _OUTSIDE, cast_cropped_to=torch.int16)
