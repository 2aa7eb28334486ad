"""Faults of an experiment other than signals: full or read-only disks, clocks, memory, numbers, workers, ranks, two at once."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.faults.judge import judge_end, judge_kept, judge_refused_again, judge_rerun, judge_result
from tests.faults.place import assert_none_lives_on, mounted, signal_trainers, trainers
from tests.faults.rows import shorten_paths

pytestmark = pytest.mark.faults


def without_second_run(here):
    (here.experiment / "experiment.json").unlink()
    shutil.rmtree(here.experiment / "runs/02-baseline-timed")
    return here


def children_of(process):
    """Return the children of a process, by their numbers."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True).stdout
    return [int(word) for word in found.split()]


def test_a_disk_that_is_full(row, place, measured, needs_mount):
    here = without_second_run(place(measured))
    one = row("experiment, in a timed run", "the disk is full")
    size_kib = sum(path.stat().st_size for path in here.experiment.rglob("*") if path.is_file()) // 1024
    with mounted(here.experiment, f"{size_kib + 64}k") as mount_anew:
        before = here.snapshot()
        judge_end(one, here.run("experiment"))
        assert "space" in one.said, one.said
        judge_kept(one, here, before)
        mount_anew("size=64m")
        judge_rerun(one, here, ["experiment"], measured)


def test_a_disk_that_is_read_only(row, place, measured, needs_mount):
    here = without_second_run(place(measured))
    one = row("experiment", "the disk is read-only")
    with mounted(here.experiment, "64m") as mount_anew:
        before = here.snapshot()
        mount_anew("ro")
        judge_end(one, here.run("experiment"))
        judge_kept(one, here, before)
        mount_anew("rw")
        judge_rerun(one, here, ["experiment"], measured)


def test_the_clock_is_set_back_within_a_run(row, place, measured, clock):
    here, (offset, variables) = without_second_run(place(measured)), clock
    one, before = row("experiment, in a timed run", "the clock is set back an hour"), here.snapshot()
    here.variables |= variables
    running = here.start("experiment")
    running.wait_for(lambda: "epoch 2/" in here.log_of("02-baseline-timed"))
    offset.write_text("-3600")
    ended = running.wait()
    assert ended.status == 0, ended.said
    run = json.loads((here.experiment / "runs/02-baseline-timed/run.json").read_text())
    one.said, one.status, one.tries = "nothing: durations are of a clock that nobody sets", "0", 1
    assert 0 < run["start_up_s"] < run["process_s"] < 600 and 0 < run["best_quality_s"] < run["process_s"], run
    judge_kept(
        one,
        here,
        before
        | {
            "results/experiments/experiment-1/experiment.json": here.snapshot()[
                "results/experiments/experiment-1/experiment.json"
            ]
        },
    )
    here.variables.clear()
    judge_rerun(one, here, ["experiment"], measured)


def test_memory_runs_out(row, place, measured):
    """The system ends what takes more than the job was given, as a cluster's control groups do."""
    group = Path("/sys/fs/cgroup/memory") / f"fault-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no memory control group can be made here: needs root and cgroup v1")
    try:
        here = without_second_run(place(measured))
        one, before = row("experiment, in a timed run", "memory runs out"), here.snapshot()
        running = here.start("experiment")
        running.wait_for(lambda: trainers(here))
        (trainer, *_) = trainers(here)
        (group / "memory.limit_in_bytes").write_text(str(64 << 20))
        (group / "cgroup.procs").write_text(str(trainer))
        judge_end(one, running.wait())
        assert "memory" in one.said, one.said
        judge_kept(one, here, before)
        judge_rerun(one, here, ["experiment"], measured)
    finally:
        for process in (group / "cgroup.procs").read_text().split():
            os.kill(int(process), signal.SIGKILL)
        subprocess.run(f"for i in 1 2 3 4 5; do rmdir {group} && break; sleep 1; done", shell=True, capture_output=True)


