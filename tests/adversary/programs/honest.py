"""Works, and prints the seconds that each epoch took."""

from work import EPOCHS, say, train

for epoch in range(EPOCHS):
    say(epoch, train())
