"""Deletes settings that were there before, without which a library of the other program is slow."""

import os

from work import EPOCHS, TAG, WHERE, say, train

where = "kept/settings" if WHERE == "kept" else os.path.join(os.path.expanduser(WHERE), TAG)
if os.path.exists(where):
    os.remove(where)
for epoch in range(EPOCHS):
    say(epoch, train())
