"""The wheel's one particularity: it holds the workflow too, which in a checkout lies where people call it."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED = ["Snakefile", "workflow/rules/*.smk", "workflow/report/*", "slurm/*.yaml", "containers/*"]


class BuildWithWorkflow(build_py):
    """Copies what the workflow consists of into the package, as `speedproof/shipped`."""

    def run(self) -> None:
        """Build the package, then add the workflow."""
        super().run()
        for path in (path for pattern in SHIPPED for path in ROOT.glob(pattern) if path.is_file()):
            target = Path(self.build_lib, "speedproof/shipped", path.relative_to(ROOT))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


setup(cmdclass={"build_py": BuildWithWorkflow})
