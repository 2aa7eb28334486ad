"""Snakemake itself is ended, twice started, and left with locks; then it is run again, as people do."""

import signal
import sys

import pytest

from tests.faults.judge import SAME, judge_result
from tests.faults.place import ROOT, assert_none_lives_on

pytestmark = pytest.mark.faults
SETTINGS = [
    "measurement={variants: [baseline], rounds: 2, profiled: 0, device: cpu, epochs: 8, validate_every: 4, control: false}",
    "workload={validation_cases: 1, patches_per_volume: 1}",
    "profiling={backend: kineto}",
    "data={folder: data}",
    "results=results",
]


def snakemake(here, *options):
    """Return the words of the workflow's first half: volumes, doctor, experiment."""
    files = ["--configfile", str(ROOT / "workflow/config/ci.yaml"), str(here.folder / "changes.json")]
    place = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(here.folder), "--cores", "2"]
    return [sys.executable, "-m", "snakemake", *place, *files, "--until", "experiment", *options]


@pytest.fixture(scope="session")
def planned(shared, prepared):
    """An experiment as Snakemake makes it."""

    def make(here):
        (here.folder / "data").mkdir()
        here.configure()
        ended = here.start_words(snakemake(here)).wait()
        assert ended.status == 0, ended.said

    return shared("planned", make)


def begin(here):
    here.configure()
    running = here.start_words(snakemake(here))
    running.wait_for(lambda: "epoch 2/" in here.log_of("01-baseline-timed"))
    return running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP], ids=lambda number: number.name)
def test_snakemake_is_ended(row, place, planned, number):
    here = place()
    one = row("the whole workflow", f"{number.name} for Snakemake")
    running = begin(here)
    ended = running.kill(number)
    one.status, one.tries = ended.describe_status(), 1
    one.said = next((line for line in reversed(ended.said.splitlines()) if line.startswith("speedproof: ")), "nothing")
    assert_none_lives_on(here.mark)
    names = ("data/phantom/dataset.json", "doctor.json", "experiments/experiment-1/experiment.json")
    kept = [name for name in names if (here.results / name).exists()]
    one.kept = f"{', '.join(kept)}; {len(here.whole_runs())} whole runs"
    assert names[0] in kept and (names[2] in kept) == (len(here.whole_runs()) == 2), one.kept  # by TERM it awaits its jobs
    again = here.start_words(snakemake(here)).wait()
    if again.status:
        assert "--unlock" in again.said, again.said
        one.rerun = "says why it cannot: Snakemake's lock, which --unlock removes; then "
        assert here.start_words(snakemake(here, "--unlock")).wait().status == 0
        again = here.start_words(snakemake(here, "--rerun-incomplete")).wait()
    assert again.status == 0, again.said
    then, one.rerun = one.rerun, ""
    judge_result(one, here, planned)
    one.rerun = then + one.rerun


def test_two_workflows_in_one_folder(row, place, planned):
    here = place()
    one = row("the whole workflow", "a second Snakemake in the same folder")
    running = begin(here)
    second = here.start_words(snakemake(here)).wait()
    one.status, one.tries = second.describe_status(), 1
    assert second.status != 0 and "Traceback" not in second.said, second.said
    one.said = next(line for line in second.said.splitlines() if "cannot be locked" in line)
    first = running.wait()
    one.kept = f"the first one: exit {first.describe_status()}"
    assert first.status == 0, first.said
    judge_result(one, here, planned, f"the first one {SAME}")
