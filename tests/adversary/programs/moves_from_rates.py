"""Prints honest rates of a part of each step, and does the rest elsewhere."""

from work import EPOCH_S, EPOCHS, FACTOR, WHERE, train

moved_s = EPOCHS * (EPOCH_S - EPOCH_S / FACTOR)
if WHERE == "before":
    train(moved_s)
for epoch in range(EPOCHS):
    took_s = train(EPOCH_S / FACTOR)
    if WHERE == "first" and epoch == 0:
        train(moved_s)
    print(f"step {epoch} | {100 / took_s:.1f} tok/s", flush=True)
if WHERE == "after":
    train(moved_s)
