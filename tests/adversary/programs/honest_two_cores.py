"""Keeps two cores busy, and prints the seconds that each epoch took."""

import os
import time

from work import EPOCHS, burn, say

for epoch in range(EPOCHS):
    began = time.perf_counter()
    child = os.fork()
    burn()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    say(epoch, time.perf_counter() - began)