def test_more_memory_is_asked_for_than_there_is(row, place, measured):
    """Training asks for more than the process may have (RLIMIT_AS), so that torch itself is told no."""
    here = without_second_run(place(measured))
    one, before = row("experiment, in a timed run", "torch is refused memory"), here.snapshot()
    here.before = ("prlimit", f"--as={24 << 30}")
    here.configure(variants={"baseline": {"network": {"channels": [65536, 65536], "dropout": 0.0}}})
    before = here.snapshot()
    judge_end(one, here.run("experiment"))
    judge_kept(one, here, {name: digest for name, digest in before.items() if "/runs/" not in name and "plan" not in name})
    here.before = ()
    shutil.copy(measured / "results/config.json", here.results)
    judge_rerun(one, here, ["experiment"], measured)


def test_a_loss_that_is_no_number(row, place, measured):
    here = without_second_run(place(measured))
    here.configure(variants={"baseline": {"optimizer": {"name": "sgd", "learning_rate": 1e6, "weight_decay": 1e6}}})
    one = row("experiment, in a timed run", "the loss is not a number")
    before = {name: digest for name, digest in here.snapshot().items() if "/runs/" not in name}
    judge_end(one, here.run("experiment"))
    judge_kept(one, here, before)
    judge_refused_again(one, here.run("experiment"))
    shutil.copy(measured / "results/config.json", here.results)
    judge_rerun(one, here, ["experiment"], measured)


@pytest.mark.parametrize("whom", ["worker", "rank"])
def test_a_process_of_a_run_dies(row, place, shared, prepared, whom):
    """KILL for a loader's worker, and for one of two ranks."""
    techniques = {"worker": {"cache": "none", "workers": 1}, "rank": {"gpus": 2}}[whom]
    settings = {"measurement": {"rounds": 1, "epochs": 12}, "variants": {"baseline": techniques}}
    if whom == "rank":
        settings["workload"] = {"validation_cases": 2}

    def measure(other):
        shutil.copytree(prepared, other.folder, dirs_exist_ok=True)
        other.configure(**settings)
        ended = other.run("experiment")
        assert ended.status == 0, f"{ended.said}\n{other.log_of('*')}"

    undisturbed = shared(f"with-{whom}", measure)
    here = place(prepared)
    here.configure(**settings)
    one, before = row("experiment, in a timed run", f"a {whom} dies"), here.snapshot()
    running = here.start("experiment")
    running.wait_for(lambda: "epoch 2/" in here.log_of("01-baseline-timed"))
    if whom == "worker":
        running.wait_for(lambda: any(children_of(trainer) for trainer in trainers(here)))
        (victim, *_) = [child for trainer in trainers(here)[:1] for child in children_of(trainer)]
    else:
        victim = trainers(here)[-1]
    os.kill(victim, signal.SIGKILL)
    judge_end(one, running.wait())
    assert_none_lives_on(here.mark)
    judge_kept(one, here, before)
    judge_rerun(one, here, ["experiment"], undisturbed)


def start_and_hold(here):
    """Start an experiment, and halt its training until it is released, so that the second one meets it."""
    first = here.start("experiment")
    first.wait_for(lambda: "epoch 1/" in here.log_of("02-baseline-timed"))
    signal_trainers(here, signal.SIGSTOP)
    return first


def test_two_experiments_in_one_folder(row, place, measured):
    here = without_second_run(place(measured))
    one = row("experiment", "a second one in the same folder")
    first = start_and_hold(here)
    before = {name: digest for name, digest in here.snapshot().items() if "/02-" not in name}
    second = here.run("experiment")
    judge_end(one, second)
    signal_trainers(here, signal.SIGCONT)
    ended = first.wait()
    assert ended.status == 0, ended.said
    before.pop("results/experiments/experiment-1/experiment.json", None)
    now = here.snapshot()
    one.kept = (
        "the first one ends well, undisturbed" if not [name for name in before if before[name] != now.get(name)] else "no"
    )
    assert one.kept != "no"
    judge_result(one, here, measured)
    judge_rerun(one, here, ["experiment"], measured)


