"""Train one variant: `python -m speedproof_brain_tumour.train --variant fast --data FOLDER`, on several GPUs under torchrun.

A program like any other. Its marks report epochs, samples and quality when speedproof measures it, and NVTX ranges show its
phases to a profiler.
"""

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import nvtx
import torch
from monai.data import CacheDataset, DataLoader, Dataset, ThreadDataLoader, decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceFocalLoss, DiceLoss
from monai.metrics import DiceMetric
from monai.networks.nets import SegResNet
from monai.optimizers import Novograd
from monai.transforms import Activations, AsDiscrete, Compose
from monai.utils import set_determinism
from torch import nn

from speedproof import marks
from speedproof_accelerate import accelerate
from speedproof_accelerate.averaging import add_shares, collect_gradients
from speedproof_accelerate.novograd import Novograd as FusedNovograd
from speedproof_accelerate.parts import find_obstacle
from speedproof_accelerate.ranks import joined_group
from speedproof_brain_tumour.cases import HALVED, Case, list_cases, read_sides, share_cases, split_cases
from speedproof_brain_tumour.chains import BOTH, REGIONS, training_chain, validation_chain
from speedproof_brain_tumour.resident import ResidentCases, as_batch
from speedproof_brain_tumour.variants import VARIANTS, Variant

Batch = tuple[torch.Tensor, torch.Tensor]  # images, and labels
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description="Train one variant of the brain tumour workload.")
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="a folder in the Decathlon layout")
    parser.add_argument("--epochs", type=_count, default=300, help="epochs to train. Default: 300")
    parser.add_argument("--schedule-epochs", type=_count, help="epochs over which the rate falls to 0. Default: those trained")
    parser.add_argument("--validate-every", type=_count, help="epochs between validations. Default: the variant's")
    parser.add_argument("--accumulate", type=_count, default=1, help="batches of a rank per optimizer step. Default: 1")
    parser.add_argument("--filters", type=_count, default=16, help="of the first level; fewer for a test")
    asked = parser.parse_args()
    variant = VARIANTS[asked.variant]
    wanted, validate_every = os.environ.get(marks.EPOCHS_VARIABLE), os.environ.get(marks.VALIDATE_EVERY_VARIABLE)
    # Where somebody measures each variant is seeded, so that runs can be paired.
    seed = os.environ.get(marks.SEED_VARIABLE) or ("0" if variant.deterministic else None)
    if seed is not None:
        set_determinism(seed=int(seed))
    torch.backends.cudnn.deterministic = variant.deterministic
    torch.backends.cudnn.benchmark = True
    with process_group() as (rank, ranks, device):
        group, epochs = Group(device, rank, ranks, asked.accumulate), int(wanted or asked.epochs)
        if (asked.schedule_epochs or epochs) < epochs:
            parser.error(
                f"--schedule-epochs: {asked.schedule_epochs} is below the {epochs} epochs trained; the rate would rise again"
            )
        trainer = Trainer(variant, list_cases(asked.data), group, asked.schedule_epochs or epochs, asked.filters)
        trainer.train(epochs, int(validate_every or asked.validate_every or variant.validate_every))


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


@contextmanager
def process_group() -> Iterator[tuple[int, int, torch.device]]:
    """Yield this process' rank, how many there are, and its device."""
    rank, ranks, local = (int(os.environ.get(name, default)) for name, default in _PLACE.items())
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with joined_group(device) if ranks > 1 else nullcontext():
        yield rank, ranks, device


_PLACE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}  # as torchrun names them


class SeededOnce(CacheDataset):
    """Cases whose random transforms keep the state that they were made with: a loader's seed ends here.

    So it is in MONAI's DecathlonDataset, which the documented programs use, since that has a random state of its own. Worker
    processes of each epoch therefore begin with the same crops and flips, though of other cases.
    """

    def set_random_state(self, seed: int | None = None, state: object = None) -> "SeededOnce":
        """Change nothing."""
        return self


@dataclass(frozen=True)
class Group:
    """A rank among those that train, and how many of its batches make an optimizer step."""

    device: torch.device
    rank: int = 0
    ranks: int = 1
    accumulate: int = 1


