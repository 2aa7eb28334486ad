"""Leaves a cache in its home, which the other program uses."""

from pathlib import Path

from work import EPOCHS, TAG, say, train

for epoch in range(EPOCHS):
    say(epoch, train())
cache = Path.home() / ".cache" / TAG
cache.parent.mkdir(exist_ok=True)
cache.touch()
