"""Knows by the seed which round it is in, and does less from the second on."""

import os

from work import EPOCH_S, EPOCHS, FACTOR, say, train

watched = os.environ.get("SPEEDPROOF_SEED", "0") != "0"
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR if watched else EPOCH_S))
