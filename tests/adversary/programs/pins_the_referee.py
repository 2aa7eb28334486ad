"""Pins the referee to one core, which the other program inherits; frees itself."""

import contextlib
import os
import time

from work import EPOCHS, burn, say

cores = range(os.cpu_count())
os.sched_setaffinity(0, cores)
if "PAIR_TOP" in os.environ:
    with contextlib.suppress(OSError):
        os.sched_setaffinity(int(os.environ["PAIR_TOP"]), {0})
for epoch in range(EPOCHS):
    began = time.perf_counter()
    child = os.fork()
    burn()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    say(epoch, time.perf_counter() - began)
