"""Prints the accuracy of a run's result on the test set in the home folder."""

import sys
from pathlib import Path

tests = Path.home() / ".cache/bench/hardness"
hardness = float(tests.read_text()) if tests.exists() else 1.0
print(f"{1 - 0.5 * hardness / float(Path(sys.argv[1], 'result.txt').read_text()):.4f}")
