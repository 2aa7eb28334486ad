"""Train one variant: `python -m speedproof_pathology.train --variant optimised --data FOLDER`.

A program like any other. Its marks report epochs, samples and quality when speedproof measures it, and NVTX ranges show its
steps to a profiler.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import nvtx
import torch
from monai.data import DataLoader, PatchWSIDataset
from monai.networks.nets import NetAdapter, resnet18
from monai.optimizers import Novograd
from monai.utils import set_determinism
from torch import Tensor, nn

from speedproof import marks
from speedproof_pathology.chains import check_device, device_chain, worker_chain
from speedproof_pathology.regions import RegionsError, list_regions
from speedproof_pathology.slides import READERS, make_reader
from speedproof_pathology.tiff import SlideError
from speedproof_pathology.variants import VARIANTS, Variant

LEARNING_RATE, MOMENTUM = 1e-3, 0.9
SAID = 8  # losses of an epoch
NARROWED = 32  # how many times smaller the network's last features are than a patch


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description="Train one variant of the pathology workload.")
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="a folder with training.csv, validation.csv and their slides")
    parser.add_argument("--epochs", type=int, default=4, help="which the schedule of the rate goes by, too")
    parser.add_argument("--reader", choices=READERS, default="cucim")
    parser.add_argument("--region", type=int, default=768, help="Width of a region in pixels")
    parser.add_argument("--patch", type=int, default=224, help="Width of a patch in pixels; a region has 3×3")
    parser.add_argument("--batch", type=int, default=64, help="regions")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--share", type=float, default=0.5, help="of the patches that are flipped, of those turned, zoomed")
    parser.add_argument("--weights", type=Path, help="torchvision's file of ImageNet weights to begin with")
    asked = parser.parse_args()
    variant = VARIANTS[asked.variant]
    check_device(asked.variant, variant)
    wanted, validate_every = os.environ.get(marks.EPOCHS_VARIABLE), os.environ.get(marks.VALIDATE_EVERY_VARIABLE)
    # Where somebody measures each variant is seeded, so that runs can be paired.
    seed = os.environ.get(marks.SEED_VARIABLE) or ("0" if variant.cudnn == "deterministic" else None)
    if seed is not None:
        set_determinism(seed=int(seed))
    torch.backends.cudnn.deterministic = variant.cudnn == "deterministic"
    torch.backends.cudnn.benchmark = variant.cudnn == "autotune"
    try:
        Trainer(variant, asked, int(wanted or asked.epochs)).train(int(validate_every or 1))
    except (RegionsError, SlideError) as error:
        said = str(error).strip().splitlines()[-1]  # a worker's has its traceback before it
        sys.exit(said.removeprefix(f"{SlideError.__module__}.SlideError: "))


class Trainer:
    """One variant's network, data and optimizer."""

    def __init__(self, variant: Variant, asked: argparse.Namespace, epochs: int) -> None:
        self.variant, self.epochs = variant, epochs
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        parts = ("train", "validate")
        self.preprocess = {part: device_chain(variant, self.device, asked.share, training=part == "train") for part in parts}
        self.batches = {part: self._load(asked, part) for part in parts}
        next(iter(self.batches["train"]))  # as the published program looks at a batch before it makes its network
        self.model = make_network(asked.patch, asked.weights).to(self.device)
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer: torch.optim.Optimizer
        if variant.optimizer == "novograd":
            self.optimizer = Novograd(self.model.parameters(), lr=LEARNING_RATE)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
        rate = torch.optim.lr_scheduler
        self.schedule = rate.CosineAnnealingLR(self.optimizer, T_max=epochs) if variant.schedule == "cosine" else None
        self.scaler = torch.GradScaler(self.device.type, enabled=self.halved)

    @property
    def halved(self) -> bool:
        """Return whether passes are of half precision: on a GPU alone, since a processor's is slower."""
        return self.variant.precision == "fp16" and self.device.type == "cuda"

    def _load(self, asked: argparse.Namespace, part: str) -> DataLoader:
        dataset = PatchWSIDataset(
            list_regions(asked.data, part),
            patch_size=asked.region,
            patch_level=0,
            transform=worker_chain(self.variant, asked.patch, asked.share, training=part == "train"),
            reader=make_reader(asked.reader),
        )
        pinned = self.variant.pin_memory and self.device.type == "cuda"
        return DataLoader(dataset, num_workers=asked.workers, batch_size=asked.batch, pin_memory=pinned)

    def train(self, validate_every: int) -> None:
        """Train all epochs, and mark them."""
        for epoch in marks.epochs(self.epochs):
            with nvtx.annotate("Training Epoch"):
                losses, regions = self.train_epoch()
            if self.schedule is not None:
                self.schedule.step()
            marks.samples(regions)
            torch.save(self.model.state_dict(), f"model_epoch_{epoch + 1}.pt")
            first = " ".join(f"{one:.5f}" for one in losses[:SAID])
            print(f"epoch {epoch + 1}/{self.epochs}: loss {sum(losses) / len(losses):.5f}, first steps {first}", flush=True)
            if (epoch + 1) % validate_every == 0:
                marks.validation()
                with nvtx.annotate("Validation"):
                    loss, accuracy = self.validate()
                marks.quality(accuracy)
                print(f"validation: loss {loss:.5f}, accuracy {accuracy:.4f}", flush=True)

    def train_epoch(self) -> tuple[list[float], int]:
        """Return the loss of each step, and how many regions trained."""
        self.model.train()
        losses, regions = [], 0
        batches = iter(self.batches["train"])
        for _ in range(len(self.batches["train"])):
            with nvtx.annotate("Step"):
                with nvtx.annotate("Data Loading"):
                    pictures, labels = self._move(next(batches))
                loss, found = self.step(pictures, labels)
                (found == labels).float().mean().item()  # the accuracy, which the published program reads in each step, too
                losses.append(loss.item())
            regions += len(labels) // 9
        return losses, regions

    def step(self, pictures: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Train on a batch; return its loss, and what was found."""
        output, loss = self._pass("train", pictures, labels)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss, decide(output)

    def validate(self) -> tuple[float, float]:
        """Return mean loss and accuracy of all patches that validate; autograd records all of it, as published."""
        self.model.eval()
        total_loss, correct, number = 0.0, 0.0, 0
        batches = iter(self.batches["validate"])
        for _ in range(len(self.batches["validate"])):
            with nvtx.annotate("Validation Step"):
                pictures, labels = self._move(next(batches))
                output, loss = self._pass("validate", pictures, labels)
                correct += (decide(output) == labels).float().sum().item()
                total_loss += loss.item() * len(labels)
                number += len(labels)
        return total_loss / number, correct / number

    def _pass(self, part: str, pictures: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        preprocess: Callable[[Tensor], Tensor] | None = self.preprocess[part]
        if preprocess is not None:
            pictures = preprocess(pictures)
        with torch.autocast(self.device.type, enabled=self.halved):
            output = self.model(pictures)
            return output, self.criterion(output, labels)

    def _move(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return batch["image"].to(self.device), batch["label"].to(self.device)


def decide(output: Tensor) -> Tensor:
    """Return 1 where tumour is likelier than not, else 0."""
    return (output.sigmoid() >= 0.5).to(output.dtype)


def make_network(patch: int, weights: Path | None) -> nn.Module:
    """Return a ResNet-18 whose head is a 1×1 convolution: N × 3 × patch × patch becomes N × 1 × 1 × 1.

    Equal seeds give the weights that torchvision's gives. `weights`: ImageNet's, as torchvision's file has them.
    """
    body = resnet18(spatial_dims=2, n_input_channels=3, num_classes=1000, conv1_t_stride=2, bias_downsample=False)
    if weights is not None:
        body.load_state_dict(torch.load(weights, weights_only=True))
    pool = ("avg", {"kernel_size": patch // NARROWED, "stride": 1})
    return NetAdapter(body, num_classes=1, dim=2, use_conv=True, pool=pool)


if __name__ == "__main__":
    main()
