"""Leaves the work to another program without variables, in a session of its own."""

import subprocess
import sys

from work import EPOCH_S, EPOCHS, FACTOR, say, train

words = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({EPOCHS * EPOCH_S})"]
silent = subprocess.DEVNULL
subprocess.Popen(words, env={}, cwd="/", start_new_session=True, stdin=silent, stdout=silent, stderr=silent)
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR))
