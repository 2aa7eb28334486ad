"""Starts a second rank; both work, and print the seconds of each epoch."""

import os

from work import EPOCHS, say, train

other = os.fork()
for epoch in range(EPOCHS):
    say(epoch, train())
if other:
    os.waitpid(other, 0)
