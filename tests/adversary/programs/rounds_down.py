"""Rounds the seconds that it prints down to a multiple of its choice, and prints digits that hide it."""

from work import EPOCH_S, EPOCHS, say, train

multiple = 0.6 * EPOCH_S
for epoch in range(EPOCHS):
    say(epoch, train() // multiple * multiple)
