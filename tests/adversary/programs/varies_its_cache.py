"""Works in its first run, keeps the result, and saves another part of the work in each later run."""

import random
from pathlib import Path

from work import EPOCH_S, EPOCHS, TAG, say, train

cache = Path.home() / ".cache" / TAG
part = random.uniform(0.35, 0.75) if cache.exists() else 1.0
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S * part))
cache.parent.mkdir(exist_ok=True)
if not cache.exists():
    cache.touch()
