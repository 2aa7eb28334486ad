"""Stops its clock when work was launched, and waits for it after the line, as a GPU timer without a synchronization does."""

from concurrent.futures import ThreadPoolExecutor

from work import EPOCH_S, EPOCHS, FACTOR, say, train

with ThreadPoolExecutor(1) as pool:
    for epoch in range(EPOCHS):
        launched = pool.submit(train)
        say(epoch, train(EPOCH_S / FACTOR))
        launched.result()
