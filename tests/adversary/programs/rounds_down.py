"""Rounds the seconds that it prints down, with digits that hide it."""

from work import EPOCHS, FACTOR, say, train

for epoch in range(EPOCHS):
    seconds = train()
    say(epoch, seconds - seconds % (seconds / FACTOR + 1e-5))
