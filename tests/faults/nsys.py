"""A program that stands before the real nsys and fails at one of its subcommands, for a run's own report only."""

import shutil
from pathlib import Path

from tests.support import require


def write_nsys(folder: Path, on: str, then: str, probe: bool = False) -> Path:
    """Write a program that does `then` (a shell's words) when `nsys ON …` is asked for; with `probe` also in its own test."""
    real = shutil.which("nsys")
    require("nsys", real is not None, "nsys is not on PATH")
    whose = "*" if probe else "*/report*"
    program = folder / "nsys"
    program.write_text(f"""#!/bin/sh
real={real}
for word in "$@"; do case $word in {whose}) if [ "$1" = {on} ]; then
{then}
fi; break ;; esac; done
exec {real} "$@"
""")
    program.chmod(0o755)
    return program
