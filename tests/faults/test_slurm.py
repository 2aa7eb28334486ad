"""An experiment as a job of a real Slurm: put back into the queue in its midst, cancelled, and out of time."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.judge import judge_kept, judge_rerun
from tests.faults.place import signal_trainers
from tests.faults.rows import shorten_paths
from tests.support import require

pytestmark = pytest.mark.faults


@pytest.fixture(scope="session")
def needs_slurm() -> None:
    found = shutil.which("sinfo") is not None and subprocess.run(["sinfo", "-h"], capture_output=True).returncode == 0
    require("slurm", found, "no Slurm answers here; .ci/slurm.sh starts one")


def submit(here, *options):
    """Submit the experiment as a job, and return its id."""
    words = [
        "sbatch",
        "--parsable",
        "--requeue",
        "--partition=pair",
        "--mem=3G",
        "--output=job.log",
        "--open-mode=append",
        *options,
    ]
    program = f"exec {sys.executable} -m speedproof {' '.join(here.words('experiment')[3:])}"
    done = subprocess.run([*words, "--wrap", program], cwd=here.folder, env=here.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def state_of(job):
    shown = subprocess.run(["scontrol", "show", "job", "-o", job], capture_output=True, text=True).stdout
    return shown.partition("JobState=")[2].partition(" ")[0]


def wait_until(condition, seconds=400):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for never came"
        time.sleep(0.2)


@pytest.mark.parametrize("fault", ["put back into the queue", "cancelled", "out of time"])
def test_a_job(row, place, measured, needs_slurm, fault):
    here = place(measured)
    (here.experiment / "experiment.json").unlink()
    shutil.rmtree(here.experiment / "runs/02-baseline-timed")
    one, before = row("a Slurm job, in a timed run", fault), here.snapshot()
    job = submit(here)
    wait_until(lambda: "epoch 1/" in here.log_of("02-baseline-timed"))
    if fault == "out of time":
        signal_trainers(here, signal.SIGSTOP)  # it would end before Slurm looks at the time next
    change = {
        "put back into the queue": ["scontrol", "requeue", job],
        "cancelled": ["scancel", job],
        "out of time": ["scontrol", "update", f"JobId={job}", "EndTime=now+1"],
    }[fault]
    subprocess.run(change, check=True)
    log = Path(here.folder / "job.log")
    wait_until(lambda: state_of(job) not in ("RUNNING", "COMPLETING"))
    one.status, one.tries = state_of(job), 1
    lines = [line.removeprefix("speedproof: ") for line in log.read_text().splitlines() if line.startswith("speedproof: ")]
    one.said = shorten_paths(lines[-1]) if lines else "nothing"
    assert "Traceback" not in log.read_text()
    judge_kept(one, here, before)
    if fault == "put back into the queue":
        subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=True)  # else Slurm waits two minutes
        wait_until(lambda: state_of(job) in ("COMPLETED", "FAILED"))
        assert state_of(job) == "COMPLETED", log.read_text()
    judge_rerun(one, here, [] if fault == "put back into the queue" else ["experiment"], measured)
