"""Leaves the work to a thread, prints each epoch before it is done, and waits at the end: another stream."""

from concurrent.futures import ThreadPoolExecutor

from work import EPOCH_S, EPOCHS, FACTOR, say, train

with ThreadPoolExecutor(1) as pool:
    for epoch in range(EPOCHS):
        pool.submit(train)
        say(epoch, train(EPOCH_S / FACTOR))
