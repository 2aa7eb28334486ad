"""One epoch of `baseline` equals a plain loop, written here from DESIGN.md's table alone, to the last bit on a CPU."""

import torch
from monai.data import CacheDataset, DataLoader, decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceLoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import (
    AsDiscrete,
    Compose,
    CropForegroundd,
    EnsureChannelFirstd,
    LoadImaged,
    Orientationd,
    RandCropByPosNegLabeld,
    ScaleIntensityRanged,
    Spacingd,
)
from monai.utils import set_determinism

from speedproof.api import Dataset, read_epochs
from speedproof_spleen.training.run import Request, run_training

SPACING, PATCH, WINDOW = (8.0, 8.0, 8.0), (16, 16, 16), (32, 32, 32)  # those of the ci configuration
PATCHES_PER_VOLUME = 2


def train_plainly(files):
    """Return the loss, both Dice values and the network after one epoch with its validation."""
    set_determinism(0)
    keys = ["image", "label"]
    fixed = [
        LoadImaged(keys),
        EnsureChannelFirstd(keys),
        Orientationd(keys, axcodes="RAS", labels=(("L", "R"), ("P", "A"), ("I", "S"))),
        Spacingd(keys, pixdim=SPACING, mode=("bilinear", "nearest")),
        ScaleIntensityRanged("image", a_min=-57, a_max=164, b_min=0.0, b_max=1.0, clip=True),
        CropForegroundd(keys, source_key="image", allow_smaller=True),
    ]
    crop = RandCropByPosNegLabeld(
        keys, label_key="label", spatial_size=PATCH, pos=1, neg=1, num_samples=PATCHES_PER_VOLUME, image_key="image"
    )
    training = DataLoader(CacheDataset(files[:-2], Compose([*fixed, crop]), progress=False), batch_size=4, shuffle=True)
    validation = DataLoader(CacheDataset(files[-2:], Compose(fixed), progress=False), batch_size=1)
    network = UNet(3, 1, 2, channels=(16, 32, 64, 128, 256), strides=(2, 2, 2, 2), num_res_units=2, norm="batch")
    loss_function = DiceLoss(to_onehot_y=True, softmax=True)
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)
    losses = []
    network.train()
    for batch in training:
        optimizer.zero_grad()
        loss = loss_function(network(batch["image"]), batch["label"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    network.eval()
    foreground, with_background = DiceMetric(include_background=False), DiceMetric(include_background=True)
    with torch.no_grad():
        for batch in validation:
            logits = sliding_window_inference(batch["image"], WINDOW, 4, network, overlap=0.25)
            predictions = [AsDiscrete(argmax=True, to_onehot=2)(one) for one in decollate_batch(logits)]
            labels = [AsDiscrete(to_onehot=2)(one) for one in decollate_batch(batch["label"])]
            foreground(predictions, labels)
            with_background(predictions, labels)
    return sum(losses) / len(losses), foreground.aggregate().item(), with_background.aggregate().item(), network


def test_an_epoch_of_baseline_is_the_plain_loop(volumes, ci_config, tmp_path):
    loss, foreground, with_background, network = train_plainly(volumes)
    config = ci_config.model_copy(
        update={"measurement": ci_config.measurement.model_copy(update={"epochs": 1, "validate_every": 1, "device": "cpu"})}
    )
    dataset = Dataset(source="local", name="balls", version="1", licence="none", synthetic=True, folder=".", cases=[])
    request = Request("baseline", "timed", round=0, seed=0, profiler="none")
    run_training(config, dataset, volumes, request, tmp_path / "run")
    epoch = read_epochs(tmp_path / "run").iloc[0]
    told = [epoch.loss, epoch.quality, epoch.quality_with_background]
    assert [round(value, 6) for value in told] == [round(value, 6) for value in (loss, foreground, with_background)]
    trained = torch.load(tmp_path / "run" / "best.pt", weights_only=True)
    for name, value in network.state_dict().items():
        assert torch.equal(trained[name], value), name
