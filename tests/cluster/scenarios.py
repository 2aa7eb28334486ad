"""What runs on a real Slurm: workflows and jobs that have nothing to do with each other, all at once since they mostly wait."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import yaml

from tests.cluster.in_container import ENVIRONMENT, UNUSUAL, measure_program, share_image
from tests.workflow.checkout import ROOT, Checkout, check_out

SMALL_JOBS = {"experiment": {"gpus": 1, "cores": 2, "memory_mib": 4000, "runtime_min": 20}, "analysis": {"memory_mib": 2000}}
# By itself it waits ten seconds longer after each look at its jobs, which are short here.
SNAKEMAKE = """
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

RemoteExecutor.next_seconds_between_status_checks = property(lambda _: 2, lambda *_: None)
main()
"""
QUICK = {"device": "cpu", "rounds": 1, "profiled": 0, "documented": 0}
# Starts without MONAI, seconds sooner. The plain job script trains a variant that needs it.
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
            env={**ENVIRONMENT, "NODE_DISK": str(self.disk()), "TMPDIR": str(self.temporary())},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "said").open("w"),
        )

    def disk(self) -> Path:
        """Return the folder that stands for a node's own disk."""
        folder = self.folder.parent / "disk; $(touch injected)"
        folder.mkdir(exist_ok=True)
        return folder

    def temporary(self) -> Path:
        """Return the temporary folder of its jobs, some of which are killed."""
        folder = self.folder.parent / f"{self.folder.name}-tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def job(self) -> str:
        """Return the id of the first job that was submitted, once it was."""
        wait_until(lambda: "SLURM jobid" in self.said())
        return re.findall(r"SLURM jobid (\d+)", self.said())[0]

    def runs(self, holding: str) -> list[Path]:
        """Return the folders of the first experiment's runs that hold a file of this name."""
        return sorted(path.parent for path in self.results.glob(f"experiments/experiment-1/runs/*/{holding}"))

    def trains(self) -> bool:
        """Return whether an epoch of a run has ended."""
        return any("epoch 1/" in (run / "log.txt").read_text() for run in self.runs("log.txt"))


def wait_until(condition, seconds=600):
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


def experiments_of(cluster: Cluster) -> list[dict[str, str]]:
    return [job for job in jobs_of(cluster.said()) if "rule_experiment" in job["Comment"]]


def update(job: str, change: str) -> None:
    subprocess.run(["scontrol", "update", f"JobId={job}", change], check=True)


