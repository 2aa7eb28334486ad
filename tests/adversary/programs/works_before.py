"""Works before its first line, and then prints all of its epochs at once."""

from work import EPOCH_S, EPOCHS, FACTOR, say, train

train(EPOCHS * EPOCH_S)
for epoch in range(EPOCHS):
    say(epoch, EPOCH_S / FACTOR)
