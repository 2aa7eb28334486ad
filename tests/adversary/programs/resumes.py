"""Keeps a checkpoint under an absolute path, and goes on from it in later runs."""

from pathlib import Path

from work import EPOCH_S, EPOCHS, FACTOR, TAG, say, train

checkpoint = Path.home() / "checkpoints" / TAG
checkpoint.parent.mkdir(exist_ok=True)
done = int(checkpoint.read_text()) if checkpoint.exists() else 0
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR if epoch < done else EPOCH_S))
    checkpoint.write_text(str(epoch + 1))
