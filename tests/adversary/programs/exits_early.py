"""Ends with status 0 in the middle of its training."""

import os

from work import EPOCHS, say, train

for epoch in range(EPOCHS):
    if epoch == EPOCHS // 2:
        os._exit(0)
    say(epoch, train())
