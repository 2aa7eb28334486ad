"""The cases of Task01_BrainTumour, and which of them validate."""

import json
from pathlib import Path

import nibabel
import numpy as np
from nibabel.orientations import io_orientation

VALIDATION_SHARE = 0.2
HALVED = 8  # a crop's sizes are multiples of it, as the network halves them three times

Case = dict[str, str]  # image, label: paths


def list_cases(folder: Path) -> list[Case]:
    """Return the labelled cases of a dataset in the Decathlon layout, in the order of its `dataset.json`.

    Raises OSError, or ValueError of a description that is none.
    """
    described = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    return [{key: str(folder / case[key]) for key in ("image", "label")} for case in described["training"]]


def read_sides(case: Case) -> tuple[int, ...]:
    """Return how many voxels a case has once it lies as RAS has it, 1 mm apart, by its label's header alone."""
    header = nibabel.Nifti1Image.from_filename(case["label"])
    axes = io_orientation(header.affine)[:, 0].astype(int)
    sides = np.round((np.array(header.shape) - 1) * nibabel.affines.voxel_sizes(header.affine) + 1).astype(int)
    return tuple(int(sides[place]) for place in np.argsort(axes))


def split_cases(cases: list[Case]) -> tuple[list[Case], list[Case]]:
    """Return the cases that train and those that validate: a fifth, drawn by the documented programs' seed."""
    order = np.random.RandomState(0).permutation(len(cases))
    validating = int(len(cases) * VALIDATION_SHARE)
    return [cases[index] for index in order[validating:]], [cases[index] for index in order[:validating]]


def share_cases(cases: list[Case], rank: int, ranks: int, *, even: bool) -> list[Case]:
    """Return every `ranks`-th case from `rank` on; `even`: shuffled by one seed, the first ones again where they do not divide.

    The documented program shuffles and evens out what trains, and neither what validates.
    """
    if not even:
        return cases[rank::ranks]
    order = np.random.RandomState(0).permutation(len(cases))
    order = np.concatenate([order, order[: -len(cases) % ranks]])
    return [cases[index] for index in order[rank::ranks]]
