"""A login node has Snakemake and a few light packages; torch and MONAI come with the image."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_workflow_is_read_and_an_image_built_without_torch():
    imports = re.findall(r"^from (speedproof\S*) import", (ROOT / "workflow/rules/common.smk").read_text(), re.MULTILINE)
    program = f"import sys, speedproof.cli, {', '.join(imports)}; print(*sorted(name.split('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT / "workflow")
    assert {"pydantic", "typer"} <= set(loaded.stdout.split())
    assert not {"torch", "monai", "nibabel", "scipy", "matplotlib", "psutil", "pynvml"} & set(loaded.stdout.split())
