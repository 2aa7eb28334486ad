"""`check_checkpoint.py VOLUMES WEIGHTS…`: validates weights with MONAI alone, and compares with the Dice that their run found.

VOLUMES holds imagesTr and labelsTr. WEIGHTS are files that the runs kept (KEPT_WEIGHTS), or folders of these. Beside each is
a .json with the Dice that its own program found. Nothing of speedproof is imported. The exit status is 1 if a Dice is more than
0.001 off.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from monai.data import DataLoader, Dataset, decollate_batch
from monai.inferers import sliding_window_inference
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import (
    AsDiscrete,
    Compose,
    CropForegroundd,
    EnsureChannelFirstd,
    LoadImaged,
    Orientationd,
    ScaleIntensityRanged,
    Spacingd,
)

KEYS = ["image", "label"]
MOST_OFF = 0.001


def load_validation(volumes: Path, cases: int, spacing_mm: Sequence[float]) -> list[dict[str, torch.Tensor]]:
    """Return the last cases by name as the published programs prepare them, each volume of shape (1, 1, x, y, z)."""
    images, labels = (sorted((volumes / kind).glob("*.nii.gz"))[-cases:] for kind in ("imagesTr", "labelsTr"))
    if not images:
        sys.exit(f"{volumes}: no imagesTr/*.nii.gz; name the folder that holds imagesTr and labelsTr")
    chain = Compose(
        [
            LoadImaged(keys=KEYS),
            EnsureChannelFirstd(keys=KEYS),
            Orientationd(keys=KEYS, axcodes="RAS"),
            Spacingd(keys=KEYS, pixdim=spacing_mm, mode=("bilinear", "nearest")),
            ScaleIntensityRanged(keys=["image"], a_min=-57, a_max=164, b_min=0.0, b_max=1.0, clip=True),
            CropForegroundd(keys=KEYS, source_key="image", allow_smaller=True),
        ]
    )
    files = [{"image": str(image), "label": str(label)} for image, label in zip(images, labels, strict=True)]
    return list(DataLoader(Dataset(files, chain), batch_size=1))


def build_network(weights: dict[str, torch.Tensor]) -> UNet:
    """Return MONAI's UNet of as many channels as the weights have, with these."""
    channels, level = [], "model"
    while f"{level}.0.conv.unit0.conv.weight" in weights:
        channels.append(weights[f"{level}.0.conv.unit0.conv.weight"].shape[0])
        level += ".1.submodule"
    channels.append(weights[f"{level}.conv.unit0.conv.weight"].shape[0])
    network = UNet(
        spatial_dims=3,
        in_channels=1,
        out_channels=2,
        channels=channels,
        strides=(2,) * (len(channels) - 1),
        num_res_units=2,
        norm="batch",
    )
    network.load_state_dict(weights)
    return network.eval()


@torch.no_grad()
def measure_dice(network: UNet, cases: list[dict[str, torch.Tensor]], window: Sequence[int], device: torch.device) -> float:
    """Return the mean Dice of the foreground, by windows of the published size, in mixed precision on a GPU."""
    predict, label = Compose([AsDiscrete(argmax=True, to_onehot=2)]), Compose([AsDiscrete(to_onehot=2)])
    metric = DiceMetric(include_background=False, reduction="mean")
    for case in cases:
        with torch.autocast(device.type, enabled=device.type == "cuda"):
            logits = sliding_window_inference(case["image"].to(device), window, 4, network)
        truths = decollate_batch(case["label"].to(device))
        metric(y_pred=[predict(one) for one in decollate_batch(logits)], y=[label(one) for one in truths])
    return float(metric.aggregate())


def list_weights(places: Sequence[Path]) -> list[Path]:
    """Return the files that were named, and those of the folders."""
    return [
        file
        for place in places
        for file in ([place] if place.is_file() else sorted(one for one in place.iterdir() if one.suffix in (".pt", ".pth")))
    ]


def main() -> int:
    """Print a line for each file, and return whether one is off."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("volumes", type=Path)
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--cases", type=int, default=9, help="validation cases, the last by name (default: 9)")
    parser.add_argument("--spacing-mm", type=float, nargs=3, default=(1.5, 1.5, 2.0))
    parser.add_argument("--window", type=int, nargs=3, default=(160, 160, 160))
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cases = load_validation(asked.volumes, asked.cases, asked.spacing_mm)
    off = 0
    for file in list_weights(asked.weights):
        weights = torch.load(file, weights_only=True, map_location="cpu")
        dice = measure_dice(build_network(weights).to(device), cases, asked.window, device)
        stated = json.loads(file.with_suffix(".json").read_text("utf-8"))["dice"]
        wrong = stated is None or abs(dice - stated) > MOST_OFF
        off += wrong
        print(f"{file.name}: Dice {dice:.4f} by MONAI alone, {stated} by its run{': OFF' if wrong else ''}", flush=True)
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main())
