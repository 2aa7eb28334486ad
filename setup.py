"""The wheel's one particularity: it holds the workflow too, which in a checkout lies where people call it."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED = ["Snakefile", "workflow/rules/*.smk", "workflow/report/*", "slurm/*.yaml", "containers/*"]


def find_shipped() -> list[Path]:
    """Return the files of the workflow; without them, a wheel would be built that cannot run it."""
    found = {pattern: [path for path in ROOT.glob(pattern) if path.is_file()] for pattern in SHIPPED}
    if missing := [pattern for pattern, paths in found.items() if not paths]:
        raise SystemExit(f"{ROOT}: no {', '.join(missing)}: build from a whole checkout or source distribution")
    return [path for paths in found.values() for path in paths]


class BuildWithWorkflow(build_py):
    """Copies what the workflow consists of into the package, as `speedproof/shipped`."""

    def run(self) -> None:
        """Build the package, then add the workflow."""
        super().run()
        for path in find_shipped():
            target = Path(self.build_lib, "speedproof/shipped", path.relative_to(ROOT))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


setup(cmdclass={"build_py": BuildWithWorkflow})
