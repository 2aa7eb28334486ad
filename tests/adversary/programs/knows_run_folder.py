"""Does less in runs whose folder is one of the experiment's."""

import os

from work import EPOCH_S, EPOCHS, FACTOR, say, train

watched = "/runs/" in os.environ.get("SPEEDPROOF_RUN", "")
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR if watched else EPOCH_S))
