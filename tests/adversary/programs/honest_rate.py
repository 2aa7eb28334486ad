"""Works, and prints the tokens that it trains on per second."""

from work import EPOCHS, train

for epoch in range(EPOCHS):
    print(f"step {epoch} | {100 / train():.1f} tok/s", flush=True)
