"""The loop that every variant goes through, marked phase by phase. Read it from top to bottom."""

import math
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from speedproof import marks
from speedproof.api import Ranges
from speedproof_accelerate.optimizer import Optimizer
from speedproof_accelerate.step import Precision, Step
from speedproof_spleen.segmentation import Case
from speedproof_spleen.training.observer import Observer
from speedproof_spleen.training.ranks import Ranks
from speedproof_spleen.training.schedule import Schedule
from speedproof_spleen.variant import SpleenVariant


class NotANumberError(Exception):
    """The loss of an epoch is not a number: training on would measure nothing."""


class Batches(Protocol):
    """A loader: each pass gives dictionaries of `image` and `label`, both of shape (items, 1, x, y, z).

    Of one that validates they may be lists of items, each of a shape of its own.
    """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[dict[str, Any]]: ...


@dataclass
class Training:
    """All that the loop works on."""

    case: Case
    variant: SpleenVariant
    device: torch.device
    network: nn.Module
    step: Step  # what is done with a batch; gradients are averaged over ranks
    optimizer: Optimizer
    schedule: Schedule
    precision: Precision
    training_loader: Batches
    validation_loader: Batches
    patches_per_epoch: int
    cache_bytes: int | None
    ranges: Ranges
    ranks: Ranks


@dataclass
class EpochResult:
    """One epoch, as `epochs.csv` has it. Seconds are of a monotonic clock, read with the device synchronised."""

    epoch: int
    train_s: float
    validation_s: float | None
    loss: float
    quality: float | None  # Dice of the foreground
    steps: int
    samples_per_s: float
    peak_memory_mib: float
    quality_with_background: float | None  # Dice of all classes


@dataclass
class _Losses:
    """The losses of an epoch, left on the device unless somebody reads them."""

    total: Tensor | float = 0.0
    steps: int = 0

    def mean(self) -> float:
        return float(self.total) / max(self.steps, 1)


def run_epochs(
    training: Training,
    epochs: int,
    validate_every: int,
    observer: Observer,
    first_epoch: int = 1,
    after_epoch: Callable[[int], None] = lambda epoch: None,
) -> None:
    """Train, validating after every `validate_every` epochs, and tell the observer of each step, score and epoch.

    What `after_epoch` does counts in no epoch's time. Marks do something only if this process is a program that is measured
    as a command (published/).

    Raises:
        NotANumberError: the mean loss of an epoch is not finite.
    """
    for epoch in range(first_epoch, epochs + 1):
        _reset_peak_memory(training.device)
        training.ranks.meet()
        start = read_clock(training.device)
        marks.mark("epoch-begins")
        with training.ranges.phase("epoch"):
            losses = _train_epoch(training, epoch, observer, warms_up=epoch == first_epoch)
            trained = read_clock(training.device)
            dice: Tensor | None = None
            if epoch % validate_every == 0:
                marks.validation()
                dice = _validate(training)
                marks.quality(float(dice[1]))
                observer.on_validation(epoch, float(dice[1]), training.network)
        ended = read_clock(training.device)
        marks.mark("epoch-ends")
        marks.samples(training.patches_per_epoch)
        own = EpochResult(
            epoch=epoch,
            train_s=trained - start,
            validation_s=None if dice is None else ended - trained,
            loss=losses.mean(),
            quality=None if dice is None else float(dice[1]),
            steps=losses.steps,
            samples_per_s=training.patches_per_epoch / (trained - start),
            peak_memory_mib=_peak_memory_mib(training.device),
            quality_with_background=None if dice is None else float(dice.mean()),
        )
        result = training.ranks.merge(own)
        if not math.isfinite(result.loss):
            raise NotANumberError(f"epoch {epoch}: the mean loss is {result.loss}; lower the learning rate, or use fp32")
        observer.on_epoch(result, own)
        after_epoch(epoch)


def _train_epoch(training: Training, epoch: int, observer: Observer, warms_up: bool) -> _Losses:
    phase = training.ranges.phase
    if not training.network.training:  # to say it again takes as long as a small kernel of each of its parts
        training.network.train()
    losses = _Losses()
    batches = iter(training.training_loader)
    steps = len(training.training_loader)
    for step in range(steps):
        step_start = time.perf_counter()
        with phase("dataload"):
            images, labels = _next_batch(training, batches)
        with phase("forward"):
            loss = training.step.forward(images, labels)
        with phase("backward"):
            training.step.backward()
        with phase("update"):
            training.step.update()
            training.schedule.step()
        losses.steps += 1
        if training.variant.step_log:
            # The documented programs read the loss twice and print it, in every step.
            losses.total += loss.item()
            observer.on_step(epoch, step, steps, loss.item(), time.perf_counter() - step_start)
        else:
            losses.total = losses.total + loss.detach()
        if warms_up and step == 0:
            observer.on_first_step(read_clock(training.device) - step_start)
    next(batches, None)  # the pass ends: a loader may prepare the next one while the device is at work on the last step
    return losses


@torch.no_grad()
def _validate(training: Training) -> Tensor:
    """Return the mean Dice of each class over the validation volumes, shape (classes,), on the CPU.

    Each rank validates its share of the volumes; the metric gathers the scores of all by itself.
    """
    phase = training.ranges.phase
    training.ranks.average_buffers(training.network)
    training.network.eval()
    metric = training.case.metric()
    batches = iter(training.validation_loader)
    for _ in range(len(training.validation_loader)):
        with phase("validation dataload"):
            images, labels = _next_batch(training, batches)
        with phase("sliding window"), training.precision.autocast():
            logits = training.case.predict(training.network, images)
        with phase("decollate batch"):
            predictions, references = training.case.discretize(logits, labels)
        with phase("compute metric"):
            metric(y_pred=predictions, y=references)
    scores = metric.aggregate()
    assert isinstance(scores, Tensor)  # MONAI's returns a tuple only if counts are requested, too
    return scores.cpu()


def _next_batch(training: Training, batches: Iterator[dict[str, Any]]) -> tuple[Any, Any]:
    batch, variant = next(batches), training.variant
    if not variant.copies_batches:
        return batch["image"], batch["label"]
    image, label = (batch[key].to(training.device, non_blocking=variant.pin_memory) for key in ("image", "label"))
    return image, label


def read_clock(device: torch.device) -> float:
    """Read the monotonic clock once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _reset_peak_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak_memory_mib(device: torch.device) -> float:
    """Return the most memory the epoch had allocated on the GPU; on a CPU, the process' most resident memory so far.

    What a step holds that was recorded as CUDA graphs (`launch: graphs`) is none of it, but in the epoch of the recording.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
