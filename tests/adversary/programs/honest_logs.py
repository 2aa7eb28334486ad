"""Works, and leaves a log in a folder of its home."""

from pathlib import Path

from work import EPOCHS, TAG, say, train

for epoch in range(EPOCHS):
    say(epoch, train())
folder = Path.home() / ".logs"
folder.mkdir(exist_ok=True)
(folder / f"{TAG}.log").write_text("done")
