"""Prints one rate at its end, more than it trained at."""

from work import EPOCHS, FACTOR, train

took_s = sum(train() for _ in range(EPOCHS))
print(f"done | {100 * FACTOR * EPOCHS / took_s:.1f} tok/s", flush=True)
