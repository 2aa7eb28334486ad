"""Volumes that stay on the device as plain tensors, and random patches gathered from all of them in one operation.

Nothing here waits for the device: places are drawn, and patches taken, by operations that it does on its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True)
class Volume:
    """One preprocessed case on the device."""

    image: Tensor  # (x, y, z), float16: intensities in [0, 1]
    label: Tensor  # (x, y, z), uint8


@dataclass(frozen=True)
class Buffers:
    """All volumes of a dataset, one behind the other."""

    images: Tensor  # of all voxels, float16
    labels: Tensor  # of all voxels, uint8
    starts: Tensor  # shape (volumes,): the number of each one's first voxel
    shapes: Tensor  # shape (volumes, 3)
    candidates: Tensor  # voxels that a patch may be centred on, by number in their volume: foregrounds', then backgrounds'
    counts: Tensor  # how many of them: row 0 foreground, row 1 background, a column a volume
    firsts: Tensor  # where they begin, of the same shape


Sides = tuple[int, int, int]


@dataclass(frozen=True)
class Crops:
    """Who draws and takes patches: torch, as below, or our kernels."""

    place: Callable[[Buffers, Tensor, Tensor, Sides], Tensor]
    gather: Callable[[Buffers, Tensor, Tensor, Tensor, Tensor], None]


def place_patches(volumes: Buffers, chosen: Tensor, chances: Tensor, sides: Sides) -> Tensor:
    """Return the lowest corner of a patch in each chosen volume, shape (patches, 3).

    Patches are placed as by RandCropByPosNegLabeld with `pos=1, neg=1, image_threshold=0`: the centre is, at even odds, any
    voxel of the foreground, or any of the background whose intensity is above 0. A patch that would exceed the volume is moved
    inside. If a volume lacks one of the two, its patches are centred on the other.

    Args:
        volumes: from which patches are taken.
        chosen: the number of each patch's volume, shape (patches,).
        chances: random numbers from 0 to 1, shape (2, patches): for foreground or background, and for the voxel. They need
            double precision: otherwise the last of many candidates would never be drawn.
        sides: the size of a patch.
    """
    kinds = (chances[0] >= 0.5).long()
    kinds = torch.where(volumes.counts[kinds, chosen] == 0, 1 - kinds, kinds)
    picks = (chances[1] * volumes.counts[kinds, chosen]).long()
    centres = volumes.candidates[volumes.firsts[kinds, chosen] + picks].long()
    corners = []
    for axis, inner in enumerate(volumes.shapes[chosen].unbind(dim=1)):
        lengths = volumes.shapes[chosen, axis + 1 :].prod(dim=1)
        places = centres // lengths % inner
        corners.append(torch.minimum((places - sides[axis] // 2).clamp(min=0), inner - sides[axis]))
    return torch.stack(corners, dim=1)


def gather_patches(volumes: Buffers, chosen: Tensor, corners: Tensor, images: Tensor, labels: Tensor) -> None:
    """Take the patches at these corners.

    Args:
        volumes: what they are taken out of.
        chosen: of each patch the number of its volume, shape (patches,).
        corners: of each patch its lowest voxel, shape (patches, 3).
        images: where they go, shape (patches, 1, x, y, z), of any precision.
        labels: of the same shape, uint8.
    """
    across, deep = volumes.shapes[chosen, 1], volumes.shapes[chosen, 2]
    x, y, z = (corners[:, axis, None] + torch.arange(side, device=corners.device) for axis, side in enumerate(images.shape[2:]))
    rows = volumes.starts[chosen, None, None] + (x[:, :, None] * across[:, None, None] + y[:, None, :]) * deep[:, None, None]
    index = rows[:, None, :, :, None] + z[:, None, None, None, :]
    images.copy_(volumes.images[index])
    labels.copy_(volumes.labels[index])


TORCH = Crops(place_patches, gather_patches)


class ResidentVolumes:
    """All volumes of a dataset, in one buffer each for images, labels and candidate centres."""

    def __init__(self, volumes: Sequence[Volume], patch_size: Sides, crops: Crops = TORCH) -> None:
        """Lay out the volumes, list the voxels that a patch may be centred on, and take who draws and takes patches.

        Raises:
            ValueError: a volume is smaller than a patch.
        """
        for number, volume in enumerate(volumes):
            if any(length < patch for length, patch in zip(volume.image.shape, patch_size, strict=True)):
                raise ValueError(
                    f"volume {number} of {tuple(volume.image.shape)} voxels is smaller than a patch of {patch_size}"
                )
        device = volumes[0].image.device
        self.patch_size = patch_size
        self._crops = crops
        foreground = [torch.nonzero(volume.label.flatten() > 0).flatten().int() for volume in volumes]
        background = [
            torch.nonzero((volume.label.flatten() == 0) & (volume.image.flatten() > 0)).flatten().int() for volume in volumes
        ]
        lists = [*foreground, *background]
        counts = [len(listed) for listed in lists]
        self._buffers = Buffers(
            images=torch.cat([volume.image.flatten() for volume in volumes]),
            labels=torch.cat([volume.label.flatten() for volume in volumes]),
            starts=_starts_of([volume.image.numel() for volume in volumes], device),
            shapes=torch.tensor([volume.image.shape for volume in volumes], device=device),
            candidates=torch.cat(lists),
            counts=torch.tensor(counts, device=device).view(2, len(volumes)),
            firsts=_starts_of(counts, device).view(2, len(volumes)),
        )

    def __len__(self) -> int:
        return len(self._buffers.shapes)

    @property
    def device(self) -> torch.device:
        """Return where the volumes are."""
        return self._buffers.images.device

    def draw_corners(self, chosen: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the lowest corner of a random patch in each chosen volume, shape (patches, 3); see :func:`place_patches`.

        Args:
            chosen: numbers of volumes, shape (patches,).
            generator: of the random numbers; None: torch's own.
        """
        chances = torch.rand((2, len(chosen)), device=self.device, dtype=torch.float64, generator=generator)
        return self._crops.place(self._buffers, chosen, chances, self.patch_size)

    def empty_patches(self, patches: int, precision: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return room for patches: images (patches, 1, x, y, z) in this precision, and labels, uint8."""
        shape = (patches, 1, *self.patch_size)
        return self._buffers.images.new_empty(shape, dtype=precision), self._buffers.labels.new_empty(shape)

    def gather(self, chosen: Tensor, corners: Tensor, images: Tensor, labels: Tensor) -> None:
        """Take the patches at these corners; see :func:`gather_patches`."""
        self._crops.gather(self._buffers, chosen, corners, images, labels)


Batch = dict[str, Tensor]


@dataclass(frozen=True)
class _Pass:
    """The patches of one pass, for each batch of shapes (patches,) and (patches, 3), and the first batch of them."""

    chosen: Sequence[Tensor]
    corners: Sequence[Tensor]
    first: Batch


class PatchLoader:
    """Batches of random patches; a pass takes every volume once, in random order.

    All batches are taken into the same memory, in the device's order: each is there until one more is asked for, and what has
    been recorded as a graph finds it in its place.

    Whoever asks for one more than a pass has lets the next one be drawn, and its first batch be taken: the device is still at
    work then, and need not wait for the next pass to begin. Random numbers come from torch's seed and the number of the pass
    alone.
    """

    def __init__(self, volumes: ResidentVolumes, batch_size: int, patches_per_volume: int, precision: torch.dtype) -> None:
        """Take `batch_size` volumes a batch and `patches_per_volume` patches of each, whose images have a precision."""
        self._volumes = volumes
        self._batch_size = batch_size
        self._patches_per_volume = patches_per_volume
        self._room = volumes.empty_patches(batch_size * patches_per_volume, precision)
        self._seed = torch.initial_seed()
        self._passes = 0  # begun so far
        self._ahead: dict[int, _Pass] = {}  # by its number

    def __len__(self) -> int:
        return -(-len(self._volumes) // self._batch_size)

    def __iter__(self) -> Iterator[Batch]:
        drawn = self._ahead.pop(self._passes, None) or self._draw(self._passes)
        self._passes += 1
        for number in range(len(self)):
            yield drawn.first if number == 0 else self._take(drawn.chosen[number], drawn.corners[number])
        self._ahead = {self._passes: self._draw(self._passes)}

    def state_dict(self) -> dict[str, int]:
        """Return how many passes have begun."""
        return {"passes": self._passes}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on behind so many passes."""
        self._passes = state["passes"]

    def _draw(self, number: int) -> _Pass:
        generator = torch.Generator(self._volumes.device).manual_seed((self._seed * 1_000_003 + number) % 2**63)
        order = torch.randperm(len(self._volumes), device=self._volumes.device, generator=generator)
        chosen = order.repeat_interleave(self._patches_per_volume)
        patches = self._batch_size * self._patches_per_volume
        batches = chosen.split(patches), self._volumes.draw_corners(chosen, generator).split(patches)
        return _Pass(*batches, self._take(batches[0][0], batches[1][0]))

    def _take(self, chosen: Tensor, corners: Tensor) -> Batch:
        images, labels = (one[: len(chosen)] for one in self._room)
        self._volumes.gather(chosen, corners, images, labels)
        return {"image": images, "label": labels}


class VolumeLoader:
    """Whole volumes in order: one at a time, or all of them as one batch."""

    def __init__(self, volumes: Sequence[Volume], precision: torch.dtype, together: bool) -> None:
        """Take the volumes that validate, and the precision that images shall have."""
        self._volumes = volumes
        self._precision = precision
        self._together = together

    def __len__(self) -> int:
        return 1 if self._together else len(self._volumes)

    def __iter__(self) -> Iterator[dict[str, Tensor | list[Tensor]]]:
        """Yield tensors of shape (1, 1, x, y, z); of all together, lists of tensors of shape (1, x, y, z)."""
        if self._together:
            images = [volume.image[None].to(self._precision) for volume in self._volumes]
            yield {"image": images, "label": [volume.label[None] for volume in self._volumes]}
            return
        for volume in self._volumes:
            yield {"image": volume.image[None, None].to(self._precision), "label": volume.label[None, None]}


def _starts_of(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Return where each of several pieces begins that lie one behind the other."""
    return torch.tensor([0, *accumulate(lengths)][:-1], device=device)
