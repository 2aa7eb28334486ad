"""Leaves a file in the home folder, with which a library of the other program is slow."""

from pathlib import Path

from work import EPOCHS, TAG, say, train

for epoch in range(EPOCHS):
    say(epoch, train())
settings = Path.home() / ".config"
settings.mkdir(exist_ok=True)
(settings / TAG).touch()
