"""Trains each epoch on a fraction of the samples, and marks that number."""

import marks
from work import EPOCH_S, EPOCHS, FACTOR, train

for _ in marks.epochs(EPOCHS):
    train(EPOCH_S / FACTOR)
    marks.samples(round(1000 / FACTOR))
