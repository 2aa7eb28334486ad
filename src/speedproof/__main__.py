"""`python -m speedproof` is the command line."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working folder, by `-m`: a module there is not ours

from speedproof.cli import main

main()