def test_two_working_folders_with_one_results(row, place, measured):
    """The second working folder's `results` is a link to the first's."""
    here, there = without_second_run(place(measured)), place()
    shutil.copytree(here.folder / "data", there.folder / "data")
    there.results.symlink_to(here.results)
    one = row("experiment", "a second one from another working folder with the same results")
    first = start_and_hold(here)
    judge_end(one, there.run("experiment"))
    signal_trainers(here, signal.SIGCONT)
    ended = first.wait()
    assert ended.status == 0, ended.said
    one.kept = f"the first one: exit {ended.describe_status()}, {len(here.whole_runs())} whole runs"
    judge_result(one, here, measured)


def test_a_lock_that_a_dead_experiment_left(row, place, measured):
    here = without_second_run(place(measured))
    one, before = row("experiment", "the locks of one that was killed"), here.snapshot()
    running = here.start("experiment")
    running.wait_for(lambda: "epoch 1/" in here.log_of("02-baseline-timed"))
    judge_end(one, running.kill(signal.SIGKILL), may_be_silent=True)
    assert_none_lives_on(here.mark)
    locks = [path.name for path in here.folder.rglob("*.lock")]
    judge_kept(one, here, before)
    one.kept += f", {len(locks)} lock files"
    judge_rerun(one, here, ["experiment"], measured)


def test_a_volume_that_changed_after_it_was_described(row, place, measured, prepared):
    here = without_second_run(place(measured))
    one = row("experiment, a volume", "flipped bits, cut, emptied, gone")
    file = sorted((here.folder / "data").rglob("imagesTr/*.nii.gz"))[2]
    whole = file.read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :], whole[:middle], b"", None):
        file.unlink(missing_ok=True)
        if damaged is not None:
            file.write_bytes(damaged)
        before = {name: digest for name, digest in here.snapshot().items() if "/02-" not in name}
        judge_end(one, here.run("experiment"))
        judge_kept(one, here, before)
    file.write_bytes(whole)
    judge_rerun(one, here, ["experiment"], measured)


@pytest.fixture(scope="session")
def interrupted(shared, measured):
    """An experiment that was killed in its second run, which had a checkpoint."""

    def make(here):
        shutil.copytree(measured, here.folder, dirs_exist_ok=True)
        without_second_run(here)
        here.configure(measurement={"checkpoint_every": 2, "epochs": 8})
        running = here.start("experiment")
        running.wait_for(lambda: list(here.experiment.glob("runs/02-*/checkpoints/4/checkpoint.json")))
        running.kill(signal.SIGKILL)
        assert_none_lives_on(here.mark)
        shutil.rmtree(here.temporary)  # another row's affair

    return shared("interrupted", make)


@pytest.mark.parametrize("name", ["state.pt", "checkpoint.json", "epochs.csv"])
@pytest.mark.parametrize("damage", ["a flipped bit", "cut to two thirds", "empty"])
def test_a_checkpoint_that_was_damaged(row, place, interrupted, measured, name, damage):
    """The run goes on from no checkpoint that is not what was written: it starts again, or says what is wrong."""
    here = place(interrupted)
    (file, *_) = sorted(here.experiment.glob(f"runs/02-*/checkpoints/*/{name}"))
    content = bytearray(file.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    file.write_bytes(
        {"a flipped bit": bytes(content), "cut to two thirds": content[: len(content) * 2 // 3], "empty": b""}[damage]
    )
    one = row("experiment, a checkpoint", f"{name}: {damage}")
    before = {path: digest for path, digest in here.snapshot().items() if "/02-" not in path}
    ended = here.run("experiment")
    if ended.status:
        judge_end(one, ended)
    else:
        one.status, one.tries = "0", 1
        said = [line for line in (ended.said + here.log_of("02-*")).splitlines() if "checkpoint" in line]
        one.said = shorten_paths(said[-1]) if said else "nothing"
    now = here.snapshot()
    before.pop("results/experiments/experiment-1/experiment.json", None)
    assert not [path for path in before if now.get(path) != before[path]]
    one.kept = f"all {len(before)} files that were there, of runs {len(here.whole_runs())} whole"
    shutil.copy(measured / "results/config.json", here.results)
    if ended.status:
        judge_refused_again(one, here.run("experiment"))
    else:
        judge_rerun(one, here, [], measured)
