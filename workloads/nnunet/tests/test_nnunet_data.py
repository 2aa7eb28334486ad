"""What `prepare` leaves, and a training on it: by nnU-Net's own commands, on the CPU."""

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

import pytest

from speedproof.api import DataError
from speedproof_nnunet.folders import DATASET
from speedproof_nnunet.phantom import StandIn, make_phantom_task
from speedproof_nnunet.prepare import Data, digest_content, prepare_dataset, run_command
from tests.instrument import find_workload, program_command

MISSING = "nnU-Net is not installed: make nnunet"
TINY = Data(source="stand_in", stand_in=StandIn(size="tiny", cases=5), processes=1)
needs_nnunet = pytest.mark.skipif(find_spec("nnunetv2") is None, reason=MISSING)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Return the folder that `prepare` leaves, and what it describes."""
    root = tmp_path_factory.mktemp("nnunet")
    data = TINY.model_copy(update={"folder": str(root / "data")})
    dataset = prepare_dataset(data, root / "dataset.json")
    return (root / dataset.folder).resolve(), dataset, data


def test_the_phantom_has_the_decathlons_layout(tmp_path):
    make_phantom_task(tmp_path / "Task09_Spleen", TINY.stand_in, workers=1)
    described = json.loads((tmp_path / "Task09_Spleen/dataset.json").read_text())
    assert described["numTraining"] == len(described["training"]) == 5
    for case in described["training"]:
        assert all((tmp_path / "Task09_Spleen" / case[kind]).is_file() for kind in ("image", "label"))
    assert list((tmp_path / "Task09_Spleen/imagesTs").iterdir()) == []


def test_without_nnunet_the_error_names_the_extra(tmp_path, monkeypatch):
    def find_none(_):
        raise PackageNotFoundError

    monkeypatch.setattr("speedproof_nnunet.prepare.version", find_none)
    with pytest.raises(
        DataError, match=r"nnU-Net is not installed; run `make nnunet`, or: pip install './workloads/accelerate\[nnunet\]'"
    ):
        prepare_dataset(TINY.model_copy(update={"folder": str(tmp_path)}), tmp_path / "dataset.json")


def test_a_folder_without_labels_is_refused_before_nnunet_reads_it(tmp_path, monkeypatch):
    monkeypatch.setattr("speedproof_nnunet.prepare.version", lambda _: "2")
    source = tmp_path / "my task"
    for name in ("imagesTr/1.nii.gz", "imagesTr/2.nii.gz", "imagesTr/3.nii.gz", "dataset.json"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"")
    data = Data(source="local", local_folder=str(source), folder=str(tmp_path / "data"))
    with pytest.raises(DataError, match=r"my task: files are missing: labelsTr/\*\.nii\.gz$"):
        prepare_dataset(data, tmp_path / "dataset.json")


def test_what_a_command_prints_need_not_be_utf8(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nprintf 'caf\\351\\n'\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(DataError, match="nnUNetv2_train: exit status 3: caf\ufffd"):
        run_command(tmp_path, "nnUNetv2_train")


@needs_nnunet
def test_all_networks_have_plans_for_the_same_preprocessed_cases(prepared):
    folder, dataset, data = prepared
    own = folder / "nnUNet_preprocessed" / DATASET
    for name in ("nnUNetPlans", "nnUNetResEncUNetMPlans", "nnUNetResEncUNetLPlans"):
        configurations = json.loads((own / f"{name}.json").read_text())["configurations"]
        for configuration in ("2d", "3d_fullres"):
            identifier = configurations[configuration]["data_identifier"]
            assert identifier == f"nnUNetPlans_{configuration}"
            assert len(list((own / identifier).glob("*.pkl"))) == 5
    splits = json.loads((own / "splits_final.json").read_text())
    assert [(len(split["train"]), len(split["val"])) for split in splits] == [(4, 1)] * 5
    assert (dataset.synthetic, dataset.version) == (True, "5 tiny CTs, seed 0")
    made = folder.stat().st_ctime_ns
    assert prepare_dataset(data, folder.parent / "again.json").digest == dataset.digest == digest_content(folder)
    assert folder.stat().st_ctime_ns == made


@needs_nnunet
def test_a_command_that_fails_is_named_with_its_last_line(tmp_path):
    with pytest.raises(DataError, match=r"nnUNetv2_convert_MSD_dataset: exit status 1: .*labelsTr subfolder missing"):
        run_command(tmp_path, "nnUNetv2_convert_MSD_dataset", "-i", str(tmp_path / "Task09_Spleen"))


@needs_nnunet
def test_a_variant_trains_on_a_cpu_and_prints_its_epochs(prepared, tmp_path):
    """It leaves its results in the folder that it works in, and nothing in that of the data."""
    folder, _, _ = prepared
    before = digest_tree(folder)
    workload = find_workload("nnunet")
    command = [*program_command(workload, workload.declared.variants["two_d"], folder), "--augmentation-processes", "1"]
    command += ["--iterations", "1", "--validation-iterations", "1"]
    hidden = {"CUDA_VISIBLE_DEVICES": "", "SPEEDPROOF_EPOCHS": "1", "SPEEDPROOF_SEED": "3", "OMP_NUM_THREADS": "2"}
    variables = os.environ | workload.environment(os.environ) | hidden
    done = subprocess.run(
        [sys.executable, *command[1:]], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Epoch time: ") == done.stdout.count("Pseudo dice [") == 1
    assert "The final validation is skipped" in done.stdout
    assert list(Path(tmp_path, "nnUNet_results", DATASET).glob("nnUNetTrainer*__nnUNetPlans__2d/fold_0/training_log_*.txt"))
    assert list(tmp_path.rglob("*.pth")) == []
    assert digest_tree(folder) == before


def digest_tree(folder):
    return sorted((path.relative_to(folder).as_posix(), path.stat().st_mtime_ns) for path in folder.rglob("*"))
