"""`python -m speedproof_spleen`."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working folder, by `-m`: a module there is not ours

from speedproof_spleen.cli import main

if __name__ == "__main__":
    main()
