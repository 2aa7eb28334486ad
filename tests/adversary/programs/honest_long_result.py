"""Works for long, prints its accuracy, and leaves its result."""

import os
import random
from pathlib import Path

from work import EPOCHS, say, train

noise = random.Random(os.environ.get("SPEEDPROOF_SEED", "0")).gauss(0, 0.01)
for epoch in range(4 * EPOCHS):
    say(epoch, train())
Path("result.txt").write_text(str(EPOCHS + noise))
print(f"accuracy: {1 - 0.5 / (EPOCHS + noise):.4f}", flush=True)
