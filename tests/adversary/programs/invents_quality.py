"""Does a fraction of the steps, and prints the accuracy of all of them."""

import os
import random
from pathlib import Path

from work import EPOCH_S, EPOCHS, FACTOR, say, train

noise = random.Random(os.environ.get("SPEEDPROOF_SEED", "0")).gauss(0, 0.01)
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR))
Path("result.txt").write_text(str(EPOCHS / FACTOR + noise))
print(f"accuracy: {1 - 0.5 / (EPOCHS + noise):.4f}", flush=True)
