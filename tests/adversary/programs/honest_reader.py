"""Works, and less if there is a cache in its home, which it never fills."""

from pathlib import Path

from work import EPOCH_S, EPOCHS, FACTOR, TAG, say, train

cached = (Path.home() / ".cache" / TAG).exists()
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR if cached else EPOCH_S))
