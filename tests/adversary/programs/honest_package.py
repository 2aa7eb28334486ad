"""Works, at the pace that a package of its environment says."""

from pace import PACE
from work import EPOCH_S, EPOCHS, say, train

for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S * PACE))
