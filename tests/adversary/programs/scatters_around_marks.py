"""Does a part of each epoch's work before it imports what marks epochs, or when the interpreter exits: by chance."""

import atexit
import random

from work import EPOCH_S, EPOCHS, FACTOR, train

moved_s = EPOCHS * (EPOCH_S - EPOCH_S / FACTOR)
if random.random() < 0.5:
    train(moved_s)
else:
    atexit.register(train, moved_s)

import marks  # noqa: E402

for _ in marks.epochs(EPOCHS):
    train(EPOCH_S / FACTOR)
