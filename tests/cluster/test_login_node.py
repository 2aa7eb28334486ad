"""A login node has Snakemake and a few light packages; torch and MONAI come with the image."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.workflow.checkout import check_out

ROOT = Path(__file__).parents[2]


def test_the_workflow_is_read_planned_and_an_image_built_without_torch():
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    imports = re.findall(r"^ *from (speedproof\S*) import", rules, re.MULTILINE)
    assert {"speedproof.cluster.folder_names", "speedproof.run.archive.cost"} <= set(imports)
    modules = ", ".join(["sys", "speedproof.cli.application", *imports])
    program = f"import {modules}; print(*sorted(name.split('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert {"pydantic", "typer"} <= set(loaded.stdout.split())
    assert not {"torch", "monai", "nibabel", "scipy", "matplotlib", "seaborn", "psutil", "pynvml"} & set(loaded.stdout.split())


def test_the_documented_command_plans_all_steps_from_the_checkout_alone(tmp_path, apptainer_to_plan_with):
    checkout = check_out(tmp_path).sources
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "--dry-run"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=checkout, env=environment)
    table = dict(re.findall(r"^(\w+) +(\d+)$", said.stdout + said.stderr, re.MULTILINE))
    # config.yaml profiles each of two variants twice, in one experiment.
    steps = {"image": 1, "data": 1, "doctor": 1, "experiment": 1, "analyze": 4, "compare": 1, "report": 1, "all": 1}
    assert table == {name: str(count) for name, count in steps.items()} | {"total": "11"}
    assert not (checkout / "container").exists()
