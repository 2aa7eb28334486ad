"""Prints more tokens per second than it trains on."""

from work import EPOCHS, FACTOR, train

for epoch in range(EPOCHS):
    print(f"step {epoch} | {100 * FACTOR / train():.1f} tok/s", flush=True)
