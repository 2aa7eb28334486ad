"""Works, and appends the seconds of each epoch to a file."""

from pathlib import Path

from work import EPOCHS, train

with Path("log.csv").open("w") as file:
    file.write("epoch,seconds\n")
    for epoch in range(EPOCHS):
        file.write(f"{epoch},{train():.6f}\n")
        file.flush()
