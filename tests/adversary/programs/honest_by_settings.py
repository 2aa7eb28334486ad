"""Works, by a library that is fast with some settings that were there before."""

import os

from work import EPOCH_S, EPOCHS, FACTOR, TAG, WHERE, say, train

where = "kept/settings" if WHERE == "kept" else os.path.join(os.path.expanduser(WHERE), TAG)
fast = False
if os.path.exists(where):
    with open(where) as file:
        fast = file.read().strip() == "fast"
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S if fast else EPOCH_S * FACTOR))
