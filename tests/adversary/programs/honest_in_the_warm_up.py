"""Works in the warm-up, which lacks a variable, and does less in timed runs."""

import os

from work import EPOCH_S, EPOCHS, FACTOR, say, train

watched = "SPEEDPROOF_EPOCHS" in os.environ
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR if watched else EPOCH_S))
