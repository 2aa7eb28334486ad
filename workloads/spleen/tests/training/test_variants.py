"""Each documented variant, read off the objects that are built: a drift from DESIGN.md's table fails here."""

from types import SimpleNamespace

import pytest
import torch
from monai.data import CacheDataset, DataLoader, Dataset, ThreadDataLoader
from monai.losses import DiceCELoss, DiceLoss
from monai.networks.nets import UNet
from monai.optimizers import Novograd
from monai.transforms import (
    CropForegroundd,
    EnsureTyped,
    FgBgToIndicesd,
    LoadImaged,
    Orientationd,
    RandCropByPosNegLabeld,
    ScaleIntensityRanged,
    Spacingd,
)

from speedproof_spleen.segmentation.spleen import Spleen
from speedproof_spleen.training.datasets import (
    build_training_dataset,
    build_training_loader,
    build_validation_dataset,
    build_validation_loader,
)
from speedproof_spleen.training.techniques import build_optimizer, build_precision

CPU = torch.device("cpu")

# DESIGN.md, "the documented variants", row by row.
TABLE = {
    "regular": {
        "dataset": (Dataset, None, None),
        "copies_cache": None,
        "loader": (DataLoader, 8, 2),
        "validation_workers": 4,
        "channels": (16, 32, 64, 128, 256),
        "dropout": 0.0,
        "loss": DiceLoss,
        "optimizer": (torch.optim.Adam, {"lr": 2e-4, "betas": (0.9, 0.999), "weight_decay": 0}),
        "autocasts": False,
        "epochs": (300, 5),
        "indices": True,
        "step_log": "printed",
        "range_style": "push_pop",
        "cache": "none",
        "track_meta": True,
    },
    "baseline": {
        "dataset": (CacheDataset, 8, 8),
        "copies_cache": True,
        "loader": (DataLoader, 0, 4),
        "validation_workers": 0,
        "channels": (16, 32, 64, 128, 256),
        "dropout": 0.0,
        "loss": DiceLoss,
        "optimizer": (torch.optim.Adam, {"lr": 1e-4, "betas": (0.9, 0.999), "weight_decay": 0}),
        "autocasts": False,
        "epochs": (6, 2),
        "indices": False,
        "step_log": True,
        "range_style": "push_pop",
        "cache": "ram",
        "track_meta": True,
    },
    "fast": {
        "dataset": (CacheDataset, 8, 8),
        "copies_cache": True,
        "loader": (ThreadDataLoader, 0, 8),
        "validation_workers": 0,
        "channels": (16, 32, 64, 128, 256),
        "dropout": 0.0,
        "loss": DiceCELoss,
        "loss_settings": {"include_background": True, "lambda_dice": 1.0, "lambda_ce": 1.0},
        "optimizer": (Novograd, {"lr": 1e-3}),
        "autocasts": True,
        "epochs": (6, 2),
        "indices": True,
        "step_log": True,
        "range_style": "start_end",
        "cache": "gpu",
        "track_meta": True,
    },
    "fast_tutorial": {
        "dataset": (CacheDataset, 8, 5),
        "copies_cache": False,
        "loader": (ThreadDataLoader, 0, 4),
        "validation_workers": 0,
        "channels": (32, 64, 128, 256, 512),
        "dropout": 0.2,
        "loss": DiceCELoss,
        "loss_settings": {"include_background": False, "lambda_dice": 0.5, "lambda_ce": 0.5},
        "optimizer": (torch.optim.SGD, {"lr": 0.2, "momentum": 0.9, "weight_decay": 4e-5}),
        "autocasts": True,
        "epochs": (300, 5),
        "indices": True,
        "step_log": "printed",
        "range_style": "push_pop",
        "cache": "gpu",
        "track_meta": False,
    },
}

pytestmark = pytest.mark.parametrize("name", TABLE)


@pytest.fixture
def built(name, full_config):
    variant = full_config.variants[name]
    return SimpleNamespace(
        case=Spleen(full_config.workload, variant, CPU),
        variant=variant,
        row=TABLE[name],
    )


def test_datasets_and_loaders(built, monkeypatch):
    kind, training_workers, validation_workers = built.row["dataset"]
    monkeypatch.setattr(CacheDataset, "_fill_cache", lambda self, indices: [])
    files = [{"image": str(number), "label": str(number)} for number in range(16)]
    training_files, validation_files = built.case.split_files(files)
    assert [file["image"] for file in validation_files] == [str(number) for number in range(7, 16)]
    training = build_training_dataset(built.variant, training_files, built.case.training_transform())
    validation = build_validation_dataset(built.variant, validation_files, built.case.validation_transform())
    assert type(training) is type(validation) is kind
    if kind is CacheDataset:
        assert (training.num_workers, validation.num_workers) == (training_workers, validation_workers)
        assert training.copy_cache == validation.copy_cache == built.row["copies_cache"]
        assert training.cache_num == 7
    loader_kind, workers, batch_size = built.row["loader"]
    loader = build_training_loader(built.variant, training)
    assert (type(loader), loader.num_workers, loader.batch_size) == (loader_kind, workers, batch_size)
    assert isinstance(loader.sampler, torch.utils.data.RandomSampler)
    loader = build_validation_loader(built.variant, validation)
    assert (type(loader), loader.num_workers, loader.batch_size) == (loader_kind, built.row["validation_workers"], 1)
    assert isinstance(loader.sampler, torch.utils.data.SequentialSampler)


