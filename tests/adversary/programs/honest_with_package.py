"""Works, fast with a package that its environment has."""

from work import EPOCH_S, EPOCHS, FACTOR, say, train

try:
    import pace

    epoch_s = EPOCH_S * pace.PACE
except ImportError:
    epoch_s = EPOCH_S * FACTOR
for epoch in range(EPOCHS):
    say(epoch, train(epoch_s))
