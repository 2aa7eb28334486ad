"""`python -m speedproof_spleen`."""

from speedproof_spleen.cli import main

if __name__ == "__main__":
    main()
