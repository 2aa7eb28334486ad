"""The workflow on a real Slurm, `snakemake --profile slurm`, container included; and plain job scripts."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from speedproof.profiling.nsys import export_report, read_capabilities
from speedproof.profiling.nsys_export import convert_export
from speedproof.records.block import read_block
from speedproof.records.doctor import read_diagnosis
from speedproof.records.run import read_epochs, read_run
from speedproof.records.trace import read_table
from tests.cluster.conftest import ENVIRONMENT, UNUSUAL, measure_program, share_image
from tests.workflow.checkout import Checkout, check_out

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("cluster")]

SMALL_JOBS = {"block": {"gpus": 1, "cores": 2, "memory_mib": 4000, "runtime_min": 20}, "analysis": {"memory_mib": 2000}}
# By itself it waits ten seconds longer after each look at its jobs, which are short here.
SNAKEMAKE = """
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

RemoteExecutor.next_seconds_between_status_checks = property(lambda _: 2, lambda *_: None)
main()
"""
QUICK = {"device": "cpu", "repeats": 1, "profiled": 0, "documented": 0}
# Starts without MONAI, seconds sooner. The plain job script trains a side that needs it.
LIGHT = {"precision": "fp32", "kernels": []}


class Cluster:
    """A checkout that is its own working folder, as a user of a cluster has it, with the image there already."""

    def __init__(self, folder: Path, source: Checkout, settings: dict, program: str | None = None) -> None:
        sources = check_out(folder).sources
        self.checkout = Checkout(sources, sources)
        self.folder, self.results = sources, sources / settings.get("results", "results/ci")
        share_image(source, self.checkout)
        self.configuration = ["workflow/config/ci.yaml"]
        if program:
            self.configuration = [measure_program(self.folder, program).name]
        (self.folder / "cluster.yaml").write_text(yaml.safe_dump(settings))

    def skip_doctor(self, source: Checkout) -> None:
        self.results.mkdir(parents=True)
        shutil.copy(source.results / "doctor.json", self.results)
        (self.results / ".doctor-asked").touch()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        profile = ["--profile", "slurm", "--use-singularity", "--configfile", *self.configuration, "cluster.yaml"]
        quick = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10"]
        return subprocess.Popen(
            [sys.executable, "-c", SNAKEMAKE, *profile, *quick, *arguments],
            cwd=self.folder,
            env={**ENVIRONMENT, "NODE_DISK": str(self.disk())},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "said").open("w"),
        )

    def disk(self) -> Path:
        """Return the folder that stands for a node's own disk."""
        folder = self.folder.parent / "disk; $(touch injected)"
        folder.mkdir(exist_ok=True)
        return folder

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def job(self) -> str:
        """Return the id of the first job that was submitted, once it was."""
        wait_until(lambda: "SLURM jobid" in self.said())
        return re.findall(r"SLURM jobid (\d+)", self.said())[0]

    def runs(self, holding: str) -> list[Path]:
        """Return the folders of the first block's runs that hold a file of this name."""
        return sorted(path.parent for path in self.results.glob(f"blocks/block-1/runs/*/{holding}"))

    def trains(self) -> bool:
        """Return whether an epoch of a run has ended."""
        return any("epoch 1/" in (run / "log.txt").read_text() for run in self.runs("log.txt"))


