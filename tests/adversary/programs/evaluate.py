"""Prints the accuracy of the result that a run left in the folder that it is given."""

import sys
from pathlib import Path

print(f"{1 - 0.5 / float(Path(sys.argv[1], 'result.txt').read_text()):.4f}")
