"""Faults of the steps behind an experiment: full and read-only disks, two at once, each from a finished results folder."""

import shutil

import pytest

from tests.faults.judge import judge_end, judge_kept, judge_result
from tests.faults.place import mounted
from tests.faults.test_artefacts import words_of
from tests.faults.test_kills import MAKES

pytestmark = pytest.mark.faults
# What each step writes, on a small disk of its own.
WRITES = {"doctor": ".", "analyze": "analysis", "verdicts": ".", "report": "."}
MADE = {
    "doctor": ["doctor.json"],
    "analyze": ["analysis/experiment-1/03-fast-profiled"],  # the first profiled run, as words_of names it
    "verdicts": ["comparison.json", "analysis/differences"],
    "report": ["report.md", "report.html", "figures"],
}


@pytest.mark.parametrize("fault", ["full", "read-only"])
@pytest.mark.parametrize("step", WRITES)
def test_a_disk_that_cannot_be_written(row, place, complete, needs_mount, step, fault):
    here = place(complete)
    for weights in here.results.rglob("best.pt"):
        weights.unlink()
    one = row(step, f"the disk is {fault}")
    options = words_of(here, step)
    folder = here.results if WRITES[step] == "." else here.results / WRITES[step]
    with mounted(folder, "64m") as mount_anew:
        for made in MADE[step]:  # replacing what is there would make room
            shutil.rmtree(here.results / made) if (here.results / made).is_dir() else (here.results / made).unlink()
        filler = folder / "filler"
        if fault == "full":
            try:
                with filler.open("wb") as file:
                    while True:
                        file.write(bytes(1 << 12))
            except OSError:
                pass
        else:
            mount_anew("ro")
        before = here.snapshot()
        judge_end(one, here.run(step, *options))
        judge_kept(one, here, before, MAKES.get(step, ()))
        mount_anew("rw")
        filler.unlink(missing_ok=True)
        ended = here.run(step, *options)
        assert ended.status == 0, ended.said
        other = place(complete)
        for weights in other.results.rglob("best.pt"):
            weights.unlink()
        judge_result(one, here, other.folder)


@pytest.mark.parametrize("step", ["analyze", "verdicts", "report"])
def test_two_at_once(row, place, complete, step):
    """Both write the same; whoever is last leaves whole files."""
    here = place(complete)
    one = row(step, "two at once")
    options = words_of(here, step)
    both = [here.start(step, *options), here.start(step, *options)]
    ends = [running.wait() for running in both]
    one.said, one.tries = "; ".join(dict.fromkeys(ended.message for ended in ends)) or "nothing", 2
    one.status = " and ".join(ended.describe_status() for ended in ends)
    assert not [ended.said for ended in ends if "Traceback" in ended.said]
    files = shutil.copytree(here.results, here.folder / "seen")
    one.kept = f"{sum(path.is_file() for path in files.rglob('*'))} files"
    shutil.rmtree(files)
    ended = here.run(step, *options)
    assert ended.status == 0, ended.said
    judge_result(one, here, complete)


def test_a_second_record_of_the_same_name(row, place, complete):
    here = place(complete)
    one = row("record", "two at once")
    both = [here.start("record"), here.start("record")]
    ends = [running.wait() for running in both]
    one.status = " and ".join(sorted(ended.describe_status() for ended in ends))
    one.said = "; ".join(filter(None, (ended.message.replace(str(here.folder), "…") for ended in ends)))
    one.tries = 2
    assert sorted(ended.status for ended in ends)[0] == 0 and "Traceback" not in "".join(ended.said for ended in ends), ends
    names = sorted(path.name for path in here.folder.glob("*record*"))
    one.kept = ", ".join(names)
    assert names == ["record"]
    judge_result(one, here, complete)
