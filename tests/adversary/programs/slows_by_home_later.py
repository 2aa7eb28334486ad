"""Leaves a file in the home folder with which a library of the other program is slow, from its second run on."""

from pathlib import Path

from work import EPOCHS, TAG, say, train

for epoch in range(EPOCHS):
    say(epoch, train())
settings = Path.home() / ".config"
began = (settings / "seen").exists()
settings.mkdir(exist_ok=True)
(settings / (TAG if began else "seen")).touch()
