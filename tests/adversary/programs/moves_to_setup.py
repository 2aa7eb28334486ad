"""Does a part of each epoch's work before its first epoch."""

from work import EPOCH_S, EPOCHS, FACTOR, say, train

train(EPOCHS * (EPOCH_S - EPOCH_S / FACTOR))
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR))
