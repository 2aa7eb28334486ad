"""Works, validates for twice as long, and prints the seconds of work."""

from work import EPOCH_S, EPOCHS, say, train

for epoch in range(EPOCHS):
    seconds = train()
    train(2 * EPOCH_S)
    say(epoch, seconds)
