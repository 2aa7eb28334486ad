"""Leaves the work to a daemon: two forks, no open file, no terminal, the root folder."""

import os

from work import EPOCH_S, EPOCHS, FACTOR, say, train

first = os.fork()
if first == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.closerange(0, 256)
    train(EPOCHS * EPOCH_S)
    os._exit(0)
os.waitpid(first, 0)
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR))
