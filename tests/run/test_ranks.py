"""Runs of several processes: the words in front of their command, and a whole experiment of one, analysed and reported."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from speedproof.cluster.nodes import Node
from speedproof.cluster.torchrun import rank_variables, torchrun_command
from speedproof.config.profiling import Profiling
from speedproof.profilers.nsys import REPORT_FILE, Capabilities
from speedproof.results.evidence_archive import is_there
from speedproof.results.experiment import read_experiment
from speedproof.results.folder import read_results
from speedproof.results.trace_results import read_ranks_summary
from speedproof.results.trace_tables import TRACE_FILE, read_table
from speedproof.run.archive.rebuild import rebuild_results
from speedproof.run.archive.record import write_record
from speedproof.run.nsys_runs import traced_command
from speedproof.run.run_experiment import run_experiment
from speedproof.util.errors import TrainingError
from speedproof_spleen.config import check_config, load_config
from speedproof_spleen.training.conditions import choose_device
from tests.run.jobs import QUICK, make_job

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "workloads/spleen/claims.yaml"
NSYS = Capabilities("nsys", "2025.3.1", frozenset({"--sample", "--cpuctxsw", "--force-overwrite"}))


def on(gpus):
    values = load_config(ROOT / "config.yaml").model_dump(mode="json")
    values["variants"]["wide"] = values["variants"]["fast"] | {"gpus": gpus}
    return check_config(values).completed_variants["wide"]


def test_one_process_is_started_as_ever():
    assert torchrun_command(on(1), Node(), 1) == []
    assert rank_variables(on(1), 16, {}) == {}
    assert "--output=/runs/01/report" in traced_command(Path("/runs/01"), NSYS, Profiling(), 1)


def test_a_process_a_gpu_is_started_each_under_its_own_profiler():
    traced = traced_command(Path("/my runs/01"), NSYS, Profiling(), 8)
    command = [*torchrun_command(on(8), Node(), 1), *traced]
    print(shlex.join(command))
    assert shlex.join(command) == (
        f"{shlex.quote(sys.executable)} -P -m torch.distributed.run --standalone --local-addr=localhost"
        " --nproc-per-node=8 --log-dir=/dev/null --no-python"
        " nsys profile --force-overwrite=true --sample=none --cpuctxsw=none --trace=cuda,nvtx"
        " '--output=/my runs/01/rank%q{RANK}/report'"
    )


def test_processes_share_the_cores_unless_told_otherwise():
    assert rank_variables(on(2), 16, {})["OMP_NUM_THREADS"] == "8"
    assert rank_variables(on(8), 4, {})["OMP_NUM_THREADS"] == "1"
    assert rank_variables(on(2), 16, {"OMP_NUM_THREADS": "3"})["OMP_NUM_THREADS"] == "3"


def test_more_gpus_than_there_are_is_one_line_before_anything_runs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(TrainingError, match="on 2 GPUs, but torch sees 1;") as caught:
        choose_device("auto", gpus=2)
    assert "\n" not in str(caught.value)
    assert choose_device("cpu", gpus=2) == torch.device("cpu")  # processes of a processor are as many as one likes


def job_of_two_ranks(folder, backend, **measurement):
    two = {"two": QUICK | {"title": "Two ranks", "gpus": 2, "batch_size": 4}}
    return make_job(folder, {"backend": backend, "keep_reports": True}, two, variants=["two"], **measurement)


@pytest.mark.xdist_group("ranks")
def test_each_rank_runs_under_an_nsys_of_its_own_which_may_write_on_the_nodes_disk(tmp_path, needs_nsys):
    job, conditions = job_of_two_ranks(tmp_path, "nsys", rounds=0)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (run,) = run_experiment(replace(job, profiles=scratch), conditions).runs
    for rank in range(2):
        place = job.folder / "runs" / run / f"rank{rank}"
        assert (place / REPORT_FILE).stat().st_size
        assert (place / REPORT_FILE).stat().st_mode & 0o777 == (place / "report.sqlite").stat().st_mode & 0o777 == 0o600
        ranges = read_table(place / "trace", "ranges")["name"].to_pylist()
        assert ranges.count("epoch") == 2  # one process' alone
    assert list(scratch.iterdir()) == []


@pytest.mark.xdist_group("ranks")
@pytest.mark.dear
def test_an_experiment_of_two_ranks_is_recorded_analysed_and_reported(tmp_path):
    job, conditions = job_of_two_ranks(tmp_path, "kineto")
    results = tmp_path / "results"
    experiment = run_experiment(job, conditions)
    assert {
        "runs/02-two-profiled/rank1/trace/ranges.parquet",
        "runs/01-two-timed/rank1/epochs.csv",
    } <= experiment.digests.keys()
    assert experiment.data["source"] == "phantom" and not {"folder", "local_folder"} & experiment.data.keys()
    rebuild_results(results, CLAIMS)

    timed, profiled = read_results(results).runs
    assert (timed.run.ranks, timed.run.outcome, timed.ranks) == (2, "completed", None)
    assert all((trace / TRACE_FILE).exists() for trace in profiled.traces)
    assert profiled.ranks is not None and profiled.summary is not None
    assert profiled.ranks == read_ranks_summary(results / "analysis/experiment-1" / profiled.name)
    assert (len(profiled.ranks.ranks), profiled.ranks.profiler) == (2, "kineto")
    assert {wait.step for wait in profiled.ranks.waits} == {1}
    report = (results / "report.md").read_text(encoding="utf-8")
    assert "<b>Several GPUs</b>" in report and "no GPU communication in this trace" in report

    kept = run_experiment(job, conditions).kept
    assert kept == experiment.runs
    write_record([results], CLAIMS, tmp_path / "records" / "two")
    assert read_experiment(tmp_path / "records/two/experiments/experiment-1").runs == experiment.runs
    assert is_there(tmp_path / "records/two/experiments/experiment-1/runs/01-two-timed/rank1/log.txt")