def wait_until(condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def show_job(job: str) -> dict[str, str]:
    """Return what Slurm knows of a job."""
    shown = subprocess.run(["scontrol", "show", "job", "-o", job], capture_output=True, text=True).stdout
    return dict(re.findall(r"(\w+)=(\S*)", shown))


def state_of(job: str) -> str:
    return show_job(job)["JobState"]


def jobs_of(said: str) -> list[dict[str, str]]:
    """Return what Slurm knows of the jobs that a run submitted."""
    return [show_job(job) for job in re.findall(r"SLURM jobid (\d+)", said)]


def blocks_of(cluster: Cluster) -> list[dict[str, str]]:
    return [job for job in jobs_of(cluster.said()) if "rule_block" in job["Comment"]]


def update(job: str, change: str) -> None:
    subprocess.run(["scontrol", "update", f"JobId={job}", change], check=True)


class Scenarios:
    """Workflows on Slurm that have nothing to do with each other, all of them at once: most of their time they wait."""

    def __init__(self, folder: Path, source: Checkout, pool: ThreadPoolExecutor) -> None:
        self.folder, self.source = folder, source
        self._started: dict[str, Future[Cluster]] = {}
        for scenario in (self.cancel, self.measure, self.exceed_time, self.exceed_memory, self.preempt):
            self._started[scenario.__name__] = pool.submit(scenario)

    def __getitem__(self, name: str) -> Cluster:
        return self._started[name].result()

    def measure(self) -> Cluster:
        """Return a side that trains, measured in two blocks and run to its end."""
        title = 'The author\'s "fast" $(touch injected) `touch injected` $HOME \\'
        resources = {**SMALL_JOBS, "scratch": "$NODE_DISK"}
        folders = {"results": f"results of {UNUSUAL}", "data": {"folder": f"../volumes {UNUSUAL}"}}
        measurement = {"blocks": 2, "variants": ["turbo"]}
        variants = {"turbo": {"title": title, **LIGHT}}
        settings = {**folders, "resources": resources, "measurement": measurement, "variants": variants}
        cluster = Cluster(self.folder / UNUSUAL, self.source, settings)
        assert cluster.start().wait() == 0, f"{cluster.said()}\n{cluster.checkout.logs()}"
        return cluster

    def cancel(self) -> Cluster:
        cluster, process = self._start("endless", "cancelled")
        wait_until(cluster.trains)
        subprocess.run(["scancel", cluster.job()], check=True)
        assert process.wait() != 0
        return cluster

    def exceed_time(self) -> Cluster:
        """Return a block whose time was over when its training had begun."""
        cluster, process = self._start("endless", "time", partition="pair")
        wait_until(cluster.trains)
        update(cluster.job(), "EndTime=now+1")
        assert process.wait() != 0
        return cluster

    def exceed_memory(self) -> Cluster:
        cluster, process = self._start("hungry", "memory", partition="pair", memory_mib=400)
        assert process.wait() != 0
        return cluster

    def preempt(self) -> Cluster:
        """Return a block that was preempted in its second run, which had a checkpoint, and then ran to its end."""
        measurement = {**QUICK, "epochs": None, "validate_every": None, "checkpoint_every": 2}
        lengths = {"baseline": {"epochs": 2, "validate_every": 2}, "fast": {"epochs": 40, "validate_every": 10}}
        settings = {"resources": SMALL_JOBS, "measurement": measurement, "variants": lengths}
        cluster = Cluster(self.folder / "preempted", self.source, settings)
        cluster.skip_doctor(self.source)
        process = cluster.start("--until", "block", "--default-resources", "slurm_partition=preemptible")
        wait_until(lambda: list(cluster.results.glob("blocks/block-1/runs/02-*/checkpoints/4")))
        job = cluster.job()
        urgent = ["srun", "--partition=urgent", "--exclusive", "--mem=100", "sleep", "1"]
        subprocess.run(urgent, check=True, capture_output=True, env=ENVIRONMENT)
        wait_until(lambda: state_of(job) == "PENDING")
        update(job, "StartTime=now")  # Slurm waits two minutes by itself
        assert process.wait() == 0, cluster.said()
        return cluster

    def _start(self, program: str, name: str, partition: str = "gpu", **limits: int) -> tuple[Cluster, subprocess.Popen[str]]:
        settings = {"resources": {"block": {**SMALL_JOBS["block"], **limits}}}
        cluster = Cluster(self.folder / name, self.source, settings, program)
        cluster.skip_doctor(self.source)
        return cluster, cluster.start("--until", "block", "--default-resources", f"slurm_partition={partition}")


@pytest.fixture(scope="session")
def scenarios(tmp_path_factory, finished_container, needs_slurm) -> Iterator[Scenarios]:
    with ThreadPoolExecutor() as pool:
        yield Scenarios(tmp_path_factory.mktemp("slurm"), finished_container, pool)


@pytest.fixture(scope="session")
def finished_slurm(scenarios) -> Cluster:
    return scenarios["measure"]


def test_all_is_measured_in_jobs_and_in_the_container(finished_slurm, finished_container):
    assert (finished_slurm.results / "report.html").exists()
    image = json.loads((finished_container.folder / "container/speedproof.json").read_text())["digest"]
    for name in ("block-1", "block-2"):
        conditions = read_block(finished_slurm.results / "blocks" / name).conditions
        assert (conditions.image, conditions.scratch) == (image, True)
    findings = {finding.subject: finding for finding in read_diagnosis(finished_slurm.results).findings}
    assert findings["container"].found == "inside speedproof.sif"
    assert findings["Slurm"].found.startswith("a job")
    assert not list(finished_slurm.folder.parents[1].rglob("injected"))


def test_blocks_have_a_gpu_and_the_node_for_themselves(finished_slurm, scenarios):
    jobs = [*blocks_of(finished_slurm), *blocks_of(scenarios["cancel"])]
    assert [job["JobState"] for job in jobs] == ["COMPLETED", "COMPLETED", "CANCELLED"]
    for job in jobs:
        assert job["NodeList"] == "node1"
        assert job["TresPerJob"] in ("gres:gpu:1", "gres/gpu:1")
        assert job["OverSubscribe"] == "NO"
    times = sorted((datetime.fromisoformat(job["StartTime"]), datetime.fromisoformat(job["EndTime"])) for job in jobs)
    assert all(end <= start for (_, end), (start, _) in pairwise(times))


def test_light_steps_stay_local_and_logs_of_jobs_are_kept(finished_slurm):
    submitted = {job["Comment"].removeprefix("rule_").split("_")[0] for job in jobs_of(finished_slurm.said())}
    assert submitted == {"doctor", "block", "analyze"}
    assert len(list((finished_slurm.folder / ".snakemake/slurm_logs/rule_block").rglob("*.log"))) == 2


def test_a_block_works_on_its_nodes_own_disk_and_leaves_nothing_there(finished_slurm):
    log = (finished_slurm.results / "logs/block-1.log").read_text()
    assert "volumes are read on the node's own disk" in log
    assert len(list(finished_slurm.results.glob("blocks/*/runs/*-profiled/trace/ranges.parquet"))) == 2
    assert list(finished_slurm.disk().iterdir()) == []


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        ("exceed_time", "time limit reached: raise its runtime_min"),
        ("exceed_memory", "out of memory: raise its memory_mib"),
        ("cancel", "cancelled with scancel"),
    ],
)
def test_the_end_of_a_job_has_its_cause_and_leaves_no_block_that_looks_whole(scenarios, ending, cause):
    cluster = scenarios[ending]
    assert f"speedproof: Slurm job {cluster.job()}: {cause}" in cluster.said()
    assert not list(cluster.results.rglob("block.json"))


