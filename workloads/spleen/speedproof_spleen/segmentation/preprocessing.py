"""The documented deterministic transforms in plain torch: orientation, spacing, intensities, crop to what is seen.

They follow MONAI's `Orientationd` (RAS), `Spacingd` (bilinear, labels nearest; in double precision, from centre to centre of
the outermost voxels, values beyond the border those at it), `ScaleIntensityRanged` (clipped) and `CropForegroundd`, step by
step: on a processor the voxels are the same to the last bit. Affines are 4×4 matrices from voxels to millimetres.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import product

import nibabel
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from speedproof_spleen.data.nifti import Affine, affine_of

# Two spacings or affines that differ by less are taken for the same, as by MONAI: voxels are kept, not resampled.
_SAME = 1e-3


class Preparation:
    """From what was read of a case, `image` and `label`, to volumes on a device, each of shape (1, x, y, z)."""

    def __init__(self, spacing_mm: Sequence[float], intensity_range: tuple[float, float], device: torch.device) -> None:
        """Resample to `spacing_mm`, and map the range to [0, 1]."""
        self._spacing_mm = spacing_mm
        self._low, self._high = intensity_range
        self._device = device
        # A GPU does one thing after the other in any case: by turns, it holds the doubles of one volume only.
        self._turn = threading.Lock() if device.type == "cuda" else nullcontext()

    def __call__(self, case: Mapping[str, nibabel.Nifti1Image]) -> dict[str, Tensor]:
        """Return the volumes, cropped to the box of all intensities above 0."""
        image, label = (bring_voxels(case[key], self._device) for key in ("image", "label"))
        with self._turn:
            image = self._straighten(image, case["image"], "bilinear")
            label = self._straighten(label, case["label"], "nearest")
            image = ((image - self._low) / (self._high - self._low)).clip(0, 1)
            box = _find_box(image > 0)
            return {"image": image[box][None], "label": label[box][None]}

    def _straighten(self, voxels: Tensor, image: nibabel.Nifti1Image, mode: str) -> Tensor:
        """Return voxels with axes to the right, front and head, at the wanted distances."""
        voxels, affine = orient(voxels.float(), affine_of(image))
        return resample(voxels, affine, self._spacing_mm, mode)


def bring_voxels(image: nibabel.Nifti1Image, device: torch.device) -> Tensor:
    """Return an image's voxels on a device, shape (x, y, z), in the file's type and order, in which they travel fastest."""
    voxels = np.array(np.asanyarray(image.dataobj).T, order="C")  # a copy, since torch wants to write to what it is given
    voxels = voxels.astype(voxels.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(voxels).to(device).permute(2, 1, 0)


def orient(voxels: Tensor, affine: Affine) -> tuple[Tensor, Affine]:
    """Return voxels with their axes in order right, front, head (RAS+), and their affine."""
    orientation = nibabel.orientations.io_orientation(affine)
    flipped = [axis for axis, direction in enumerate(orientation[:, 1]) if direction < 0]
    turned = affine @ nibabel.orientations.inv_ornt_aff(orientation, voxels.shape)
    return voxels.flip(flipped).permute(np.argsort(orientation[:, 0]).tolist()), turned


def plan_shape(image: nibabel.Nifti1Image, spacing_mm: Sequence[float]) -> tuple[int, ...]:
    """Return the voxels that a volume will have along its axes right, front and head, at these distances, not yet cropped."""
    affine = affine_of(image)
    order = np.argsort(nibabel.orientations.io_orientation(affine)[:, 0])
    _, size = _plan_grid(affine, image.shape, spacing_mm)
    return tuple(size[axis] for axis in order)


def resample(voxels: Tensor, affine: Affine, spacing_mm: Sequence[float], mode: str) -> Tensor:
    """Return voxels (x, y, z), float32, at these distances along their own axes; `mode` is grid_sample's."""
    target, size = _plan_grid(affine, tuple(voxels.shape), spacing_mm)
    move = np.linalg.solve(affine, target)  # from the new voxels' places to the old ones'
    unmoved = np.allclose(affine, target, atol=_SAME) or np.allclose(move, np.eye(4), atol=_SAME)
    if size == tuple(voxels.shape) and unmoved:
        return voxels
    places = _normalizing(voxels.shape) @ torch.from_numpy(move) @ torch.from_numpy(np.linalg.inv(_normalizing(size).numpy()))
    backwards = [2, 1, 0, 3]  # torch's grids begin with the last axis
    theta = places[backwards][:, backwards][None, :3].to(voxels.device)
    grid = functional.affine_grid(theta, [1, 1, *size], align_corners=False)
    doubles = voxels.double().contiguous()[None, None]
    return functional.grid_sample(doubles, grid, mode, padding_mode="border", align_corners=False)[0, 0].float()


def _plan_grid(affine: Affine, shape: tuple[int, ...], spacing_mm: Sequence[float]) -> tuple[Affine, tuple[int, ...]]:
    """Return affine and shape of a volume with other spacings, whose axes keep their directions, without shear, and extents."""
    found_mm = nibabel.affines.voxel_sizes(affine)
    wanted_mm = np.where(np.abs(found_mm - spacing_mm) <= _SAME, found_mm, spacing_mm)
    stretch = np.linalg.cholesky(affine[:3, :3].T @ affine[:3, :3]).T
    target = np.eye(4)
    target[:3, :3] = affine[:3, :3] @ np.linalg.inv(stretch) @ np.diag(np.sign(np.diag(stretch)) * wanted_mm)
    ends = [(0.0, length - 1.0) for length in shape]
    corners = np.array([[*corner, 1.0] for corner in product(*ends)]).T
    reached = (np.linalg.solve(target, affine) @ corners)[:3]
    size = np.round(np.ptp(reached, axis=1) + 1).astype(int)
    lowest = [number for number in range(8) if np.allclose((reached - reached[:, [number]]).min(axis=1), 0, rtol=_SAME)]
    if lowest:
        target[:3, 3] = (affine @ corners)[:3, lowest[0]]
    else:  # sheared: no corner is the lowest along all axes, so the centres are laid on each other
        target[:3, 3] = affine[:3, :3] @ (np.array(shape) / 2) + affine[:3, 3] - target[:3, :3] @ (size / 2)
    return target, tuple(int(length) for length in size)


def _normalizing(shape: Sequence[int]) -> Tensor:
    """Return the matrix from voxels to torch's coordinates, in which a volume reaches from -1 to 1, borders included."""
    sizes = torch.tensor(shape, dtype=torch.float64)
    matrix = torch.diag(torch.cat([2 / sizes, torch.ones(1, dtype=torch.float64)]))
    matrix[:3, 3] = 1 / sizes - 1
    return matrix


def _find_box(seen: Tensor) -> tuple[slice, ...]:
    """Return the smallest box that holds all true voxels: with one wait for the device."""
    lines = [seen.flatten(1).any(1), seen.transpose(0, 1).flatten(1).any(1), seen.flatten(0, 1).any(0)]
    ends = [np.flatnonzero(line) for line in np.split(torch.cat(lines).cpu().numpy(), np.cumsum(seen.shape[:2]))]
    return tuple(slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0, 0) for found in ends)