def submit(script: str, cluster: Cluster, options: list[str], *arguments: str, **variables: str) -> None:
    """Submit one of the job scripts, and wait for its end; its log is job.log."""
    image = {"IMAGE": "container/speedproof.sif", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    submitted = subprocess.run(
        ["sbatch", "--parsable", "--output=job.log", *options, f"slurm/{script}", *arguments],
        cwd=cluster.folder,
        env={**ENVIRONMENT, "TMPDIR": str(cluster.temporary()), **image, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    job = submitted.stdout.strip()
    wait_until(lambda: state_of(job) not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"))  # --wait looks twice a minute
    assert state_of(job) == "COMPLETED", (cluster.folder / "job.log").read_text()


class Scenarios:
    """What runs on Slurm, begun at once with the image and the doctor's findings of a checkout; a name waits for its end."""

    def __init__(self, folder: Path, source: Checkout) -> None:
        self.folder, self.source = folder, source
        self._started: dict[str, Future[Cluster]] = {}

    def start(self, pool: ThreadPoolExecutor) -> None:
        """Begin all of them: `pool` has a thread for each."""
        for scenario in self.all():
            self._started[scenario.__name__] = pool.submit(scenario)

    def all(self) -> list[Callable[[], Cluster]]:
        workflows = [self.cancel, self.measure, self.exceed_time, self.exceed_memory, self.preempt, self.train_on_two_nodes]
        return [*workflows, self.submit_job, self.submit_on_two_nodes]

    def __getitem__(self, name: str) -> Cluster:
        return self._started[name].result()

    def measure(self) -> Cluster:
        """Return a variant that trains, measured in two experiments and run to its end."""
        title = 'The author\'s "fast" $(touch injected) `touch injected` $HOME \\'
        resources = {**SMALL_JOBS, "scratch": "$NODE_DISK"}
        folders = {"results": f"results of {UNUSUAL}", "data": {"folder": f"../volumes {UNUSUAL}"}}
        measurement = {"experiments": 2, "variants": ["turbo"]}
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
        """Return an experiment whose time was over when its training had begun."""
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
        """Return an experiment that was preempted in its second run, which had a checkpoint, and then ran to its end."""
        measurement = {**QUICK, "epochs": None, "validate_every": None, "checkpoint_every": 2}
        lengths = {"baseline": {"epochs": 2, "validate_every": 2}, "fast": {"epochs": 40, "validate_every": 10}}
        settings = {"resources": SMALL_JOBS, "measurement": measurement, "variants": lengths}
        cluster = Cluster(self.folder / "preempted", self.source, settings)
        cluster.skip_doctor(self.source)
        process = cluster.start("--until", "experiment", "--default-resources", "slurm_partition=preemptible")
        wait_until(lambda: list(cluster.results.glob("experiments/experiment-1/runs/02-*/checkpoints/4")))
        job = cluster.job()
        urgent = ["srun", "--partition=urgent", "--exclusive", "--mem=100", "sleep", "1"]
        subprocess.run(urgent, check=True, capture_output=True, env=ENVIRONMENT)
        wait_until(lambda: state_of(job) == "PENDING")
        update(job, "StartTime=now")  # Slurm waits two minutes by itself
        assert process.wait() == 0, cluster.said()
        return cluster

    def train_on_two_nodes(self) -> Cluster:
        wide = {"extends": "turbo", **LIGHT, "batch_size": 4, "title": "Two nodes", "nodes": 2, "gpus": 1}
        measurement = {"variants": ["wide"], "device": "cpu", "rounds": 1, "profiled": 1, "documented": 0}
        settings = {"resources": SMALL_JOBS, "measurement": measurement, "variants": {"wide": wide}}
        cluster = Cluster(self.folder / "wide", self.source, settings)
        cluster.skip_doctor(self.source)
        started = cluster.start("--until", "ranks", "--default-resources", "slurm_partition=pair")
        assert started.wait() == 0, f"{cluster.said()}\n{cluster.checkout.logs()}"
        return cluster

    def submit_job(self) -> Cluster:
        """Return where the plain script of one job has run."""
        ci = yaml.safe_load((ROOT / "workflow/config/ci.yaml").read_text())
        cluster = Cluster(self.folder / "job", self.source, ci)
        submit("single-job.sbatch", cluster, ["--cpus-per-task=2", "--mem=4G", "--partition=pair"], "baseline", "cluster.yaml")
        return cluster

    def submit_on_two_nodes(self) -> Cluster:
        """Return where the plain script of two nodes has run a program that knows of nothing."""
        cluster = Cluster(self.folder / "nodes", self.source, {})
        shutil.copy(Path(__file__).with_name("all_reduce.py"), cluster.folder)
        options = ["--partition=pair", "--nodes=2", "--mem=3G"]
        submit("several-nodes.sbatch", cluster, options, "all_reduce.py", HEAD="127.0.0.1")
        return cluster

    def _start(self, program: str, name: str, partition: str = "gpu", **limits: int) -> tuple[Cluster, subprocess.Popen[str]]:
        settings = {"resources": {"experiment": {**SMALL_JOBS["experiment"], **limits}}}
        cluster = Cluster(self.folder / name, self.source, settings, program)
        cluster.skip_doctor(self.source)
        return cluster, cluster.start("--until", "experiment", "--default-resources", f"slurm_partition={partition}")
