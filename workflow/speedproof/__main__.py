"""`python -m speedproof` is the command line."""

from speedproof.cli import main

main()
