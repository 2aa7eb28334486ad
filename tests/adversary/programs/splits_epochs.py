"""Prints several lines for each epoch, each with its part of the seconds."""

from work import EPOCHS, FACTOR, say, train

parts = round(FACTOR + 0.5)
for epoch in range(EPOCHS):
    for part in range(parts):
        say(epoch * parts + part, train() / parts if part == 0 else 0.0001)
