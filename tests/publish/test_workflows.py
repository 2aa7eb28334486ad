"""What GitHub reads: workflows that call our scripts, issue forms, hooks of pre-commit, the citation."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.workflow.checkout import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Hosts of package indexes, by their second-level names, so that this file names none, either.
INDEX_HOSTS = re.compile(r"\b(?:pypi|pythonhosted|anaconda|pypa|npmjs|crates|download\.pytorch)\.(?:org|com|io)\b")


def read_yaml(path):
    # Not YAML 1.1's booleans: GitHub reads the key `on` as a word.
    return {"on" if key is True else key: value for key, value in yaml.safe_load(path.read_text(encoding="utf-8")).items()}


def list_faults(name, document):
    schema = json.loads(Path(__file__).with_name("schemas").joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return [error.message for error in Draft7Validator(schema).iter_errors(document)]


def list_steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_fits_the_schema_of_workflows(path):
    workflow = read_yaml(path)
    assert list_faults("github-workflow", workflow) == []
    job = next(iter(workflow["jobs"].values()))
    assert list_faults("github-workflow", workflow | {"jobs": {"spoilt": job | {"step": []}}})


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_fits_the_schema_of_forms(path):
    form = read_yaml(path)
    assert list_faults("github-issue-forms", form) == []
    assert list_faults("github-issue-forms", form | {"bodies": []})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_steps_of_a_workflow_are_scripts_that_there_are(path):
    """No shell in YAML: each step is `bash SCRIPT STEP...`, of a step that the script knows."""
    runs = [step["run"] for step in list_steps(read_yaml(path)) if "run" in step]
    for run in runs:
        words = run.split()
        script = ROOT / words[1]
        assert words[0] == "bash" and script.is_file() and "${{" not in run
        assert len(words) == 2 or re.search(rf"^{words[2]}\)", script.read_text(encoding="utf-8"), re.MULTILINE), run


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_actions_and_may_read_only(path):
    workflow = read_yaml(path)
    uses = [step["uses"] for step in list_steps(workflow) if "uses" in step]
    assert [action for action in uses if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", action)] == []
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values() if "uses" not in job)


def test_a_fork_tests_each_python_without_root():
    (workflow,) = (read_yaml(path) for path in WORKFLOWS if path.stem == "checks")
    versions = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert f">={versions[0]}" == PROJECT["requires-python"] and versions == ["3.11", "3.12", "3.13", "3.14"]
    assert not any(
        "sudo" in step.get("run", "") or "container" in job for job in workflow["jobs"].values() for step in job["steps"]
    )


def test_what_may_publish_runs_nothing_of_the_repository():
    (workflow,) = (read_yaml(path) for path in WORKFLOWS if path.stem == "release")
    trusted = [job for job in workflow["jobs"].values() if "id-token" in job.get("permissions", {})]
    assert len(trusted) == 1 and {"checks", "build"} == {*trusted[0]["needs"]}
    assert not any("run" in step or "checkout" in step["uses"] for step in trusted[0]["steps"])


def test_the_hooks_of_pre_commit_are_what_make_lint_runs():
    hooks = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    lint = subprocess.run(
        ["make", "-n", "-s", "lint", "-o", ".venv/.installed"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [hook["entry"] for hook in hooks] == lint.stdout.splitlines()


def test_the_citation_is_of_the_newest_version():
    citation = read_yaml(ROOT / "CITATION.cff")
    newest = re.search(r"^## \[(\d.*?)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert (citation["version"], str(citation["date-released"])) == newest.groups() == (PROJECT["version"], newest[2])
    assert citation["title"].lower() == f"{PROJECT['name']}: {PROJECT['description']}".lower()
    assert citation["license"] == PROJECT["license"]


def test_no_file_names_a_host_of_a_package_index():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [
        ROOT / name for name in listed.stdout.split("\0") if name and not name.endswith((".zip", ".webp", ".gz", ".parquet"))
    ]
    assert len(paths) > 500
    naming = [
        path for path in paths if path.is_file() and INDEX_HOSTS.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert naming == []
