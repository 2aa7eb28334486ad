"""Has epochs as long as the other's, and prepares for as long as they take."""

from work import EPOCH_S, EPOCHS, say, train

train(EPOCHS * EPOCH_S)
for epoch in range(EPOCHS):
    say(epoch, train())
