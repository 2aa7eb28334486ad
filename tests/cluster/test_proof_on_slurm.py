"""A proof whose jobs a real Slurm runs."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.workflow.checkout import ROOT


@pytest.mark.whole
def test_warm_up_and_rounds_are_jobs_of_a_cluster(tmp_path, needs_slurm):
    profile = yaml.safe_load((ROOT / "slurm/config.yaml").read_text())
    profile |= {"slurm-init-seconds-before-status-checks": 2, "latency-wait": 10}
    (tmp_path / "quick").mkdir()
    (tmp_path / "quick/config.yaml").write_text(yaml.safe_dump(profile))
    asked = {
        "commands": ["sh where.sh 0.6", "sh where.sh 0.1"], "rounds": 4, "device": "cpu", "profile": "quick",
        "job": {"cores": 1, "memory_mib": 2000, "runtime_min": 10},
    }  # fmt: skip
    (tmp_path / "proof.yaml").write_text(yaml.safe_dump(asked))
    (tmp_path / "where.sh").write_text("sleep $1; echo job $SLURM_JOB_ID\n")
    words = [sys.executable, "-m", "speedproof", "prove", "proof.yaml", "--json", "--out", "out"]
    done = subprocess.run(words, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True)
    assert done.returncode in (0, 2), done.stderr  # a machine that is busy may show nothing
    assert json.loads(done.stdout)["candidates"][0]["ratio"] > 1
    logs = [tmp_path / "out/warm-up/a.txt", *(tmp_path / "out/results/experiments/experiment-1/runs").glob("*/log.txt")]
    jobs = [re.fullmatch(r"job (\d+)\n", path.read_text()) for path in logs]
    assert len(jobs) == 9 and all(jobs)
    assert len({found[1] for found in jobs if found}) == 2  # the warm-up is one, all rounds are another
