"""A dataset of two real CTs, thinned, fingerprinted, planned and preprocessed by nnU-Net, with tiny patches and networks."""

import json
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import SimpleNamespace

import nibabel
import pytest

NAME = "Dataset001_Spleen"
VARIABLES = ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results")


def write_raw(samples: Path, folder: Path) -> None:
    """Lay out every fourth column and row of the CTs as nnU-Net reads them."""
    for kind in ("imagesTr", "labelsTr"):
        (folder / kind).mkdir(parents=True)
        for path in (samples / "ct" / kind).glob("*.nii.gz"):
            case = path.name.removesuffix(".nii.gz")
            copy = folder / kind / f"{case}{'_0000' if kind == 'imagesTr' else ''}.nii.gz"
            nibabel.save(nibabel.load(path).slicer[::4, ::4], copy)
    described = {
        "channel_names": {"0": "CT"},
        "labels": {"background": 0, "spleen": 1},
        "numTraining": 2,
        "file_ending": ".nii.gz",
    }
    (folder / "dataset.json").write_text(json.dumps(described))


def shrink(plans: Path) -> None:
    """Plan tiny patches and networks."""
    planned = json.loads(plans.read_text())
    planned["configurations"] = {name: planned["configurations"][name] for name in ("2d", "3d_fullres")}
    for name, patch, batch in (("2d", [24, 32], 4), ("3d_fullres", [16, 24, 32], 2)):
        one, axes = planned["configurations"][name], len(patch)
        one |= {"patch_size": patch, "batch_size": batch}
        one["architecture"]["arch_kwargs"] |= {
            "n_stages": 3,
            "features_per_stage": [4, 8, 8],
            "kernel_sizes": [[3] * axes] * 3,
            "strides": [[1] * axes, [2] * axes, [2] * axes],
            "n_conv_per_stage": [1, 1, 1],
            "n_conv_per_stage_decoder": [1, 1],
        }
    plans.write_text(json.dumps(planned))


@pytest.fixture(scope="session")
def prepared(samples, tmp_path_factory):
    """Return the folder of nnU-Net's three folders."""
    from nnunetv2.experiment_planning import plan_and_preprocess_api as api

    root = tmp_path_factory.mktemp("nnunet")
    write_raw(Path(samples), root / "nnUNet_raw" / NAME)
    with pytest.MonkeyPatch.context() as patch:
        for variable in VARIABLES:
            patch.setenv(variable, str(root / variable))
        # nnU-Net starts processes, each of which would import torch and nnU-Net again.
        patch.setattr("multiprocessing.get_context", lambda kind: SimpleNamespace(Pool=ThreadPool))
        api.extract_fingerprint_dataset(1, num_processes=1, show_progress_bar=False)
        api.plan_experiment_dataset(1, overwrite_target_spacing=(6, 6, 6))
        shrink(root / "nnUNet_preprocessed" / NAME / "nnUNetPlans.json")
        api.preprocess_dataset(1, configurations=("2d", "3d_fullres"), num_processes=(1, 1), show_progress_bar=False)
    return root


@pytest.fixture
def nnunet_folders(prepared, tmp_path, monkeypatch):
    """Let nnU-Net read the prepared dataset, and write its results to a folder of this test, in this process."""
    for variable in VARIABLES:
        monkeypatch.setenv(variable, str(prepared / variable))
    monkeypatch.setenv("nnUNet_results", str(tmp_path))
    monkeypatch.setenv("nnUNet_n_proc_DA", "0")
    return tmp_path


@pytest.fixture
def make_trainer(prepared, nnunet_folders):
    """Return a function that makes a trainer as `nnUNetv2_train` does."""

    def make(kind, configuration="3d_fullres", device="cpu"):
        import torch

        folder = prepared / "nnUNet_preprocessed" / NAME
        plans = json.loads((folder / "nnUNetPlans.json").read_text()) | {"continue_training": False}
        described = json.loads((folder / "dataset.json").read_text())
        return kind(plans, configuration, "all", described, torch.device(device))

    return make
