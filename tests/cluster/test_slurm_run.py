"""The workflow on a real Slurm, `snakemake --profile slurm`, container included; and plain job scripts."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from speedproof.profiling.nsys import export_report, read_capabilities
from speedproof.profiling.nsys_export import convert_export
from speedproof.records.block import read_block
from speedproof.records.doctor import read_diagnosis
from speedproof.records.trace import read_table
from tests.cluster.conftest import UNUSUAL, share_image
from tests.workflow.checkout import Checkout, check_out

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("cluster")]

ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
SMALL_JOBS = {"block": {"gpus": 1, "cores": 2, "memory_mib": 4000, "runtime_min": 20}, "analysis": {"memory_mib": 2000}}
QUICK = {"device": "cpu", "repeats": 1, "profiled": 0, "documented": 0}


class Cluster:
    """A checkout that is its own working folder, as a user of a cluster has it, with the image there already."""

    def __init__(self, folder: Path, source: Checkout, settings: dict) -> None:
        sources = check_out(folder).sources
        self.checkout = Checkout(sources, sources)
        self.folder, self.results = sources, self.checkout.results
        share_image(source, self.checkout)
        self.configure(settings)

    def configure(self, settings: dict) -> None:
        (self.folder / "cluster.yaml").write_text(yaml.safe_dump(settings))

    def skip_doctor(self, source: Checkout) -> None:
        self.results.mkdir(parents=True)
        shutil.copy(source.results / "doctor.json", self.results)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        profile = ["--profile", "slurm", "--use-singularity", "--configfile", "workflow/config/ci.yaml", "cluster.yaml"]
        quick = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10"]
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *profile, *quick, *arguments],
            cwd=self.folder,
            env=ENVIRONMENT,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "said").open("w"),
        )

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def job(self) -> str:
        """Return the id of the first job that was submitted."""
        return re.findall(r"SLURM jobid (\d+)", self.said())[0]

    def run_names(self) -> list[str]:
        return sorted(path.parent.name for path in self.results.glob("blocks/block-1/runs/*/run.json"))

    def started_runs(self) -> list[Path]:
        return sorted(self.results.glob("blocks/block-1/runs/*/log.txt"))


def wait_until(condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def jobs_of(said: str) -> list[dict[str, str]]:
    """Return what Slurm knows of the jobs that a run submitted."""
    ids = re.findall(r"SLURM jobid (\d+)", said)
    shown = [subprocess.run(["scontrol", "show", "job", "-o", job], capture_output=True, text=True).stdout for job in ids]
    return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in shown]


@pytest.fixture(scope="session")
def finished_slurm(tmp_path_factory, finished_container, needs_slurm) -> Cluster:
    title = 'The author\'s "fast" $(touch injected) `touch injected`\n$HOME \\'
    settings = {"resources": SMALL_JOBS, "measurement": {"blocks": 2}, "variants": {"fast": {"title": title}}}
    cluster = Cluster(tmp_path_factory.mktemp("slurm") / UNUSUAL, finished_container, settings)
    assert cluster.start().wait() == 0, f"{cluster.said()}\n{cluster.checkout.logs()}"
    return cluster


def test_all_is_measured_in_jobs_and_in_the_container(finished_slurm, finished_container):
    assert (finished_slurm.results / "report.html").exists()
    image = json.loads((finished_container.folder / "container/speedproof.json").read_text())["digest"]
    for name in ("block-1", "block-2"):
        assert read_block(finished_slurm.results / "blocks" / name).conditions.image == image
    findings = {finding.subject: finding for finding in read_diagnosis(finished_slurm.results).findings}
    assert findings["container"].found == "inside speedproof.sif"
    assert findings["Slurm"].found.startswith("a job")
    assert not list(finished_slurm.folder.parents[1].rglob("injected"))


def test_blocks_have_a_gpu_and_the_node_for_themselves(finished_slurm):
    blocks = [job for job in jobs_of(finished_slurm.said()) if "rule_block" in job["Comment"]]
    assert len(blocks) == 2
    for job in blocks:
        assert job["JobState"] == "COMPLETED"
        assert job["TresPerJob"] in ("gres:gpu:1", "gres/gpu:1")
        assert job["OverSubscribe"] == "NO"
    first, second = sorted(blocks, key=lambda job: job["StartTime"])
    assert first["EndTime"] <= second["StartTime"]


def test_light_steps_stay_local_and_logs_of_jobs_are_kept(finished_slurm):
    submitted = {job["Comment"].removeprefix("rule_").split("_")[0] for job in jobs_of(finished_slurm.said())}
    assert submitted == {"doctor", "block", "analyze"}
    assert len(list((finished_slurm.folder / ".snakemake/slurm_logs/rule_block").rglob("*.log"))) == 2


LIMITS = {"time": {"runtime_min": 1}, "memory": {"memory_mib": 400}, "cancelled": {}}


@pytest.fixture(scope="session")
def ended(tmp_path_factory, finished_container, needs_slurm) -> dict[str, Cluster]:
    """Three blocks that would not end by themselves soon, each after Slurm ended it; they queue for the node."""
    clusters, processes = {}, []
    for name, limits in LIMITS.items():
        settings = {
            "resources": {"block": {**SMALL_JOBS["block"], **limits}},
            "measurement": {**QUICK, "epochs": 5000, "validate_every": 1000},
        }
        clusters[name] = Cluster(tmp_path_factory.mktemp(name), finished_container, settings)
        clusters[name].skip_doctor(finished_container)
        processes.append(clusters[name].start("--until", "block"))
    cancelled = clusters["cancelled"]
    wait_until(lambda: cancelled.started_runs() and "epoch 2/" in cancelled.started_runs()[0].read_text())
    subprocess.run(["scancel", cancelled.job()], check=True)
    assert all(process.wait() != 0 for process in processes)
    return clusters


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        ("time", "time limit reached: raise its runtime_min"),
        ("memory", "out of memory: raise its memory_mib"),
        ("cancelled", "cancelled with scancel"),
    ],
)
def test_the_end_of_a_job_has_its_cause_and_leaves_no_block_that_looks_whole(ended, ending, cause):
    assert f"speedproof: Slurm job {ended[ending].job()}: {cause}" in ended[ending].said()
    assert not list(ended[ending].results.rglob("block.json"))


def test_a_preempted_block_starts_again_and_keeps_its_whole_runs(tmp_path, finished_container, needs_slurm):
    settings = {"resources": SMALL_JOBS, "measurement": {**QUICK, "epochs": 20, "validate_every": 20}}
    cluster = Cluster(tmp_path, finished_container, settings)
    cluster.skip_doctor(finished_container)
    process = cluster.start("--until", "block", "--default-resources", "slurm_partition=preemptible")
    wait_until(lambda: len(cluster.started_runs()) == 2)
    (whole,) = cluster.run_names()
    job = cluster.job()
    subprocess.run(["srun", "--partition=gpu", "--exclusive", "--mem=100", "sleep", "1"], check=True, capture_output=True)
    state = ["squeue", "--noheader", "--format=%T", "--jobs", job]
    wait_until(lambda: subprocess.run(state, capture_output=True, text=True).stdout.strip() == "PENDING")
    subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=True)  # Slurm waits two minutes by itself
    assert process.wait() == 0, cluster.said()
    assert read_block(cluster.results / "blocks/block-1").kept == [whole]


def submit(script: str, cluster: Cluster, options: list[str], *arguments: str, **variables: str) -> str:
    """Submit one of the job scripts, wait for its end and return its log."""
    image = {"IMAGE": "container/speedproof.sif", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sbatch", "--wait", "--output=job.log", *options, f"slurm/{script}", *arguments],
        cwd=cluster.folder,
        env={**ENVIRONMENT, **image, **variables},
        capture_output=True,
        text=True,
    )
    said = (cluster.folder / "job.log").read_text()
    assert done.returncode == 0, f"{done.stderr}\n{said}"
    return said


def test_the_plain_job_script_leaves_a_run_its_trace_and_its_analysis(tmp_path, finished_container, needs_slurm):
    ci = yaml.safe_load((Path(__file__).parents[2] / "workflow/config/ci.yaml").read_text())
    cluster = Cluster(tmp_path, finished_container, ci)
    submit("single-job.sbatch", cluster, ["--cpus-per-task=2", "--mem=4G"], "baseline", "cluster.yaml")
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
