"""What every row of the matrix demands, and how it fills in the row while it looks."""

from pathlib import Path

from tests.faults.place import Ended, Place, assert_none_lives_on, differences, undisturbed
from tests.faults.rows import Row, join_distinct, shorten_paths

SAME = "ends in the undisturbed result"


def judge_end(row: Row, ended: Ended, *, may_be_silent: bool = False) -> None:
    """Note how a disturbed command ended; it must say one line and fail, or have been killed where it stood."""
    row.said = join_distinct([row.said, shorten_paths(ended.message) or "nothing"])
    row.status = join_distinct([row.status, ended.describe_status()])
    row.tries += 1
    assert "Traceback" not in ended.said, ended.said
    assert ended.status != 0, f"ended well in spite of its fault: {ended.said}"
    lines = [line for line in ended.said.splitlines() if line.startswith("speedproof: ")]
    if not (may_be_silent and ended.status < 0):
        assert len(lines) == 1, ended.said


def judge_kept(row: Row, place: Place, before: dict[str, str], own: tuple[str, ...] = ()) -> None:
    """Note what is left of what was there; but for what the step itself makes (`own`), nothing may be gone or changed."""
    now = place.snapshot()
    lost = sorted(name for name, digest in before.items() if now.get(name) != digest)
    made = [name for name in lost if name.startswith(own)]
    runs = f", of runs {len(place.whole_runs())} whole" if place.experiment.exists() else ""
    but = f" but for {', '.join(made)}, which the step makes" if made else ""
    kept = f"all {len(before)} files that were there{but}{runs}" if lost == made else f"all but {', '.join(lost)}"
    row.kept = join_distinct([row.kept, kept])
    assert lost == made
    assert (
        not (place.experiment / "experiment.json").exists() or "results/experiments/experiment-1/experiment.json" in before
    ), "an experiment that looks whole"


def judge_rerun(row: Row, place: Place, steps: list[str], undisturbed_place: Path) -> None:
    """Run the same again, undisturbed; it must end in what it would have been without the fault, and leave nothing else."""
    assert_none_lives_on(place.mark)
    for step in steps:
        ended = place.run(step)
        if ended.status:
            row.rerun = join_distinct([row.rerun, f"exit {ended.describe_status()}: {shorten_paths(ended.message)}"])
        assert ended.status == 0, f"{ended.said}\n{place.log_of('*')}"
    judge_result(row, place, undisturbed_place)


def judge_result(row: Row, place: Place, undisturbed_place: Path, how: str = SAME) -> None:
    other = differences(undisturbed(place), undisturbed(Place(undisturbed_place)))
    row.rerun = join_distinct([row.rerun, how if not other else f"ends otherwise: {shorten_paths('; '.join(other))}"])
    assert not other, "\n".join(other)
    left = place.leftovers()
    if left:
        row.rerun += f", but leaves {shorten_paths(', '.join(left))}"
    assert left == []
    assert_none_lives_on(place.mark)


def judge_refused_again(row: Row, ended: Ended) -> None:
    """Note that the rerun says why it cannot: in one line, which says what to do."""
    row.rerun = join_distinct([row.rerun, f"says why it cannot: {shorten_paths(ended.message)}"])
    assert ended.status > 0 and ended.message and "Traceback" not in ended.said, ended.said
