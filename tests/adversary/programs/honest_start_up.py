"""Prepares for as long as all of its epochs take, works, and prints the seconds of each epoch."""

from work import EPOCH_S, EPOCHS, say, train

train(EPOCHS * EPOCH_S)
for epoch in range(EPOCHS):
    say(epoch, train())
