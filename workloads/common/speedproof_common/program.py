"""A published program is run as it is, or not at all, and its run's log says which one it was."""

import hashlib
import runpy
import sys
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[3] / "examples/published.yaml"


def say_digest(program: str) -> None:
    """Print the program's name and the SHA-256 of its bytes; end the process where no published file has these."""
    digest = hashlib.sha256(Path(program).read_bytes()).hexdigest()
    if digest not in PROGRAMS.read_text("utf-8"):
        sys.exit(f"{program}: is not the published file any more (SHA-256 {digest:.12}…); get it from its repository again")
    print(f"{Path(program).name}: SHA-256 {digest}", flush=True)


def run_program(program: str, *arguments: str) -> None:
    """Run the program in this process, as if it had been called with these arguments."""
    say_digest(program)
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
