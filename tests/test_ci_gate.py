"""The pipelines of docs/ci-gate.md: what they call exists, and inputs and options are those that there are."""

import re
import shlex
import subprocess

import pytest
import yaml
from typer.main import get_command

from speedproof.cli.application import app
from tests.workflow.checkout import ROOT

HUB, LAB = (
    yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/ci-gate.md").read_text(), re.M | re.S)
)
OPTIONS = {name for parameter in get_command(app).commands["gate"].params for name in parameter.opts}
STATUSES = [0, 1, 2, 3, 130]


def list_options(words):
    own = words[: words.index("--")] if "--" in words else words
    return {word for word in own if word.startswith("--")}


def test_the_workflow_gives_inputs_that_the_action_has():
    (gate,) = (step for step in HUB["jobs"]["speed"]["steps"] if step.get("id") == "gate")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert gate["with"].keys() <= action["inputs"].keys()
    assert {name for name, one in action["inputs"].items() if one.get("required")} <= gate["with"].keys()
    assert list_options(shlex.split(gate["with"]["options"])) <= OPTIONS
    (upload,) = (step for step in HUB["jobs"]["speed"]["steps"] if "upload-artifact" in step.get("uses", ""))
    assert upload["with"]["path"] == "${{ steps.gate.outputs.report }}"
    assert "report" in action["outputs"]


@pytest.mark.parametrize("status", STATUSES)
def test_the_gitlab_job_ends_as_the_gate_does_and_may_fail_with_what_is_open_only(tmp_path, status):
    stand_in = tmp_path / "speedproof"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/asked\nexit {status}\n')
    stand_in.chmod(0o755)
    (gating,) = (line for line in LAB["speed"]["script"] if " gate " in line)
    values = {"PATH": "/usr/bin:/bin", "CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc"}
    done = subprocess.run(["bash", "-e", "-c", re.sub(r"^\S+", str(stand_in), gating)], env=values)
    assert done.returncode == status
    assert LAB["speed"]["allow_failure"] == {"exit_codes": 2}
    words = (tmp_path / "asked").read_text().splitlines()
    assert (words[:3], words[-2:]) == (["gate", "--base", "abc"], ["--", "python train.py"])
    assert list_options(words) <= OPTIONS
