"""Marks that an epoch begins when most of it is done."""

import marks
from work import EPOCH_S, EPOCHS, FACTOR, train

for _ in range(EPOCHS):
    train(EPOCH_S - EPOCH_S / FACTOR)
    marks.mark("epoch-begins")
    train(EPOCH_S / FACTOR)
    marks.mark("epoch-ends")
