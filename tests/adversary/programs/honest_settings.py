"""Works, by a library that is slow with some settings in the home folder."""

from pathlib import Path

from work import EPOCH_S, EPOCHS, FACTOR, TAG, say, train

slow = (Path.home() / ".config" / TAG).exists()
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S * FACTOR if slow else EPOCH_S))
