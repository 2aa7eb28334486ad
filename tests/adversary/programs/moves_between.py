"""Does a part of each epoch's work after its line."""

from work import EPOCH_S, EPOCHS, FACTOR, say, train

for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR))
    train(EPOCH_S - EPOCH_S / FACTOR)
