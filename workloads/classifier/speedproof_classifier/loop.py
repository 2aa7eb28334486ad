"""The documented training: epochs of steps, each followed by a validation, and a pass over the test images at the end."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from speedproof import marks
from speedproof_classifier.folder import FolderError
from speedproof_classifier.images import Batches, list_splits, load_files
from speedproof_classifier.resnet import resnet50

LEARNING_RATE, MOMENTUM = 1e-3, 0.9
SAID_EVERY = 100  # steps


@dataclass(frozen=True)
class Training:
    """What is trained, by what, on what and where. `batches`: of train, val and, if it exists, test."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    criterion: nn.Module
    batches: dict[str, Batches]
    device: torch.device


# One step on a batch, which says its loss where its number is one of those.
Step = Callable[[Training, int, Tensor, Tensor], None]


def prepare(load: Callable[[Path, torch.device], dict[str, Batches]] | None = None, **optimizer: bool) -> Training:
    """Return the documented training of the folder that the command line names, from the seed that speedproof says.

    `load` makes its batches; None: the documented loaders. `optimizer`: options of the SGD besides. Ends the program, with one
    line, where the folder is none of images.
    """
    if len(sys.argv) != 2:
        sys.exit(f"usage: {Path(sys.argv[0]).stem} FOLDER, which has train/ and val/ as Tiny ImageNet")
    torch.manual_seed(int(os.environ.get(marks.SEED_VARIABLE) or 0))
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        batches = load(Path(sys.argv[1]), device) if load else load_files(list_splits(Path(sys.argv[1])))
    except FolderError as error:
        sys.exit(str(error))
    network = resnet50().to(device)
    sgd = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, **optimizer)
    return Training(network, sgd, nn.CrossEntropyLoss(), batches, device)


def train(training: Training, epochs: int, step: Step) -> None:
    """Train so many epochs, or as many as speedproof wants; mark each, its samples, its validation and its accuracy."""
    batches = training.batches["train"]
    for epoch in marks.epochs(int(os.environ.get(marks.EPOCHS_VARIABLE) or epochs)):
        print(f"epoch {epoch + 1}: {len(batches)} steps", flush=True)
        samples = 0
        for number, (images, labels) in enumerate(batches):
            step(training, number, images, labels)
            samples += len(labels)
        marks.samples(samples)
        marks.validation()
        accuracy = evaluate(training, training.batches["val"])
        marks.quality(accuracy)
        print(f"validation accuracy {accuracy:.4f}", flush=True)


def test(training: Training) -> None:
    """Classify the test images, if any, as documented; their labels were never published."""
    if "test" in training.batches:
        print(f"share of the test images in the first class: {evaluate(training, training.batches['test']):.4f}")


def plain_step(training: Training, number: int, images: Tensor, labels: Tensor) -> None:
    """Train on one batch."""
    images, labels = images.to(training.device), labels.to(training.device)
    outputs = training.network(images)
    loss = training.criterion(outputs, labels)
    training.optimizer.zero_grad()
    loss.backward()
    training.optimizer.step()
    say(number, loss)


def say(number: int, loss: Tensor) -> None:
    """Print the loss of each hundredth step, for which the host waits for the GPU."""
    if number % SAID_EVERY == 0:
        print(f"step {number + 1}: loss {loss.item()}", flush=True)


def evaluate(training: Training, batches: Batches) -> float:
    """Return the share of images whose class is found; as documented, batch norm goes on as in training."""
    total = correct = 0
    with torch.no_grad():
        for images, labels in batches:
            images, labels = images.to(training.device), labels.to(training.device)
            found = training.network(images).argmax(1)
            total += len(labels)
            correct += int((found == labels).sum())
    return correct / total
