from pathlib import Path

import pytest
import yaml

from speedproof.cluster.slurm import request_resources
from speedproof.config.job_resources import JobResources, Resources
from speedproof_spleen.config import check_config

ROOT = Path(__file__).parents[2]


def test_an_experiment_asks_for_its_node_alone():
    asked = JobResources(gpus=1, gpu_model="a100", cores=16, memory_mib=65536, runtime_min=240)
    assert request_resources(asked, exclusive=True) == {
        "cpus_per_task": 16,
        "mem_mb": 65536,
        "runtime": 240,
        "gpu": 1,
        "gpu_model": "a100",
        "slurm_extra": "--exclusive",
    }


@pytest.mark.parametrize(("asked", "requested"), [(1, 4), (8, 8), (0, 0)])
def test_an_experiment_asks_for_the_gpus_of_its_widest_variant_unless_for_none(asked, requested):
    values = yaml.safe_load((ROOT / "config.yaml").read_text())
    values["variants"]["four"] = {"extends": "fast", "gpus": 4}
    values["variants"]["sixteen"] = {"extends": "fast", "gpus": 16}  # not measured
    values["measurement"]["variants"] = ["fast", "four"]
    values["resources"]["experiment"]["gpus"] = asked
    assert check_config(values).experiment_resources().gpus == requested


def test_an_analysis_asks_for_no_gpu():
    assert request_resources(JobResources(cores=2, gpu_model="a100")) == {"cpus_per_task": 2, "mem_mb": 4096, "runtime": 30}


def test_the_doctor_asks_for_what_experiments_ask_for_but_briefly():
    resources = Resources()
    assert resources.doctor().gpus == resources.experiment.gpus
    assert resources.doctor().runtime_min == 10


def test_the_profile_keeps_logs_requeues_and_needs_no_accounting():
    profile = yaml.safe_load((ROOT / "slurm/config.yaml").read_text())
    assert profile["executor"] == "slurm"
    assert profile["slurm-status-command"] == "squeue"
    assert profile["slurm-keep-successful-logs"]
    assert profile["slurm-requeue"]
    assert profile["slurm-pass-command-as-script"]
