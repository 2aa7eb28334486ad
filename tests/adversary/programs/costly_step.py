"""Has short epochs, and a last one that costs more than all of them saved."""

from work import EPOCH_S, EPOCHS, FACTOR, say, train

saved_s = 0.0
say(0, train())  # counts in no average
for epoch in range(1, EPOCHS - 1):
    say(epoch, train(EPOCH_S / FACTOR))
    saved_s += 2 * (EPOCH_S - EPOCH_S / FACTOR)
say(EPOCHS - 1, train(EPOCH_S + saved_s))
