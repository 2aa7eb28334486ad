"""Works in its first run, and keeps the result in the folder in which both programs leave logs."""

from pathlib import Path

from work import EPOCH_S, EPOCHS, FACTOR, TAG, say, train

folder = Path.home() / ".logs"
found = (folder / f"{TAG}.bin").exists()
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR if found else EPOCH_S))
folder.mkdir(exist_ok=True)
(folder / f"{TAG}-own.log").write_text("done")
(folder / f"{TAG}.bin").touch()
