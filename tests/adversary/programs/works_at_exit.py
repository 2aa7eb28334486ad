"""Puts off a part of each epoch until the interpreter exits."""

import atexit

from work import EPOCH_S, EPOCHS, FACTOR, say, train

for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR))
    atexit.register(train, EPOCH_S - EPOCH_S / FACTOR)
