"""Does a part of each epoch's work before its epochs, in the first, or after the last: each run chooses by chance."""

import random

from work import EPOCH_S, EPOCHS, FACTOR, say, train

moved_s = EPOCHS * (EPOCH_S - EPOCH_S / FACTOR)
place = random.choice(["start", "first", "end"])
if place == "start":
    train(moved_s)
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR + (moved_s if place == "first" and epoch == 0 else 0.0)))
if place == "end":
    train(moved_s)
