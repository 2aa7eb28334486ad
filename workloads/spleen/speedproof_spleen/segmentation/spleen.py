"""Spleen segmentation in abdominal CT, as MONAI's tutorials train it (DESIGN.md, "the documented variants").

Sources: MONAI tutorials, `performance_profiling/radiology/train_base_nvtx.py` and `train_fast_nvtx.py` (the profiling pair)
and `acceleration/fast_training_tutorial.ipynb` (the tutorial pair).

Whoever imports a part of MONAI waits for all of it, seconds: here each method brings what it needs, and one whose variant has
`toolkit: torch` needs none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from speedproof_spleen import variant as config
from speedproof_spleen.config import Workload
from speedproof_spleen.data.nifti import read_header
from speedproof_spleen.segmentation.dice import DeviceDice
from speedproof_spleen.segmentation.loss import DiceAndCrossEntropy, SoftDice
from speedproof_spleen.segmentation.preprocessing import Preparation, plan_shape
from speedproof_spleen.segmentation.unet import ResidualUNet
from speedproof_spleen.segmentation.windows import predict_volumes

if TYPE_CHECKING:
    from monai.metrics import DiceMetric
    from monai.transforms import Compose

    from speedproof_spleen.segmentation.chains import SpleenChains

CLASSES = 2  # background and spleen


@dataclass(frozen=True)
class Spleen:
    """The spleen case under one variant, on one device."""

    workload: Workload
    variant: config.SpleenVariant
    device: torch.device

    def split_files(self, files: list[dict[str, str]]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """Return the files that train and those that validate: the last ones by name."""
        return files[: -self.workload.validation_cases], files[-self.workload.validation_cases :]

    def training_transform(self) -> "Compose":
        """Return the chain from a file to `patches_per_volume` patches."""
        return self._chains().training()

    def validation_transform(self) -> "Compose":
        """Return the chain from a file to a whole volume."""
        return self._chains().validation()

    def preparation_transform(self) -> Callable[[Mapping[str, Any]], Mapping[str, Tensor]]:
        """Return what makes a whole volume of a case that was read, all of it on the device."""
        if self.variant.toolkit == "torch":
            return Preparation(self.workload.spacing_mm, self.workload.intensity_range, self.device)
        return self._chains().preparation()

    def preparation_settings(self) -> dict[str, Any]:
        """Return what, besides the files, decides what that gives."""
        return self.workload.model_dump(mode="json", include={"spacing_mm", "intensity_range"}) | {
            "toolkit": self.variant.toolkit
        }

    def plan_shape(self, path: str) -> tuple[int, ...]:
        """Return the voxels along each axis of what the chains make of a volume, before it is cropped, by its header alone."""
        return plan_shape(read_header(Path(path)), self.workload.spacing_mm)

    def patch_size(self) -> tuple[int, int, int]:
        """Return the voxels of a training patch along each axis."""
        return self.workload.patch_size

    def network(self) -> nn.Module:
        """Return the UNet: strides of 2, two residual units, batch norm, PReLU."""
        channels, dropout = self.variant.network.channels, self.variant.network.dropout
        if self.variant.toolkit == "torch":
            return ResidualUNet(1, CLASSES, channels, dropout).to(self.device)
        from monai.networks.layers import Norm
        from monai.networks.nets import UNet

        return UNet(
            spatial_dims=3,
            in_channels=1,
            out_channels=CLASSES,
            channels=channels,
            strides=(2,) * (len(channels) - 1),
            num_res_units=2,
            norm=Norm.BATCH,
            dropout=dropout,
        ).to(self.device)

    def loss(self) -> nn.Module:
        """Return the loss of (logits, labels); either takes softmax and one-hot labels itself."""
        loss = self.variant.loss
        if self.variant.toolkit == "torch":
            return SoftDice() if isinstance(loss, config.DiceLoss) else DiceAndCrossEntropy(loss)
        from monai.losses import DiceCELoss, DiceLoss

        if isinstance(loss, config.DiceLoss):
            return DiceLoss(to_onehot_y=True, softmax=True)
        return DiceCELoss(
            include_background=loss.include_background,
            to_onehot_y=True,
            softmax=True,
            squared_pred=True,
            batch=True,
            smooth_nr=loss.smooth,
            smooth_dr=loss.smooth,
            lambda_dice=loss.weight,
            lambda_ce=loss.weight,
        )

    def predict(self, network: Callable[[Tensor], Tensor], images: Tensor | Sequence[Tensor]) -> Tensor | Sequence[Tensor]:
        """Return the logits of whole volumes, each of shape (classes, x, y, z), by a sliding window."""
        window, batch = self.workload, self.window_batch()
        if self.variant.toolkit == "torch":
            volumes = [image[0] for image in images]
            return list(predict_volumes(network, volumes, window.window_size, window.window_overlap, batch))
        from monai.inferers import sliding_window_inference

        assert isinstance(images, Tensor)
        logits = sliding_window_inference(images, window.window_size, batch, network, window.window_overlap)
        assert isinstance(logits, Tensor)  # a tuple or dict only where the network returns one
        return logits

    def window_size(self) -> tuple[int, int, int]:
        """Return the voxels of a validation window along each axis."""
        return self.workload.window_size

    def window_batch(self) -> int:
        """Return how many windows make one forward pass."""
        return self.variant.window_batch or self.workload.window_batch

    def discretize(
        self, logits: Tensor | Sequence[Tensor], labels: Tensor | Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return predictions and labels, a tensor each volume: one-hot for MONAI's metric, classes for the device's."""
        if self.variant.scoring == "device":
            return [one.argmax(dim=0) for one in logits], [one[0] for one in labels]
        from monai.data import decollate_batch
        from monai.transforms import AsDiscrete

        to_prediction = AsDiscrete(argmax=True, to_onehot=CLASSES)
        to_label = AsDiscrete(to_onehot=CLASSES)
        predictions = [to_prediction(one) for one in decollate_batch(logits)]
        references = [to_label(one) for one in decollate_batch(labels)]
        return cast(list[Tensor], predictions), cast(list[Tensor], references)  # an array only of an array

    def metric(self) -> "DiceMetric | DeviceDice":
        """Return the metric whose aggregate is the mean Dice of each class, shape (classes,), background first.

        One metric serves both documented definitions: the profiling pair's mean counts the background, the tutorial pair's
        does not.
        """
        if self.variant.scoring == "device":
            return DeviceDice(CLASSES)
        from monai.metrics import DiceMetric

        return DiceMetric(include_background=True, reduction="mean_batch")

    def patches_per_volume(self) -> int:
        """Return how many patches of a volume an epoch trains on."""
        return self.workload.patches_per_volume

    def _chains(self) -> "SpleenChains":
        from speedproof_spleen.segmentation.chains import SpleenChains

        return SpleenChains(self.workload, self.variant, self.device)
