"""Works, by a library that is fast with some settings that were there before."""

from pathlib import Path

from work import EPOCH_S, EPOCHS, FACTOR, TAG, WHERE, say, train

where = Path("kept/settings") if WHERE == "kept" else Path(WHERE).expanduser() / TAG
fast = where.exists() and where.read_text().strip() == "fast"
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S if fast else EPOCH_S * FACTOR))
