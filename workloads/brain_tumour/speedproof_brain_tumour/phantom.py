"""Synthetic four-channel volumes in the Decathlon layout, with nested lesions: size, seed and index decide each voxel."""

import json
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import ndimage

from speedproof.api import Natural
from speedproof_common.data import StandIn
from speedproof_common.pool import do_each

CHANNELS = ("FLAIR", "T1w", "t1gd", "T2w")
SIZES = {  # volumes, voxels of each
    "tiny": (10, (24, 24, 16)),
    "small": (20, (64, 64, 48)),
    "few": (10, (240, 240, 155)),
    "medium": (40, (240, 240, 155)),
    "full": (484, (240, 240, 155)),  # as many as are labelled
}
# Intensity of the healthy brain, and what each label adds to it, a channel each: made up, so that no channel alone tells them.
BRAIN = (420.0, 520.0, 480.0, 400.0)
ADDED = {1: (260.0, -60.0, -40.0, 280.0), 2: (180.0, -40.0, 360.0, 160.0), 3: (90.0, -140.0, -120.0, 220.0)}
NOISE = 40.0


class Phantom(StandIn):
    """Which volumes are made; the same size and seed give the same bytes."""

    size: Literal["tiny", "small", "few", "medium", "full"] = Field("full", description="How many, of how many voxels")
    seed: Natural = Field(0, description="Another one gives other volumes")

    def estimate_bytes(self) -> int:
        """Return about how much room they take, compressed: 3 bytes a voxel are more than enough."""
        volumes, shape = SIZES[self.size]
        return volumes * int(np.prod(shape)) * 3


def make_phantom(folder: Path, size: str, seed: int, workers: int) -> None:
    """Write imagesTr/ (int16, 4 channels last), labelsTr/ (uint8: 1 oedema, 2 enhancing, 3 not enhancing) and dataset.json."""
    volumes, _ = SIZES[size]
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    do_each(partial(write_case, folder, size, seed), range(volumes), min(workers, volumes))
    cases = [{key: f"./{key}sTr/{_name(index)}" for key in ("image", "label")} for index in range(volumes)]
    described = {  # all that the Decathlon's readers ask for
        "name": f"phantom-{size}",
        "description": "Synthetic heads with a lesion of three nested shells",
        "reference": "",
        "licence": "Apache-2.0",
        "tensorImageSize": "4D",
        "modality": dict(enumerate(CHANNELS)),
        "labels": {"0": "background", "1": "edema", "2": "enhancing tumor", "3": "non-enhancing tumor"},
        "numTraining": volumes,
        "numTest": 0,
        "training": cases,
        "test": [],
    }
    (folder / "dataset.json").write_text(json.dumps(described, indent=1), encoding="utf-8")


def write_case(folder: Path, size: str, seed: int, index: int) -> None:
    """Write one case."""
    import nibabel

    image, label = draw_case(SIZES[size][1], seed, index)
    for name, voxels in (("imagesTr", image), ("labelsTr", label)):
        nibabel.save(nibabel.Nifti1Image(voxels, np.diag([1.0, 1.0, 1.0, 1.0])), folder / name / _name(index))


def draw_case(shape: tuple[int, int, int], seed: int, index: int) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    """Return an image of (…, 4) and its label: an ellipsoid's head, in it a lesion of three nested, ragged shells."""
    random = np.random.default_rng([seed, index])
    axes = np.meshgrid(*(np.linspace(-1, 1, size, dtype=np.float32) for size in shape), indexing="ij", sparse=True)
    head = sum((axis / radius) ** 2 for axis, radius in zip(axes, (0.75, 0.9, 0.85), strict=True)) < 1
    centre, radius = random.uniform(-0.35, 0.35, 3), random.uniform(0.25, 0.4)
    distance = np.sqrt(sum((axis - where) ** 2 for axis, where in zip(axes, centre, strict=True)))
    ragged = distance + _smooth_noise(random, shape) * 0.35 * radius
    label = np.zeros(shape, np.uint8)
    for value, share in ((1, 1.0), (2, 0.65), (3, 0.4)):  # oedema around the enhancing rim around the core
        label[head & (ragged < share * radius)] = value
    tissue = _smooth_noise(random, shape)
    image = np.zeros((*shape, len(CHANNELS)), np.int16)
    for channel, brain in enumerate(BRAIN):
        added = np.array([0.0, *(ADDED[value][channel] for value in (1, 2, 3))], np.float32)[label]
        noise = random.standard_normal(shape, np.float32) * NOISE
        image[..., channel] = np.where(head, np.clip(brain * (1 + 0.1 * tissue) + added + noise, 1, 2000), 0)
    return image, label


def _smooth_noise(random: np.random.Generator, shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Return noise of about unit range that changes over an eighth of the volume."""
    coarse = random.standard_normal((8, 8, 8)).astype(np.float32)
    places = np.meshgrid(*(np.linspace(0, 7, size, dtype=np.float32) for size in shape), indexing="ij")
    return ndimage.map_coordinates(coarse, places, order=1, output=np.float32)


def _name(index: int) -> str:
    return f"BRATS_{index + 1:03d}.nii.gz"
