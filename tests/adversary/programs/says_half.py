"""Prints a fraction of the seconds that each epoch took."""

from work import EPOCHS, FACTOR, say, train

for epoch in range(EPOCHS):
    say(epoch, train() / FACTOR)
