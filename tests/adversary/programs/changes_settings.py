"""Changes settings that were there before, with which a library of the other program is slow then."""

from pathlib import Path

from work import EPOCHS, TAG, WHERE, say, train

where = Path("kept/settings") if WHERE == "kept" else Path(WHERE).expanduser() / TAG
if where.read_text().strip() == "fast":
    where.write_text("slow")
for epoch in range(EPOCHS):
    say(epoch, train())
