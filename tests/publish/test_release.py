"""A release, up to publishing: the scripts build it, check it, and prove two commands with what was built."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email import message_from_bytes

import pytest

from tests.workflow.checkout import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
HOME = "https://host.example/someone/speedproof"


def release(*words, **values):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    command = ["bash", ".ci/release.sh", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=keep | values, capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source distribution and the wheel, as on GitHub."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    done = release("build", folder, GITHUB_SERVER_URL="https://host.example", GITHUB_REPOSITORY="someone/speedproof")
    assert done.returncode == 0, done.stderr
    return folder


def test_the_wheel_built_from_the_source_distribution_has_the_workflow(built):
    with tarfile.open(built / f"speedproof-{VERSION}.tar.gz") as source:
        tops = {name.split("/")[1] for name in source.getnames() if "/" in name}
    assert {"Snakefile", "workflow", "slurm", "containers", "src", "LICENSE"} <= tops and not {"records", "tests"} & tops
    with zipfile.ZipFile(built / f"speedproof-{VERSION}-py3-none-any.whl") as wheel:
        shipped = {name.partition("/shipped/")[2] for name in wheel.namelist()}
    assert {"Snakefile", "workflow/rules/experiment.smk", "slurm/config.yaml", "containers/install.py"} <= shipped


def test_no_wheel_is_built_without_the_workflow(tmp_path):
    (tmp_path / "setup.py").write_bytes((ROOT / "setup.py").read_bytes())
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "speedproof"\nversion = "1"\n')
    done = subprocess.run([sys.executable, "setup.py", "-q", "build_py"], cwd=tmp_path, capture_output=True, text=True)
    patterns = "Snakefile, workflow/rules/*.smk, workflow/report/*, slurm/*.yaml, containers/*"
    assert done.returncode == 1
    assert done.stderr.endswith(f"{tmp_path}: no {patterns}: build from a whole checkout or source distribution\n")


def test_the_page_of_an_index_has_no_relative_link(built):
    with zipfile.ZipFile(built / f"speedproof-{VERSION}-py3-none-any.whl") as wheel:
        metadata = message_from_bytes(wheel.read(f"speedproof-{VERSION}.dist-info/METADATA"))
    text = str(metadata.get_payload(decode=False))
    assert (metadata["Description-Content-Type"], metadata["License-Expression"]) == ("text/markdown", "Apache-2.0")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 20 and [link for link in links if not link.startswith("https://")] == []
    assert f"{HOME}/raw/v{VERSION}/docs/terminal.svg" in links and f"{HOME}/blob/v{VERSION}/docs/checks.md" in links


def test_a_tag_of_another_version_is_refused(tmp_path):
    done = release("build", tmp_path / "dist", TAG="v9.9.9")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"pyproject.toml: version {VERSION}, but the tag is v9.9.9; make them agree\n"


def test_twine_accepts_them_or_says_that_it_did_not_check(built):
    done = release("check", built)
    assert done.returncode in (0, 3), done.stderr
    assert "PASSED" in done.stdout if done.returncode == 0 else "not checked: twine" in done.stdout


@pytest.mark.whole
@pytest.mark.dear
def test_two_commands_are_proven_by_what_was_built_in_a_clean_environment(built):
    packages = sysconfig.get_path("purelib")
    done = release("try", built, PACKAGES=packages, PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    # On a machine that is busy with something else nothing may be shown of even these two.
    sentences = re.findall(r"^(Claim holds|Inconclusive).*: B \(sleep 0\.1\) ", done.stdout, re.MULTILINE)
    assert len(sentences) == 2, done.stdout
    assert done.stderr.count("round 4 of 4: A / B") == 2
    assert "by the wall time of the whole process" in " ".join(done.stdout.split())


def test_the_image_is_pushed_by_its_version_in_lower_case(tmp_path):
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n[ "$1" != login ] || cat >>{tmp_path}/asked\n')
    (tmp_path / "docker").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = release("image", "host.example/Some/Speedproof", PATH=path, GITHUB_ACTOR="someone", GITHUB_TOKEN="t0ken")
    assert done.returncode == 0, done.stderr
    name = f"host.example/some/speedproof:{VERSION}"
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"build --tag {name} containers",
        "login host.example --username someone --password-stdin",
        "t0ken",
        f"push {name}",
    ]
