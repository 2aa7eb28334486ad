"""The pipelines of docs/ci-gate.md: their steps run as they stand there, with a stand-in for `speedproof`."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from speedproof.cli.application import app
from tests.workflow.checkout import ROOT

HUB, LAB = (
    yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/ci-gate.md").read_text(), re.M | re.S)
)
STATUSES = [0, 1, 2, 3, 130]


@pytest.fixture
def checkout(tmp_path):
    """A repository whose target branch says "before" and whose working folder "after", and a stand-in for the program."""
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin/speedproof"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/asked\nexit "$STATUS"\n')
    stand_in.chmod(0o755)
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "train.py").write_text("print('before')\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "."],
        [*identity, "commit", "-qm", "a"],
        ["update-ref", "refs/remotes/origin/main", "HEAD"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "train.py").write_text("print('after')\n")
    return folder


def run(folder: Path, lines: str, status: int) -> int:
    """Run lines as a pipeline's shell does, which ends at the first failure, and return its exit status."""
    beside = folder.parent
    values = {"RUNNER_TEMP": str(beside), "GITHUB_BASE_REF": "main", "STATUS": str(status), "PATH": "/usr/bin:/bin"}
    return subprocess.run(["bash", "-e", "-c", lines], cwd=folder, env=values, stdout=subprocess.DEVNULL).returncode


def find_lines(lines: list[str], word: str) -> str:
    return "\n".join(line for line in lines if word in line)


def judge_asked(folder: Path) -> None:
    words = (folder.parent / "asked").read_text().splitlines()
    options = {name for parameter in get_command(app).commands["prove"].params for name in parameter.opts}
    assert words[:3] == ["prove", "python base/train.py", "python train.py"]
    assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("status", STATUSES)
def test_the_actions_stop_what_fails_and_warn_of_what_is_open(checkout, status):
    steps = [step["run"] for step in HUB["jobs"]["speed"]["steps"] if "run" in step]
    assert run(checkout, find_lines(steps[0].splitlines(), "git archive"), 0) == 0
    assert (checkout / "base/train.py").read_text() == "print('before')\n"

    proving = steps[1].replace("proof/bin/speedproof", "bin/speedproof")
    assert run(checkout, proving, status) == (0 if status == 2 else status)
    judge_asked(checkout)


@pytest.mark.parametrize("status", STATUSES)
def test_the_gitlab_job_ends_as_the_proof_does_and_may_fail_with_what_is_open_only(checkout, status):
    (proving,) = (line for line in LAB["speed"]["script"] if " prove " in line)
    assert run(checkout, re.sub(r"^\S+", str(checkout.parent / "bin/speedproof"), proving), status) == status
    assert LAB["speed"]["allow_failure"] == {"exit_codes": 2}
    judge_asked(checkout)
