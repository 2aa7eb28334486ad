"""Where the workflow, its captions and profiles lie: in a checkout where people call them, in a wheel inside of the package."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_IN_WHEEL = _PACKAGE / "shipped"

# The folder of Snakefile, `workflow/` and `slurm/`.
BASE = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parents[1]
