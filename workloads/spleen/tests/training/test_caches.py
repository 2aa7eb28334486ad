"""Ways to keep the deterministic transforms' results: each gives the same volumes as none, and keeps what it says it keeps."""

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from monai.data import LMDBDataset, PersistentDataset, SmartCacheDataset
from monai.utils import set_determinism

from speedproof_spleen.config import check_config
from speedproof_spleen.segmentation.spleen import Spleen
from speedproof_spleen.training.datasets import (
    build_training_dataset,
    build_training_loader,
    build_validation_dataset,
    build_validation_loader,
    count_cached_bytes,
)
from tests.support import require

CPU = torch.device("cpu")


def case_with(ci_config, **techniques):
    values = ci_config.model_dump(mode="json")
    values["variants"]["baseline"] |= {"cache": "none", "batch_size": 1, "step_log": False} | techniques
    config = check_config(values)
    return Spleen(config.workload, config.variants["baseline"], CPU)


def files_of(volumes):
    return volumes[:3], volumes[3:]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("cache", "kind"), [("persistent", PersistentDataset), ("lmdb", LMDBDataset)])
@pytest.mark.parametrize("index_transform", [False, True])
def test_a_cache_on_disk_gives_the_same_batches_in_every_epoch(ci_config, volumes, tmp_path, cache, kind, index_transform):
    require("lmdb", cache != "lmdb" or find_spec("lmdb") is not None, "lmdb is not installed")
    plain = case_with(ci_config, index_transform=index_transform)
    cached = case_with(ci_config, cache=cache, index_transform=index_transform)
    training_files, _ = files_of(volumes)
    batches = []
    for case in (plain, cached):
        set_determinism(0)
        dataset = build_training_dataset(case.variant, training_files, case.training_transform())
        loader = build_training_loader(case.variant, dataset)
        batches.append([torch.as_tensor(batch["image"]).clone() for _ in range(2) for batch in loader])
    assert type(dataset) is kind
    assert len(batches[0]) == len(batches[1]) == 6
    assert all(torch.allclose(one, other) for one, other in zip(*batches, strict=True))
    assert any(path.is_file() for folder in tmp_path.glob("speedproof-cache-*") for path in folder.iterdir())


def test_what_caches_in_memory_hold_is_counted(ci_config, volumes):
    case = case_with(ci_config, cache="ram")
    training_files, validation_files = files_of(volumes)
    training = build_training_dataset(case.variant, training_files, case.training_transform())
    validation = build_validation_dataset(case.variant, validation_files, case.validation_transform())
    # Of a case: image and label in single precision, of as many voxels as validation gives, and six numbers of its crop.
    voxels = [validation[number]["image"].numel() for number in range(len(validation_files))]
    assert count_cached_bytes(validation) == sum(2 * 4 * count + 6 * 8 for count in voxels)
    assert count_cached_bytes(training, validation) == count_cached_bytes(training) + count_cached_bytes(validation)
    on_disk = case_with(ci_config, cache="persistent")
    assert count_cached_bytes(build_validation_dataset(on_disk.variant, volumes, on_disk.validation_transform())) is None


def test_every_run_fills_a_cache_of_its_own(ci_config, volumes, tmp_path):
    case = case_with(ci_config, cache="persistent")
    for _ in range(2):
        build_validation_dataset(case.variant, volumes, case.validation_transform())[0]
    folders = list(tmp_path.glob("speedproof-cache-*"))
    assert [len(list(folder.iterdir())) for folder in folders] == [1, 1]


def test_a_smart_cache_trains_on_its_share_and_exchanges_part_of_it(ci_config, volumes):
    case = case_with(ci_config, cache="smart", cache_rate=0.5, replace_rate=0.5)
    dataset = build_training_dataset(case.variant, volumes[:4], case.training_transform())
    loader = build_training_loader(case.variant, dataset)
    assert isinstance(dataset, SmartCacheDataset)
    seen = [{Path(name).name for batch in loader for name in batch["image"].meta["filename_or_obj"]} for _ in range(4)]
    dataset.shutdown()
    assert [len(names) for names in seen] == [2, 2, 2, 2]
    assert all(len(before & after) == 1 for before, after in pairwise(seen))  # one of the two is exchanged
    assert len(set.union(*seen)) == 4


def test_a_smart_cache_validates_on_everything(ci_config, volumes):
    case = case_with(ci_config, cache="smart", cache_rate=0.5)
    dataset = build_validation_dataset(case.variant, volumes, case.validation_transform())
    assert len(build_validation_loader(case.variant, dataset)) == len(volumes)


def test_workers_last_and_prefetch_and_batches_are_pinned_where_they_are_copied(ci_config, volumes, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    lasting = {"workers": 2, "validation_workers": 0, "persistent_workers": True, "prefetch_factor": 4, "pin_memory": True}
    loaders = {}
    for cache, techniques in {"none": lasting, "gpu": {"pin_memory": True, "workers": 0, "validation_workers": 0}}.items():
        case = case_with(ci_config, cache=cache, **techniques)
        training, validation = files_of(volumes)
        loaders[cache] = (
            build_training_loader(case.variant, build_training_dataset(case.variant, training, None)),
            build_validation_loader(case.variant, build_validation_dataset(case.variant, validation, None)),
        )
    training, validation = loaders["none"]
    assert (training.persistent_workers, training.prefetch_factor, training.pin_memory) == (True, 4, True)
    assert (validation.persistent_workers, validation.num_workers, validation.pin_memory) == (False, 0, True)
    assert [loader.pin_memory for loader in loaders["gpu"]] == [False, False]
