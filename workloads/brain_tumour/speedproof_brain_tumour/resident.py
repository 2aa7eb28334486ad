"""Cases that stay on the device in half precision; a crop is cut, flipped, normalised and varied there, as plain tensors.

Random numbers are drawn by the very transforms of the documented chain, in its order: with equal seeds crops are those of the
other variants, but for the rounding of the volumes to half precision.
"""

import gzip
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import torch
from monai.data import Dataset
from monai.transforms import Compose, RandFlipd, RandScaleIntensityd, RandShiftIntensityd, RandSpatialCropd
from torch import Tensor

from speedproof_accelerate.measuring import count_cores
from speedproof_brain_tumour.cases import Case
from speedproof_brain_tumour.chains import BOTH


@dataclass(frozen=True)
class Draw:
    """What was drawn for one crop."""

    place: tuple[slice, ...]
    flipped: tuple[int, ...]  # axes of the volume
    factor: float  # by which intensities are scaled, less 1
    offset: float  # by which they are shifted


class ResidentCases(Dataset):
    """Crops of cases, one of each in a pass: images (4, x, y, z), and regions (3, x, y, z) or their bits (1, x, y, z)."""

    def __init__(
        self,
        cases: Sequence[Case],
        chain: Compose,
        device: torch.device,
        precision: torch.dtype,
        *,
        bits: bool,
        kernels: bool,
    ) -> None:
        """Read all cases, on all cores: decompression lets other threads run.

        Args:
            cases: what trains.
            chain: the documented chain. What comes before its random transforms takes cases whose voxels lie otherwise than
                along the axes, 1 mm apart.
            device: where the cases stay.
            precision: of the crops.
            bits: whether regions come as the bits of one byte.
            kernels: whether crops are made by them.
        """
        transforms = list(chain.transforms)
        first = next(number for number, one in enumerate(transforms) if isinstance(one, RandSpatialCropd))
        self._fixed = transforms[:first]
        self._crop: Any = transforms[first]
        self._flips: list[Any] = [one for one in transforms if isinstance(one, RandFlipd)]
        (self._scale,) = (one for one in transforms if isinstance(one, RandScaleIntensityd))
        (self._shift,) = (one for one in transforms if isinstance(one, RandShiftIntensityd))
        self._device, self._precision, self._bits, self._kernels = device, precision, bits, kernels
        with ThreadPoolExecutor(count_cores()) as threads:
            super().__init__(list(threads.map(self._prepare, cases)))

    def set_random_state(self, seed: int | None = None, state: object = None) -> "ResidentCases":
        """Change nothing: a loader's seed does not reach the transforms of the other variants either."""
        return self

    def __getitem__(self, index: int) -> dict[str, Tensor]:  # type: ignore[override]
        """Return a random crop of a case."""
        image, regions = self.data[index]
        draw = self._draw(image.shape[1:])
        crop = (slice(None), *draw.place)
        regions = regions[crop].flip(draw.flipped)
        if not self._bits:
            regions = unpack_regions(regions)
        if self._kernels:
            from speedproof_accelerate.kernels.normalize_intensity import normalize_crop  # it imports Triton

            varied = normalize_crop(image, draw.place, draw.flipped, 1 + draw.factor, draw.offset)
        else:
            varied = vary(image[crop], draw)
        return {"image": varied.to(self._precision), "label": regions}

    def _prepare(self, case: Case) -> tuple[Tensor, Tensor]:
        (image, placed), (label, label_placed) = (read_volume(case[key], self._device) for key in BOTH)
        flips = find_flips(placed)
        if flips is None or flips != find_flips(label_placed):
            return self._prepare_by_chain(case)
        core = (label == 2) | (label == 3)
        regions = torch.stack([core, core | (label == 1), label == 2])
        return image.movedim(3, 0).flip(flips).half().contiguous(), pack_regions(regions.flip(flips))

    def _prepare_by_chain(self, case: Case) -> tuple[Tensor, Tensor]:
        item: Any = dict(case)
        for transform in self._fixed:
            item = transform(item)
        image, regions = (torch.as_tensor(item[key]).as_subclass(Tensor).to(self._device) for key in BOTH)
        return image.half(), pack_regions(regions)

    def _draw(self, sides: Sequence[int]) -> Draw:
        self._crop.randomize(tuple(sides))
        for flip in self._flips:
            flip.randomize(None)
        flipped = tuple(flip.flipper.spatial_axis + 1 for flip in self._flips if flip._do_transform)
        factor = offset = 0.0
        self._scale.randomize(None)
        if self._scale._do_transform:
            self._scale.scaler.randomize(None)
            factor = self._scale.scaler.factor
        self._shift.randomize(None)
        if self._shift._do_transform:
            self._shift.shifter.randomize(None)
            offset = self._shift.shifter._offset
        return Draw(self._crop.cropper._slices, flipped, factor, offset)


def read_volume(path: str, device: torch.device) -> tuple[Tensor, np.ndarray]:
    """Return a file's voxels on the device, of the file's type, and their affine."""
    content = Path(path).read_bytes()
    image = nibabel.Nifti1Image.from_bytes(gzip.decompress(content) if path.endswith(".gz") else content)
    voxels = np.asanyarray(image.dataobj)
    return torch.from_numpy(voxels.astype(voxels.dtype.newbyteorder("="), copy=False)).to(device), image.affine


def find_flips(affine: np.ndarray) -> list[int] | None:
    """Return along which of (channels, x, y, z) voxels are turned to lie as RAS has it; None: not 1 mm apart, or askew."""
    directions = affine[:3, :3]
    if not np.array_equal(np.abs(directions), np.eye(3)):
        return None
    return [1 + axis for axis in range(3) if directions[axis, axis] < 0]


def as_batch(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the only item as a batch, without a copy, laid out as it is."""
    (item,) = items
    return {key: values[None] for key, values in item.items()}


def pack_regions(regions: Tensor) -> Tensor:
    """Return regions (3, x, y, z) of 0 and 1 as the bits of one byte, (1, x, y, z)."""
    powers = 2 ** torch.arange(len(regions), device=regions.device)
    return (regions * powers.view(-1, 1, 1, 1)).sum(0, keepdim=True).to(torch.uint8)


def unpack_regions(bits: Tensor) -> Tensor:
    """Return the three regions of 0 and 1 that the bits of a byte stand for."""
    return torch.cat([bits >> number & 1 for number in range(3)]).float()


def vary(crop: Tensor, draw: Draw) -> Tensor:
    """Return a crop (channels, x, y, z), flipped, normalised, scaled and shifted, in single precision.

    Voxels that are not 0 are normalised by each channel's own mean and deviation; a deviation of 0 counts as 1, as in MONAI's
    NormalizeIntensity.
    """
    values = crop.flip(draw.flipped).float()
    there = values != 0
    sums = (1, 2, 3)
    count = there.sum(sums, keepdim=True).clamp(min=1)
    mean = values.sum(sums, keepdim=True) / count
    apart = torch.where(there, values - mean, 0.0)
    deviation = (apart.square().sum(sums, keepdim=True) / count).sqrt()
    factor = (1 + draw.factor) / torch.where(deviation == 0, 1.0, deviation)
    return apart * factor + draw.offset
