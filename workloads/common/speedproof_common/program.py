"""A published program is run as it is, and its run's log says which one it was."""

import hashlib
import runpy
import sys
from pathlib import Path


def say_digest(program: str) -> None:
    """Print the program's name and the SHA-256 of its bytes."""
    print(f"{Path(program).name}: SHA-256 {hashlib.sha256(Path(program).read_bytes()).hexdigest()}", flush=True)


def run_program(program: str, *arguments: str) -> None:
    """Run the program in this process, as if it had been called with these arguments."""
    say_digest(program)
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
