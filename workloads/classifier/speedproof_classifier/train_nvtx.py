"""`src/train_nvtx.py`, from its facts: `train` with NVTX ranges around each batch and four parts of it.

No range covers an epoch or the loss; loading happens between the batches' ranges.
"""

import nvtx
from torch import Tensor

from speedproof_classifier.loop import Training, prepare, say, test, train


def annotated_step(training: Training, number: int, images: Tensor, labels: Tensor) -> None:
    """Train on one batch, in NVTX ranges."""
    with nvtx.annotate(f"Batch{number}", color="green"):
        with nvtx.annotate("Copy to device", color="red"):
            images, labels = images.to(training.device), labels.to(training.device)
        with nvtx.annotate("Forward Pass", color="yellow"):
            outputs = training.network(images)
        loss = training.criterion(outputs, labels)
        training.optimizer.zero_grad()
        with nvtx.annotate("Backward Pass", color="blue"):
            loss.backward()
        with nvtx.annotate("Optimizer step", color="orange"):
            training.optimizer.step()
        say(number, loss)


def main() -> None:
    """Train five epochs."""
    training = prepare()
    train(training, 5, annotated_step)
    test(training)


if __name__ == "__main__":
    main()