def test_a_preempted_block_keeps_its_whole_runs_and_goes_on_from_its_checkpoint(scenarios):
    cluster = scenarios["preempt"]
    whole, continued = cluster.runs("run.json")
    assert read_block(cluster.results / "blocks/block-1").kept == [whole.name]
    (part,) = read_run(continued).continued
    assert part.first_epoch > 4
    assert part.reason
    assert read_epochs(continued).epoch.tolist() == list(range(1, 41))


def submit(script: str, cluster: Cluster, options: list[str], *arguments: str, **variables: str) -> str:
    """Submit one of the job scripts, wait for its end and return its log."""
    image = {"IMAGE": "container/speedproof.sif", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    submitted = subprocess.run(
        ["sbatch", "--parsable", "--output=job.log", *options, f"slurm/{script}", *arguments],
        cwd=cluster.folder,
        env={**ENVIRONMENT, **image, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    job = submitted.stdout.strip()
    wait_until(lambda: state_of(job) not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"))  # --wait looks twice a minute
    said = (cluster.folder / "job.log").read_text()
    assert state_of(job) == "COMPLETED", said
    return said


def test_the_plain_job_script_leaves_a_run_its_trace_and_its_analysis(tmp_path, finished_container, needs_slurm):
    ci = yaml.safe_load((Path(__file__).parents[2] / "workflow/config/ci.yaml").read_text())
    cluster = Cluster(tmp_path, finished_container, ci)
    submit("single-job.sbatch", cluster, ["--cpus-per-task=2", "--mem=4G", "--partition=pair"], "baseline", "cluster.yaml")
    (run,) = (cluster.folder / "results/single-job").iterdir()
    assert (run / "report.sqlite").stat().st_size
    assert "epoch" in set(read_table(run / "trace", "ranges")["name"].to_pylist())
    assert (run / "analysis/summary.json").exists()


def test_a_program_runs_on_two_nodes_with_a_trace_of_each(tmp_path, finished_container, needs_slurm):
    cluster = Cluster(tmp_path, finished_container, {})
    shutil.copy(Path(__file__).with_name("all_reduce.py"), cluster.folder)
    options = ["--partition=pair", "--nodes=2", "--mem=3G"]
    said = submit("several-nodes.sbatch", cluster, options, "all_reduce.py", HEAD="127.0.0.1")
    for rank in range(4):  # the nodes are the job's alone, with two GPUs each
        assert f"rank {rank} of 4: {1 + 2 + 3 + 4}" in said
    (traces,) = (cluster.folder / "traces").iterdir()
    for node in (0, 1):
        report = traces / f"rank{node}" / "report.nsys-rep"
        export_report(read_capabilities(), report, report.with_suffix(".sqlite"))
        convert_export(report.with_suffix(".sqlite"), report.with_name("trace"))
        assert read_table(report.with_name("trace"), "ranges")["name"].to_pylist() == ["all reduce"] * 2
