"""What a network multiplies and moves, counted by hand."""

import runpy
from pathlib import Path

from torch import nn

TRAFFIC = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks/traffic.py"))
Work = TRAFFIC["Work"]


def test_work_is_that_counted_by_hand():
    """Batch 2 of 8×8×8 voxels: 1 channel to 4, norm, then every second voxel to 8 channels, and back to 4."""
    network = nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1),
        nn.InstanceNorm3d(4),
        nn.LeakyReLU(),
        nn.Conv3d(4, 8, 3, 2, 1),
        nn.ConvTranspose3d(8, 4, 2, 2),
    ).to("meta")
    convolutions, norms = TRAFFIC["count_work"](network, (2, 1, 8, 8, 8))
    fine, coarse = 2 * 8**3, 2 * 4**3
    assert norms == [Work(0, 8 * fine * 4 * 2)]
    assert convolutions == [
        Work(2 * fine * 4 * 27 * 2, (fine + fine * 4) * 2 * 2),  # its input needs no gradient
        Work(2 * coarse * 8 * 4 * 27 * 3, (fine * 4 + coarse * 8) * 3 * 2),
        Work(2 * coarse * 8 * 4 * 8 * 3, (coarse * 8 + fine * 4) * 3 * 2),
    ]


def test_the_bound_is_what_takes_longer():
    assert Work(flop=600, moved=10).bound_s(flop_per_s=100, bytes_per_s=5) == 6
    assert Work(flop=100, moved=10).bound_s(flop_per_s=100, bytes_per_s=5) == 2
