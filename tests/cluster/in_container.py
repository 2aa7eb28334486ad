"""Checkouts whose workflow runs in a container."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.workflow.checkout import Checkout

# A root that lacks capabilities, as in many CI machines, builds images in a user namespace. Users need no such thing.
AS_BUILDER = ["unshare", "-r", "-m"] if os.geteuid() == 0 else []
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
PROGRAMS = Path(__file__).with_name("tiny_programs")
# Tools in between break at these, or execute them.
UNUSUAL = "a b;touch injected;$(touch injected)`touch injected`"


def run(checkout: Checkout, *arguments: str, before: list[str] = [], check: bool = True) -> subprocess.CompletedProcess[str]:  # noqa: B006
    """Run the workflow of a checkout from its working folder, as people do, behind the words `before`."""
    command = [*before, *checkout.command(*arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=checkout.folder)
    assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{checkout.logs()}"
    return done


def measure_program(folder: Path, variant: str, **measurement: int) -> Path:
    """Put the workload of tiny programs into a working folder, and return a configuration that measures one of its variants."""
    shutil.copytree(PROGRAMS, folder / PROGRAMS.name)
    measured = {"device": "cpu", "variants": [variant], "rounds": 1, "profiled": 0, "epochs": 2, **measurement}
    path = folder / "programs.json"
    path.write_text(json.dumps({"case": f"./{PROGRAMS.name}", "results": "results/ci", "measurement": measured}))
    return path


def share_image(source: Checkout, target: Checkout) -> None:
    """Give a checkout's image to another one, without a copy."""
    shutil.copytree(source.folder / "container", target.folder / "container", copy_function=os.link)
