"""A bit flipped in, a piece cut from and nothing left of every kind of file that a measurement leaves.

What reads the file next refuses it in one line, or ends in the undisturbed result; it never ends in another one.
"""

import shutil

import pytest

from speedproof.results.evidence_archive import is_there
from speedproof.results.files import sha256_of
from tests.faults.judge import judge_refused_again
from tests.faults.place import differences, undisturbed
from tests.faults.rows import join_distinct, shorten_paths

# Each kind of file, and the steps that read it next, as the workflow runs them.
AFTER_EXPERIMENT = ("rebuild",)
KINDS = {
    "experiments/experiment-1/experiment.json": AFTER_EXPERIMENT,
    "experiments/experiment-1/plan.json": ("record",),
    "experiments/experiment-1/runs/*-timed/run.json": ("verdicts", "report"),
    "experiments/experiment-1/runs/*-timed/epochs.csv": ("verdicts", "report"),
    "experiments/experiment-1/runs/*-timed/gpu.csv": ("verdicts", "report"),
    "experiments/experiment-1/runs/*-profiled/run.json": AFTER_EXPERIMENT,
    "experiments/experiment-1/runs/*-profiled/trace/trace.json": ("analyze",),
    "experiments/experiment-1/runs/*-profiled/trace/ranges.parquet": ("analyze",),
    "experiments/experiment-1/runs/*-profiled/trace/operators.parquet": ("analyze",),
    "analysis/experiment-1/*/summary.json": ("verdicts", "report"),
    "analysis/differences/*/difference.json": ("report",),
    "comparison.json": ("report",),
    "doctor.json": ("report",),
    "figures/figures.json": ("report",),
    "data/phantom/dataset.json": ("experiment",),
}
FLIPS = 2


def damages(file):
    """Return a name and a damaged content each: flipped bits spread over a file, other digits, two thirds of it, none of it."""
    content = file.read_bytes()
    for number in range(FLIPS):
        at = (2 * number + 1) * len(content) // (2 * FLIPS)
        yield (
            f"bit {number % 8} of byte {at} flipped",
            content[:at] + bytes([content[at] ^ (1 << number % 8)]) + content[at + 1 :],
        )
    for share in (0.2, 0.4, 0.6, 0.8) if file.suffix in (".json", ".csv") else ():
        digit = next((at for at in range(int(len(content) * share), len(content)) if content[at : at + 1].isdigit()), None)
        if digit is not None:
            yield f"digit at byte {digit} changed", content[:digit] + bytes([content[digit] ^ 1]) + content[digit + 1 :]
    yield "cut to two thirds", content[: len(content) * 2 // 3]
    yield "empty", b""


def words_of(here, step):
    if step != "analyze":
        return []
    run = sorted(here.experiment.glob("runs/*-profiled"))[0]
    return [str(run / "trace"), f"--out={here.results / 'analysis/experiment-1' / run.name}", "--no-page", "--quiet"]


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_damaged(row, place, complete, kind):
    which = "run.json of a profiled run" if kind.endswith("profiled/run.json") else kind.rpartition("/")[2]
    one = row("after an experiment", f"{which}: flipped bits, other digits, cut, emptied")
    here = place(complete)
    file = sorted(here.results.glob(kind))[0]
    whole = file.read_bytes()
    wanted = undisturbed(here) | numbers_of(here)
    refused, same, otherwise = 0, 0, []
    for name, damaged in list(damages(file)):
        shutil.rmtree(here.results)
        shutil.rmtree(here.folder / "record", ignore_errors=True)
        shutil.copytree(complete / "results", here.results)
        file.write_bytes(damaged)
        for step in KINDS[kind]:
            ended = here.run(step, *words_of(here, step))
            if ended.status:
                break
        one.tries += 1
        assert "Traceback" not in ended.said, f"{name}: {ended.said}"
        if ended.status:
            refused += 1
            one.said = join_distinct([one.said, shorten_paths(ended.message)]) if one.said.count("; or ") < 2 else one.said
            judge_refused_again(one.__class__("", ""), ended)
            continue
        file.write_bytes(whole) if kind not in ("comparison.json", "figures/figures.json") else None
        other = differences(undisturbed(here) | numbers_of(here), wanted)
        otherwise += [f"{name}: {other[0][:60]}"] if other else []
        same += not other
    one.said = one.said or "nothing"
    one.status = f"not 0 in {refused} of {one.tries}, else 0"
    one.kept = "all other files"
    one.rerun = f"{refused} refused, {same} harmless, {len(otherwise)} silently different"
    assert not otherwise


def numbers_of(here):
    """Return what readers see: all bytes of report.md and comparison.json but for the place where they lie."""
    names = ("report.md", "comparison.json", "../record/experiments/experiment-1/plan.json")
    return {f"bytes of {name}": sha256_of(here.results / name) for name in names if is_there(here.results / name)}
