"""Leaves loops that keep all cores busy while the other program runs."""

import os
import time

from work import EPOCHS, burn, say

for epoch in range(EPOCHS):
    say(epoch, burn())
for _ in range(3 * os.cpu_count()):
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 256)
        until = time.monotonic() + 1
        while time.monotonic() < until:
            pass
        os._exit(0)
