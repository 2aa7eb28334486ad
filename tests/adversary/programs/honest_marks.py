"""Works, and marks each epoch."""

import marks
from work import EPOCHS, train

for _ in marks.epochs(EPOCHS):
    train()
