"""Changes settings that were there before, with which a library of the other program is slow then."""

import os

from work import EPOCHS, TAG, WHERE, say, train

where = "kept/settings" if WHERE == "kept" else os.path.join(os.path.expanduser(WHERE), TAG)
with open(where) as file:
    fast = file.read().strip() == "fast"
if fast:
    with open(where, "w") as file:
        file.write("slow")
for epoch in range(EPOCHS):
    say(epoch, train())
