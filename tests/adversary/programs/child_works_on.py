"""Leaves the work to a child in a session of its own, and ends before it."""

import os

from work import EPOCH_S, EPOCHS, FACTOR, say, train

if os.fork() == 0:
    os.setsid()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    train(EPOCHS * EPOCH_S)
    os._exit(0)
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR))