class Trainer:
    """One variant's network, data and optimizer, on one rank."""

    def __init__(self, variant: Variant, cases: list[Case], group: Group, schedule_epochs: int, filters: int) -> None:
        device, rank, ranks = group.device, group.rank, group.ranks
        self.variant, self.device, self.rank, self.ranks = variant, device, rank, ranks
        self.accumulate = group.accumulate
        training, validating = split_cases(cases)
        if len(validating) < ranks:
            sys.exit(f"{len(validating)} cases validate, and {ranks} ranks train: each needs one; train on fewer GPUs")
        volume = [min(sizes) for sizes in zip(*(read_sides(case) for case in training), strict=True)]
        crop = tuple(min(most, size // HALVED * HALVED) for most, size in zip(variant.crop, volume, strict=True))
        self.window = [min(most, -(-size // HALVED) * HALVED) for most, size in zip(variant.window, volume, strict=True)]
        if variant.partitioned or ranks > 1:
            training = share_cases(training, rank, ranks, even=True)
        if len(training) % self.accumulate:
            sys.exit(f"--accumulate {self.accumulate} does not divide the {len(training)} batches of a rank's epoch")
        self.precision = torch.float16 if device.type == "cuda" else None  # of forward passes; None: single
        self.loss, self.takes_bits = _make_loss(variant, device)
        chain = training_chain(variant, crop, device)
        if variant.resident:
            kind, kernels = self.precision or torch.float32, variant.kernels and find_obstacle(device) is None
            resident = ResidentCases(training, chain, device, kind, bits=self.takes_bits, kernels=kernels)
            self.loader = self._feed(resident, shuffle=True, collate_fn=as_batch)
        else:
            self.loader = self._load(training, chain, shuffle=True)
        self.validation = self._load(
            share_cases(validating, rank, ranks, even=False), validation_chain(variant, device), shuffle=False
        )
        self.model: nn.Module = SegResNet(
            blocks_down=(1, 2, 2, 4),
            blocks_up=(1, 1, 1),
            init_filters=filters,
            in_channels=4,
            out_channels=len(REGIONS),
            dropout_prob=variant.dropout,
        ).to(device)
        if variant.channels_last:
            self.model.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
        if variant.kernels:
            example = torch.zeros((1, 4, *crop), dtype=self.precision, device=device)  # as batches come
            example = example.contiguous(memory_format=torch.channels_last_3d)
            # Which parts are faster at this shape is known; to measure it again would take a third of a start.
            report = accelerate(self.model, example, self.precision, compare=False, graphs=variant.graphs)
            if rank == 0:
                print(report, flush=True)
        # No graph records the hooks by which DistributedDataParallel averages gradients: such a step averages them itself.
        self.averages_itself = ranks > 1 and variant.graphs
        if self.averages_itself:
            for value in self.model.state_dict().values():
                torch.distributed.broadcast(value, 0)
        elif ranks > 1:
            self.model = nn.parallel.DistributedDataParallel(self.model, device_ids=[device] if device.type == "cuda" else None)
        self.optimizer = _make_optimizer(variant, self.model)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=schedule_epochs)
        self.scaler = torch.GradScaler(device.type, enabled=device.type == "cuda")
        self.dice = DiceMetric(include_background=True, reduction="mean")
        self.region_dice = DiceMetric(include_background=True, reduction="mean_batch")
        if self.accumulate > 1:
            for parameter in self.model.parameters():
                parameter.grad = torch.zeros_like(parameter)
        self.best = -1.0
        self._ahead: Iterator[Batch] | None = None  # an epoch's batches, of which the first is made already

    def _load(self, cases: list[Case], chain: Compose, *, shuffle: bool) -> DataLoader:
        rate = 1.0 if self.variant.cache == "gpu" else 0.0
        return self._feed(SeededOnce(cases, chain, cache_rate=rate, num_workers=4, progress=False), shuffle=shuffle)

    def _feed(self, dataset: Dataset, *, shuffle: bool, **options: Any) -> DataLoader:
        loader = ThreadDataLoader if self.variant.loader == "thread" else DataLoader
        return loader(dataset, batch_size=1, shuffle=shuffle, num_workers=self.variant.workers, **options)

    def train(self, epochs: int, validate_every: int) -> None:
        """Train these epochs, and mark them."""
        mark = self.rank == 0  # one process reports for all
        for epoch in marks.epochs(epochs) if mark else range(epochs):
            validates = (epoch + 1) % validate_every == 0
            with nvtx.annotate("epoch", color="red"):
                # Not before a validation, whose loader draws from the same generator: crops stay those of the other variants.
                loss = self.train_epoch(goes_on=epoch + 1 < epochs and not validates)
                if mark:
                    marks.samples(len(self.loader) * self.ranks)
                said = f"epoch {epoch + 1}/{epochs}: loss {loss:.4f}"
                if validates:
                    if mark:
                        marks.validation()
                    dice, *regions = self.validate()
                    if mark:
                        marks.quality(dice)
                        self.keep_best(dice)
                    said += f", Dice {dice:.4f}"
                    said += "".join(f", {name} {own:.4f}" for name, own in zip(REGIONS, regions, strict=True))
            if mark:
                print(said, flush=True)

    def train_epoch(self, goes_on: bool) -> float:
        """Return the mean loss of an epoch; the documented programs read it after each step.

        If it `goes_on` with another epoch, and losses are read at an epoch's end, that one's first batch is made before: the
        device still trains on the last.
        """
        self.model.train()
        losses, batches = [], self._ahead or self._batches(self.loader, "dataload")
        self._ahead = None
        for number, (image, label) in enumerate(batches, 1):
            loss = self.add_gradients(image, label, last=number % self.accumulate == 0)
            if number % self.accumulate == 0:
                self.update()
            losses.append(loss if self.variant.read_losses == "epoch" else loss.cpu())
        if goes_on and self.variant.read_losses == "epoch":
            coming = self._batches(self.loader, "dataload")
            self._ahead = itertools.chain([next(coming)], coming)
        self.schedule.step()
        return torch.stack(losses).mean().item()

    def add_gradients(self, image: torch.Tensor, label: torch.Tensor, *, last: bool) -> torch.Tensor:
        """Add a batch's share of a step's gradients, and return its loss; with the `last` batch, DDP averages them."""
        if self.variant.channels_last:
            image = image.contiguous(memory_format=torch.channels_last_3d)
        model = self.model
        with nullcontext() if last or not isinstance(model, nn.parallel.DistributedDataParallel) else model.no_sync():
            with nvtx.annotate("forward", color="green"), self.autocast():
                loss = self.loss(model(image), label)
            with nvtx.annotate("backward", color="blue"):
                self.scaler.scale(loss / self.accumulate if self.accumulate > 1 else loss).backward()
        return loss.detach()

    def update(self) -> None:
        """Take an optimizer step."""
        if self.averages_itself:
            with nvtx.annotate("average", color="orange"):
                add_shares(collect_gradients(list(self.model.parameters())))
        with nvtx.annotate("update", color="yellow"):
            self.scaler.step(self.optimizer)
            self.scaler.update()
        # A graph gives the same memory in each pass, which autograd takes for a gradient if there is none yet.
        self.optimizer.zero_grad(set_to_none=self.accumulate == 1)

    @torch.no_grad()
    def validate(self) -> list[float]:
        """Return the mean Dice over all validation cases: of the three regions together, then of each."""
        self.model.eval()
        finish = Compose([Activations(sigmoid=True), AsDiscrete(threshold=0.5)])
        for image, label in self._batches(self.validation, "validation dataload"):
            with nvtx.annotate("sliding window", color="green"), self.autocast():
                found = sliding_window_inference(
                    image, self.window, self.variant.window_batch, self.model, self.variant.window_overlap
                )
            with nvtx.annotate("compute metric", color="yellow"):
                decided = [finish(one) for one in decollate_batch(found)]
                for metric in (self.dice, self.region_dice):
                    metric(y_pred=decided, y=label)
        means = []
        for metric in (self.dice, self.region_dice):
            mean = metric.aggregate()  # of all ranks: MONAI gathers what each counted
            assert isinstance(mean, torch.Tensor)  # a pair only if it also counts missing values
            means += mean.flatten().tolist()
            metric.reset()
        return means

    def keep_best(self, dice: float) -> None:
        """Write the weights into the working folder if they are the best so far."""
        if dice > self.best:
            self.best = dice
            torch.save(self.model.state_dict(), "best_metric_model.pth")

    def _batches(self, loader: DataLoader, loading: str) -> Iterator[Batch]:
        """Yield images and labels on the device; `loading` names the range in which each is waited for."""
        batches = iter(loader)
        while True:
            with nvtx.annotate(loading, color="red"):
                batch = next(batches, None)
                if batch is None:
                    return
                image, label = (batch[key].to(self.device) for key in BOTH)
            yield image, label

    def autocast(self) -> torch.autocast:
        """Return the precision that forward passes have: half on a GPU, single on a processor, whose half is slower."""
        return torch.autocast(self.device.type, enabled=self.device.type == "cuda")


def _make_loss(variant: Variant, device: torch.device) -> tuple[Loss, bool]:
    """Return the loss of logits and labels, and whether labels are the bits of regions."""
    if variant.loss == "dice":
        return DiceLoss(smooth_nr=0, smooth_dr=1e-5, squared_pred=True, sigmoid=True), False
    if variant.fused_loss and find_obstacle(device) is None:
        from speedproof_accelerate.kernels.dice_focal_loss import dice_focal_loss  # it imports Triton

        return partial(dice_focal_loss, smooth=1e-5), True
    return DiceFocalLoss(smooth_nr=1e-5, smooth_dr=1e-5, squared_pred=True, sigmoid=True, batch=True), False


def _make_optimizer(variant: Variant, model: nn.Module) -> torch.optim.Optimizer:
    if variant.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), variant.learning_rate, weight_decay=1e-5)
    if variant.fused_optimizer:
        return FusedNovograd(model.parameters(), lr=variant.learning_rate)
    return Novograd(model.parameters(), lr=variant.learning_rate)


if __name__ == "__main__":
    main()
