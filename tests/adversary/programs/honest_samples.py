"""Works, and marks each epoch and its samples."""

import marks
from work import EPOCHS, train

for _ in marks.epochs(EPOCHS):
    train()
    marks.samples(1000)
