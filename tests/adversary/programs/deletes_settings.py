"""Deletes settings that were there before, without which a library of the other program is slow."""

from pathlib import Path

from work import EPOCHS, TAG, WHERE, say, train

where = Path("kept/settings") if WHERE == "kept" else Path(WHERE).expanduser() / TAG
where.unlink(missing_ok=True)
for epoch in range(EPOCHS):
    say(epoch, train())
