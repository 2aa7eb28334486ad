"""One whole proof from a wheel in an empty folder: of programs that tell nothing but that they end."""

import json
import os
import subprocess
import sys

import pytest

from tests.workflow.checkout import ROOT


@pytest.mark.whole
@pytest.mark.dear
def test_two_commands_are_proven_from_a_wheel_in_an_empty_folder(tmp_path):
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    source = tmp_path / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard", "--", "Snakefile", "setup.py", "pyproject.toml", "README.md",
         "LICENSE", "src", "workflow", "slurm", "containers"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in tracked.split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", site, source]
    subprocess.run(install, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def prove(*words):
        command = [sys.executable, "-m", "speedproof", "prove", *words]
        return subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True)

    done = prove("sleep 1.2", "sleep 0.2", "--rounds", "4", "--claim", ">= 1.2", "--json", "--out", "out")
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    # On a machine that is busy with something else nothing may be shown of even these two.
    assert done.returncode == {"claim holds": 0, "inconclusive": 2}[verdict["outcome"]] == verdict["exit_status"], done.stderr
    assert (verdict["metric"], verdict["source"]) == ("process_s", "process")
    assert 1 < verdict["candidates"][0]["ratio"] < 6
    assert "round 4 of 4" in done.stderr
    assert sorted(path.name for path in empty.iterdir()) == ["out"]
    report = (empty / "out/results/report.md").read_text()
    assert "hole process: " in report and "B (sleep 0.2)" in report
    done = prove("sleep 0.02", "sleep 1.5", "--rounds", "4", "--claim", ">= 1.2", "--out", "fails")
    assert (done.returncode, done.stdout.partition(":")[0]) == (1, "Claim fails, '>= 1.2'"), done.stderr
    done = prove("slep 1.2", "sleep 0.2", "--out", "mistyped")
    assert (done.returncode, done.stdout) == (3, "") and "slep: no such program on your PATH" in done.stderr
