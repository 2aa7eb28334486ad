"""TERM, KILL and HUP (a terminal that is closed) at each stage of a measurement."""

import shutil
import signal
from pathlib import Path

import pytest

from tests.faults.conftest import UNDER_NSYS
from tests.faults.judge import judge_end, judge_kept, judge_rerun, judge_result
from tests.faults.nsys import write_nsys
from tests.faults.place import assert_none_lives_on

pytestmark = pytest.mark.faults
SIGNALS = [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP]
each_signal = pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)


def disturb(row, place, step, sign, number, steps, undisturbed, *options):
    """Start a step, send a signal when its sign is there, and do it again."""
    before = place.snapshot()
    running = place.start(step, *options)
    running.wait_for(lambda: sign(running))
    ended = running.kill(number)
    judge_end(row, ended, may_be_silent=True)
    assert_none_lives_on(place.mark)
    judge_kept(row, place, before)
    judge_rerun(row, place, steps, undisturbed)


@each_signal
def test_while_volumes_are_made(row, place, prepared, number):
    here = place()
    here.configure()
    disturb(row("data", number.name), here, "data", lambda running: "2 of 8" in running.said(), number, ["data"], prepared)


@each_signal
def test_while_the_doctor_asks(row, place, complete, number):
    here = place(complete)
    (here.results / "doctor.json").unlink()
    sign = lambda running: len(list(here.temporary.iterdir())) > 0 or "profiler" in running.said()  # noqa: E731
    here.configure(measurement={"variants": ["baseline", "fast"], "rounds": 1, "profiled": 1}, profiling={"backend": "auto"})
    before = here.snapshot()
    one = row("doctor", number.name)
    running = here.start("doctor")
    running.wait_for(lambda: sign(running))
    judge_end(one, running.kill(number), may_be_silent=True)
    assert_none_lives_on(here.mark)
    judge_kept(one, here, before)
    shutil.copy(complete / "results/config.json", here.results)
    judge_rerun(one, here, ["doctor"], complete)


def with_first_run_whole(here):
    """Take a finished experiment back to where its second run had not begun."""
    (here.experiment / "experiment.json").unlink()
    shutil.rmtree(here.experiment / "runs/02-baseline-timed")
    return here


@each_signal
def test_between_two_runs(row, place, measured, number):
    here = with_first_run_whole(place(measured))
    sign = lambda running: "kept" in running.said()  # noqa: E731
    disturb(row("experiment, between two runs", number.name), here, "experiment", sign, number, ["experiment"], measured)


@each_signal
def test_in_a_run(row, place, measured, number):
    here = with_first_run_whole(place(measured))
    sign = lambda _: "epoch 2/" in here.log_of("02-baseline-timed")  # noqa: E731
    disturb(row("experiment, in a timed run", number.name), here, "experiment", sign, number, ["experiment"], measured)


@each_signal
def test_in_a_run_that_keeps_checkpoints(row, place, measured, number):
    here = with_first_run_whole(place(measured))
    here.configure(measurement={"checkpoint_every": 2})
    sign = lambda _: list(here.experiment.glob("runs/02-baseline-timed/checkpoints/4/checkpoint.json"))  # noqa: E731
    one = row("experiment, in a run with checkpoints", number.name)
    before = here.snapshot()
    running = here.start("experiment")
    running.wait_for(lambda: sign(running))
    judge_end(one, running.kill(number), may_be_silent=True)
    assert_none_lives_on(here.mark)
    judge_kept(one, here, before)
    assert here.run("experiment").status == 0
    assert "goes on after epoch" in here.log_of("02-baseline-timed")
    shutil.copy(measured / "results/config.json", here.results)  # checkpoints decide no result
    judge_rerun(one, here, ["experiment"], measured)


@each_signal
def test_in_a_profiled_run(row, place, profiled, prepared, number):
    here = place(prepared)
    here.configure(**UNDER_NSYS)
    sign = lambda _: "epoch 2/" in here.log_of("01-baseline-profiled")  # noqa: E731
    disturb(row("experiment, in a run under nsys", number.name), here, "experiment", sign, number, ["experiment"], profiled)


@each_signal
def test_while_a_profile_is_converted(row, place, profiled, prepared, number):
    here = place(prepared)
    program = write_nsys(here.folder, on="export", then=f"touch {here.folder}/begun; sleep 1000")
    here.configure(**UNDER_NSYS | {"profiling": {"backend": "nsys", "nsys": str(program)}})
    one = row("experiment, in the conversion of a profile", number.name)
    before = here.snapshot()
    running = here.start("experiment")
    running.wait_for((here.folder / "begun").exists)
    judge_end(one, running.kill(number), may_be_silent=True)
    assert_none_lives_on(here.mark)
    judge_kept(one, here, before)
    shutil.copy(profiled / "results/config.json", here.results)
    judge_rerun(one, here, ["experiment"], profiled)


MAKES = {
    "analyze": ("results/analysis/experiment-1/",),
    "verdicts": ("results/comparison.json", "results/analysis/differences/"),
    "report": ("results/report.", "results/figures/"),
    "record": (),
}


def analysis_of(here):
    """Return the words that analyse a profiled run of an experiment, as the workflow has them."""
    run = sorted(here.experiment.glob("runs/*/trace"))[0].parent
    return [str(run / "trace"), f"--out={here.results / 'analysis/experiment-1' / run.name}", "--no-page", "--quiet"]


@each_signal
@pytest.mark.parametrize("step", ["analyze", "verdicts", "report", "record"])
def test_after_the_measurement(row, place, complete, step, number):
    here = place(complete)
    options = analysis_of(here) if step == "analyze" else []
    figures = {path: path.stat().st_ino for path in here.results.glob("figures/*.svg")}
    signs = {
        "analyze": lambda process: has_loaded(process, "pyarrow/"),
        "verdicts": lambda process: has_loaded(process, "pyarrow/"),
        "report": lambda _: any(path.stat().st_ino != before for path, before in figures.items()),
        "record": lambda _: list(here.folder.glob(".record-*")),
    }
    one, before = row(step, number.name), here.snapshot()
    running = here.start(step, *options)
    running.wait_for(lambda: signs[step](running.process.pid))
    judge_end(one, running.kill(number), may_be_silent=True)
    assert_none_lives_on(here.mark)
    assert not (here.folder / "record").exists()
    judge_kept(one, here, before, MAKES[step])
    ended = here.run(step, *options)
    assert ended.status == 0, ended.said
    assert (here.folder / "record/report.md").exists() == (step == "record")
    judge_result(one, here, complete)


def has_loaded(process, name):
    """Return whether a process has loaded a library of this name, which says how far it is."""
    try:
        return name in Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return False
