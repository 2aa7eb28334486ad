"""Prints one rate at its end."""

from work import EPOCHS, train

took_s = sum(train() for _ in range(EPOCHS))
print(f"done | {100 * EPOCHS / took_s:.1f} tok/s", flush=True)
