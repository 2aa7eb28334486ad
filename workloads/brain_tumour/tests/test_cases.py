"""Which cases train and which validate, against MONAI's own way to split and to share them out."""

import json

import nibabel
import numpy as np
import pytest
import torch
from monai.apps import DecathlonDataset
from monai.data import partition_dataset

from speedproof_brain_tumour.cases import list_cases, read_sides, share_cases, split_cases
from speedproof_brain_tumour.chains import validation_chain
from speedproof_brain_tumour.variants import VARIANTS

CASES = [{"image": f"i{index}", "label": f"l{index}"} for index in range(484)]


class Split(DecathlonDataset):
    """MONAI's split alone: nothing is downloaded or read."""

    def __init__(self, section):
        self.section, self.val_frac = section, 0.2
        self.set_random_state(seed=0)


def test_the_cases_split_as_monai_splits_them():
    training, validating = split_cases(CASES)
    assert (len(training), len(validating)) == (388, 96)
    assert training == Split("training")._split_datalist(CASES)
    assert validating == Split("validation")._split_datalist(CASES)


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("even", [True, False])
def test_ranks_share_the_cases_as_monai_shares_them(ranks, even):
    cases = CASES[:388] if even else CASES[:96]
    expected = partition_dataset(data=cases, num_partitions=ranks, shuffle=even, seed=0, drop_last=False, even_divisible=even)
    assert [share_cases(cases, rank, ranks, even=even) for rank in range(ranks)] == expected


def test_cases_are_listed_in_the_order_of_their_description(tmp_path):
    (tmp_path / "dataset.json").write_text(
        json.dumps({"training": [{"image": "./b", "label": "./c"}, {"image": "a", "label": "d"}]})
    )
    assert list_cases(tmp_path) == [
        {"image": str(tmp_path / "b"), "label": str(tmp_path / "c")},
        {"image": str(tmp_path / "a"), "label": str(tmp_path / "d")},
    ]


def test_sides_are_those_that_the_chain_leaves(tmp_path):
    affine = np.array([[0, 0, 1.5, 3], [-2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    case = {key: str(tmp_path / f"{key}.nii.gz") for key in ("image", "label")}
    for key, channels in (("image", (4,)), ("label", ())):
        nibabel.save(nibabel.Nifti1Image(np.ones((20, 24, 16, *channels), np.uint8), affine), case[key])
    left = validation_chain(VARIANTS["cached"], torch.device("cpu"))(case)
    assert read_sides(case) == tuple(left["label"].shape[1:]) == (24, 39, 24)
