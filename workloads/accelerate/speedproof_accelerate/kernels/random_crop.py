"""Random patches of resident volumes: one kernel places them, another copies them; it reads and writes each voxel once."""

import triton
import triton.language as tl
from torch import Tensor

from speedproof_accelerate.kernels.launch import LAUNCH, wait_for_previous
from speedproof_accelerate.resident import Buffers, Crops, Sides

_ROWS, _WIDTH = 32, 32  # of a tile: a warp reads and writes neighbours of one row, and lengths are often multiples of 32
_WARPS = 8
# Numbers, and slices with any alignment: Triton must not compile the kernel again for each.
_ANY = ["starts", "shapes", "chosen", "corners", "across", "deep"]
_PATCHES = 128  # placed by a program
_PLACED = ["chosen", "chances", "patches", "volumes", "SX", "SY", "SZ"]


@triton.jit
def _fit(place, length, side):
    """Return where a patch around a place begins, moved inside the volume."""
    return tl.minimum(tl.maximum(place - side // 2, 0), length - side)


@triton.jit(do_not_specialize=_PLACED)
def crop_place_patches(
    chosen, chances, candidates, counts, firsts, shapes, corners, patches, volumes, SX, SY, SZ, BLOCK: tl.constexpr
):
    """Each program: the lowest corners of its patches."""
    wait_for_previous()
    patch = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = patch < patches
    volume = tl.load(chosen + patch, mask=inside, other=0)
    kind = (tl.load(chances + patch, mask=inside, other=0.0) >= 0.5).to(tl.int64)
    kind = tl.where(tl.load(counts + kind * volumes + volume, mask=inside, other=1) == 0, 1 - kind, kind)
    listed = kind * volumes + volume
    count = tl.load(counts + listed, mask=inside, other=0)
    pick = (tl.load(chances + patches + patch, mask=inside, other=0.0) * count.to(tl.float64)).to(tl.int64)
    centre = tl.load(candidates + tl.load(firsts + listed, mask=inside, other=0) + pick, mask=inside, other=0).to(tl.int64)
    long = tl.load(shapes + volume * 3, mask=inside, other=1)
    across = tl.load(shapes + volume * 3 + 1, mask=inside, other=1)
    deep = tl.load(shapes + volume * 3 + 2, mask=inside, other=1)
    tl.store(corners + patch * 3, _fit(centre // deep // across, long, SX), mask=inside)
    tl.store(corners + patch * 3 + 1, _fit(centre // deep % across, across, SY), mask=inside)
    tl.store(corners + patch * 3 + 2, _fit(centre % deep, deep, SZ), mask=inside)


@triton.jit(do_not_specialize=_ANY)
def crop_patches(
    images,
    labels,
    starts,
    shapes,
    chosen,
    corners,
    out,
    labels_out,
    across,
    deep,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Each program: one plane of one patch, `across` rows of `deep` voxels; only a plane's start needs 64 bits."""
    wait_for_previous()
    plane = tl.program_id(0)
    patch = tl.program_id(1).to(tl.int64)
    volume = tl.load(chosen + patch)
    x = tl.load(corners + patch * 3) + plane
    y = tl.load(corners + patch * 3 + 1)
    z = tl.load(corners + patch * 3 + 2)
    pitch = tl.load(shapes + volume * 3 + 2)
    first = tl.load(starts + volume) + (x * tl.load(shapes + volume * 3 + 1) + y) * pitch + z
    target = (patch * tl.num_programs(0) + plane) * across * deep
    step = pitch.to(tl.int32)
    for top in range(0, across, ROWS):
        row = top + tl.arange(0, ROWS)[:, None]
        for left in range(0, deep, WIDTH):
            column = left + tl.arange(0, WIDTH)[None, :]
            inside = (row < across) & (column < deep)
            source, place = row * step + column, row * deep + column
            image = tl.load(images + first + source, mask=inside)
            label = tl.load(labels + first + source, mask=inside)
            tl.store(out + target + place, image.to(out.dtype.element_ty), mask=inside)
            tl.store(labels_out + target + place, label, mask=inside)


def place_patches(volumes: Buffers, chosen: Tensor, chances: Tensor, sides: Sides) -> Tensor:
    """Return the lowest corners of patches on a GPU; see :func:`speedproof_accelerate.resident.place_patches`."""
    corners = chosen.new_empty((len(chosen), 3))
    crop_place_patches[(triton.cdiv(len(chosen), _PATCHES),)](
        chosen.contiguous(), chances.contiguous(), volumes.candidates, volumes.counts, volumes.firsts, volumes.shapes,
        corners, len(chosen), len(volumes.shapes), *sides, BLOCK=_PATCHES, **LAUNCH,
    )  # fmt: skip
    return corners


def gather_patches(volumes: Buffers, chosen: Tensor, corners: Tensor, images: Tensor, labels: Tensor) -> None:
    """Take the patches at these corners on a GPU; see :func:`speedproof_accelerate.resident.gather_patches`.

    Nothing checks that a patch is inside its volume.

    Raises:
        ValueError: there is not one corner of three numbers for each chosen volume.
    """
    if corners.shape != (len(chosen), 3):
        raise ValueError(f"corners of shape {tuple(corners.shape)} do not go with {len(chosen)} chosen volumes")
    sides = images.shape[2:]
    crop_patches[(sides[0], len(chosen))](
        volumes.images, volumes.labels, volumes.starts, volumes.shapes, chosen.contiguous(), corners.contiguous(),
        images, labels, sides[1], sides[2], ROWS=_ROWS, WIDTH=_WIDTH, num_warps=_WARPS, **LAUNCH,
    )  # fmt: skip


CROPS = Crops(place_patches, gather_patches)
