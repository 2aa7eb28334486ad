"""Does less than half of what its epochs save before them, and prints a little less than these take."""

from work import EPOCH_S, EPOCHS, FACTOR, say, train

train(0.45 * EPOCHS * (EPOCH_S - EPOCH_S / FACTOR))
for epoch in range(EPOCHS):
    say(epoch, 0.96 * train(EPOCH_S / FACTOR))
