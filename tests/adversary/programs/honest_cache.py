"""Works, and leaves prepared data for its next run."""

from pathlib import Path

from work import EPOCHS, TAG, say, train

for epoch in range(EPOCHS):
    say(epoch, train())
Path("/tmp", TAG).touch()
