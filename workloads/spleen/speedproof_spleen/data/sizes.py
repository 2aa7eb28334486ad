"""The sizes of phantoms, apart from what draws them: a configuration knows them without it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """How many volumes of how many voxels; `coarseness` voxels in the plane share one point of the shapes' grid."""

    volumes: int
    pixels: int
    slices: tuple[int, int]
    spacings_mm: tuple[float, ...]  # between slices
    coarseness: int


# The real set has slices 1.5 to 8 mm apart, mostly 5.
SIZES = {
    "tiny": Size(8, 64, (24, 32), (8.0, 9.0, 10.0), 1),
    "small": Size(12, 96, (32, 48), (5.0, 6.0, 7.0, 8.0), 1),
    "medium": Size(20, 256, (40, 90), (2.5, 3.0, 4.0, 5.0, 5.0, 6.0, 7.5), 2),
    "full": Size(41, 512, (50, 150), (1.5, 2.0, 2.5, 3.0, 5.0, 5.0, 5.0, 7.5, 8.0), 4),
}


def estimate_bytes(size: str) -> int:
    """Return how much room a phantom may need: noise leaves 1.1 (full) to 1.3 (tiny) bytes of each voxel."""
    spec = SIZES[size]
    return int(1.3 * spec.volumes * spec.pixels**2 * spec.slices[1])
