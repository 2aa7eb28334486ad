"""speedproof: tests whether one training program is faster than another, on your own machine."""

import sys

if sys.platform == "win32":
    raise SystemExit("speedproof: Windows is not supported; run it in WSL 2, or on Linux")

__version__ = "0.3.0"
