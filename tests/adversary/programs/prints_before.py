"""Prints all of its epochs at once, and works after its last line."""

from work import EPOCH_S, EPOCHS, FACTOR, say, train

for epoch in range(EPOCHS):
    say(epoch, EPOCH_S / FACTOR)
train(EPOCHS * EPOCH_S)
