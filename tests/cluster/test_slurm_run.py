"""The workflow on a real Slurm, `snakemake --profile slurm`, container included; and plain job scripts."""

import json
from datetime import datetime
from itertools import pairwise

import pytest

from speedproof.profilers.nsys import export_report, read_capabilities
from speedproof.profilers.nsys_export import convert_export
from speedproof.results.diagnosis import read_diagnosis
from speedproof.results.experiment import read_experiment
from speedproof.results.folder import read_results
from speedproof.results.run_record import read_epochs, read_run
from speedproof.results.trace_tables import TRACE_FILE, read_table
from tests.cluster.scenarios import Cluster, Scenarios, experiments_of, jobs_of

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("cluster"), pytest.mark.usefixtures("needs_slurm")]


@pytest.fixture
def finished_slurm(scenarios: Scenarios) -> Cluster:
    return scenarios["measure"]


def test_all_is_measured_in_jobs_and_in_the_container(finished_slurm, finished_container):
    assert (finished_slurm.results / "report.html").exists()
    image = json.loads((finished_container.folder / "container/speedproof.json").read_text())["digest"]
    for name in ("experiment-1", "experiment-2"):
        conditions = read_experiment(finished_slurm.results / "experiments" / name).conditions
        assert (conditions.image, conditions.scratch) == (image, True)
    findings = {finding.subject: finding for finding in read_diagnosis(finished_slurm.results).findings}
    assert findings["container"].found == "inside speedproof.sif"
    assert findings["Slurm"].found.startswith("a job")
    assert not list(finished_slurm.folder.parents[1].rglob("injected"))


def test_experiments_have_a_gpu_and_the_node_for_themselves(finished_slurm, scenarios):
    jobs = [*experiments_of(finished_slurm), *experiments_of(scenarios["cancel"])]
    assert [job["JobState"] for job in jobs] == ["COMPLETED", "COMPLETED", "CANCELLED"]
    for job in jobs:
        assert job["NodeList"] == "node1"
        assert job["TresPerJob"] in ("gres:gpu:1", "gres/gpu:1")
        assert job["OverSubscribe"] == "NO"
    times = sorted((datetime.fromisoformat(job["StartTime"]), datetime.fromisoformat(job["EndTime"])) for job in jobs)
    assert all(end <= start for (_, end), (start, _) in pairwise(times))


def test_light_steps_stay_local_and_logs_of_jobs_are_kept(finished_slurm):
    submitted = {job["Comment"].removeprefix("rule_").split("_")[0] for job in jobs_of(finished_slurm.said())}
    assert submitted == {"doctor", "experiment", "analyze"}
    assert len(list((finished_slurm.folder / ".snakemake/slurm_logs/rule_experiment").rglob("*.log"))) == 2


def test_an_experiment_works_on_its_nodes_own_disk_and_leaves_nothing_there(finished_slurm):
    log = (finished_slurm.results / "logs/experiment-1.log").read_text()
    assert "volumes are read on the node's own disk" in log
    assert len(list(finished_slurm.results.glob("experiments/*/runs/*-profiled/trace/ranges.parquet"))) == 2
    assert list(finished_slurm.disk().iterdir()) == []


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        ("exceed_time", "time limit reached: raise its runtime_min"),
        ("exceed_memory", "out of memory: raise its memory_mib"),
        ("cancel", "cancelled with scancel"),
    ],
)
def test_the_end_of_a_job_has_its_cause_and_leaves_no_experiment_that_looks_whole(scenarios, ending, cause):
    cluster = scenarios[ending]
    assert f"speedproof: Slurm job {cluster.job()}: {cause}" in cluster.said()
    assert not list(cluster.results.rglob("experiment.json"))


def test_a_preempted_experiment_keeps_its_whole_runs_and_goes_on_from_its_checkpoint(scenarios):
    cluster = scenarios["preempt"]
    whole, continued = cluster.runs("run.json")
    assert read_experiment(cluster.results / "experiments/experiment-1").kept == [whole.name]
    (part,) = read_run(continued).continued
    assert part.first_epoch > 4
    assert part.reason
    assert read_epochs(continued).epoch.tolist() == list(range(1, 41))


def test_the_plain_job_script_leaves_a_run_its_trace_and_its_analysis(scenarios):
    (run,) = (scenarios["submit_job"].folder / "results/single-job").iterdir()
    assert (run / "report.sqlite").stat().st_size
    assert "epoch" in set(read_table(run / "trace", "ranges")["name"].to_pylist())
    assert (run / "analysis/summary.json").exists()


@pytest.mark.timed  # on a busy machine nsys may lose its own agent: "most likely a bug", it says
def test_a_program_runs_on_two_nodes_with_a_trace_of_each(scenarios):
    cluster = scenarios["submit_on_two_nodes"]
    said = (cluster.folder / "job.log").read_text()
    for rank in range(4):  # the nodes are the job's alone, with two GPUs each
        assert f"rank {rank} of 4: {1 + 2 + 3 + 4}" in said
    (traces,) = (cluster.folder / "traces").iterdir()
    for node in (0, 1):
        report = traces / f"rank{node}" / "report.nsys-rep"
        export_report(read_capabilities(), report, report.with_suffix(".sqlite"))
        convert_export(report.with_suffix(".sqlite"), report.with_name("trace"))
        assert read_table(report.with_name("trace"), "ranges")["name"].to_pylist() == ["all reduce"] * 2


def test_a_variant_on_two_nodes_leaves_a_trace_a_rank(scenarios):
    cluster = scenarios["train_on_two_nodes"]
    (experiment,) = [job for job in jobs_of(cluster.said()) if "rule_experiment" in job["Comment"]]
    assert (experiment["NumNodes"], experiment["JobState"]) == ("2", "COMPLETED")
    timed, profiled = read_results(cluster.results).runs
    assert (timed.run.ranks, timed.run.outcome) == (2, "completed")
    assert all((trace / TRACE_FILE).exists() for trace in profiled.traces)
    assert profiled.ranks is not None and len(profiled.ranks.ranks) == 2
    assert read_experiment(cluster.results / "experiments/experiment-1").conditions.image  # measured in the container
