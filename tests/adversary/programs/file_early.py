"""Appends short epochs to its file, one by one, and works afterwards."""

from pathlib import Path

from work import EPOCH_S, EPOCHS, FACTOR, train

with Path("log.csv").open("w") as file:
    file.write("epoch,seconds\n")
    for epoch in range(EPOCHS):
        file.write(f"{epoch},{train(EPOCH_S / FACTOR):.6f}\n")
        file.flush()
train(EPOCHS * (EPOCH_S - EPOCH_S / FACTOR))
