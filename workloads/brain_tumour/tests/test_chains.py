"""Labels become three overlapping regions, and a chain leaves what the network takes."""

import numpy as np
import torch

from speedproof_brain_tumour import phantom
from speedproof_brain_tumour.chains import ToRegionsd, training_chain, validation_chain
from speedproof_brain_tumour.variants import FAST, PLAIN

CPU = torch.device("cpu")


def test_labels_become_core_whole_and_enhancing():
    label = torch.tensor([0, 1, 2, 3]).reshape(4, 1, 1)
    regions = ToRegionsd("label")({"label": label})["label"]
    assert regions.flatten(1).tolist() == [[0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 1, 0]]


def test_both_chains_leave_normalised_channels_and_binary_regions(tmp_path):
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / name).mkdir()
    phantom.write_case(tmp_path, "tiny", 0, 0)
    case = {key: str(tmp_path / f"{key}sTr/BRATS_001.nii.gz") for key in ("image", "label")}
    crop = training_chain(PLAIN, (16, 16, 8), CPU)(case)
    assert crop["image"].shape == (4, 16, 16, 8) and crop["label"].shape == (3, 16, 16, 8)
    whole = validation_chain(FAST, CPU)(case)
    assert whole["image"].shape == (4, 24, 24, 16) and whole["label"].shape == (3, 24, 24, 16)
    assert set(np.unique(whole["label"])) == {0, 1}
    for channel in whole["image"]:
        voxels = np.asarray(channel)[np.asarray(channel) != 0]
        assert abs(voxels.mean()) < 1e-3 and abs(voxels.std() - 1) < 1e-2
