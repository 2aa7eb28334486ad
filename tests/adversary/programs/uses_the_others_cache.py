"""Uses what the other program left in /tmp."""

from pathlib import Path

from work import EPOCH_S, EPOCHS, FACTOR, TAG, say, train

prepared = Path("/tmp", TAG).exists()
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR if prepared else EPOCH_S))