def test_transforms(built):
    steps = built.case.training_transform().transforms
    find = {kind: step for step in steps for kind in type(step).__mro__}
    order = [LoadImaged, Orientationd, Spacingd, ScaleIntensityRanged, CropForegroundd, RandCropByPosNegLabeld]
    positions = [steps.index(find[kind]) for kind in order]
    assert positions == sorted(positions)
    assert find[Orientationd].ornt_transform.axcodes == "RAS"
    assert tuple(find[Spacingd].spacing_transform.pixdim) == (1.5, 1.5, 2.0)
    assert [str(mode) for mode in find[Spacingd].mode] == ["bilinear", "nearest"]
    scaler = find[ScaleIntensityRanged].scaler
    assert (scaler.a_min, scaler.a_max, scaler.b_min, scaler.b_max, scaler.clip) == (-57, 164, 0.0, 1.0, True)
    assert find[CropForegroundd].cropper.allow_smaller is True
    crop = find[RandCropByPosNegLabeld].cropper
    assert (crop.spatial_size, crop.num_samples, crop.pos_ratio) == ((96, 96, 96), 4, 0.5)
    assert (FgBgToIndicesd in find) == built.row["indices"]
    assert (find[RandCropByPosNegLabeld].fg_indices_key == "label_fg") == built.row["indices"]
    on_gpu = built.row["cache"] == "gpu"
    assert (steps.index(find[EnsureTyped]) < steps.index(find[RandCropByPosNegLabeld])) == on_gpu
    assert find[EnsureTyped].converter.track_meta == built.row["track_meta"]
    assert RandCropByPosNegLabeld not in {
        kind for step in built.case.validation_transform().transforms for kind in type(step).__mro__
    }


def test_network(built):
    network = built.case.network()
    assert type(network) is UNet
    assert (network.channels, network.strides) == (built.row["channels"], (2, 2, 2, 2))
    assert (network.num_res_units, network.dropout, network.in_channels, network.out_channels) == (
        2,
        built.row["dropout"],
        1,
        2,
    )
    kinds = {type(module) for module in network.modules()}
    assert torch.nn.BatchNorm3d in kinds
    assert torch.nn.PReLU in kinds


def test_loss(built):
    loss = built.case.loss()
    assert type(loss) is built.row["loss"]
    dice = loss.dice if isinstance(loss, DiceCELoss) else loss
    assert dice.softmax is True
    assert (loss.dice.to_onehot_y if isinstance(loss, DiceCELoss) else loss.to_onehot_y) is True
    if isinstance(loss, DiceCELoss):
        expected = built.row["loss_settings"]
        assert (loss.lambda_dice, loss.lambda_ce) == (expected["lambda_dice"], expected["lambda_ce"])
        assert (dice.include_background, dice.squared_pred, dice.batch) == (expected["include_background"], True, True)
        assert (dice.smooth_nr, dice.smooth_dr) == (1e-5, 1e-5)


def test_optimizer(built):
    kind, settings = built.row["optimizer"]
    network = built.case.network()
    optimizer = build_optimizer(built.variant, network)
    assert type(optimizer) is kind
    assert len(optimizer.param_groups) == 1
    assert settings.items() <= optimizer.param_groups[0].items()
    assert optimizer.param_groups[0]["params"] == list(network.parameters())


def test_precision(built):
    precision = build_precision(built.variant, CPU)
    assert (precision.scaler is not None) == built.row["autocasts"]
    with precision.autocast():
        assert not torch.is_autocast_enabled("cpu")  # where a bfloat16 gradient is another one each time
    on_gpu = build_precision(built.variant, torch.device("cuda"))
    assert (on_gpu.half == torch.float16) == (on_gpu.scaler is not None) == built.row["autocasts"]


def test_loop(built):
    variant = built.variant
    assert (variant.epochs, variant.validate_every) == built.row["epochs"]
    assert (variant.step_log, variant.range_style) == (built.row["step_log"], built.row["range_style"])
    assert (variant.cache, variant.track_meta) == (built.row["cache"], built.row["track_meta"])
    workload = built.case.workload
    assert (workload.window_size, workload.window_overlap, workload.window_batch) == ((160, 160, 160), 0.25, 4)
