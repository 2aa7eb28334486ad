"""GPU work that an epoch's time leaves out contests the gain that it explains."""

import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.results.files import write_json
from speedproof.results.folder import ANALYSIS_FOLDER, read_results
from speedproof.results.observations import Observations
from speedproof.results.run_record import RUN_FILE, TRACE_FOLDER, read_run
from speedproof.results.summary import SUMMARY_FILE, read_summary
from speedproof.results.trace_tables import TRACE_FILE, read_trace_info
from speedproof.run.archive.rebuild import rebuild_numbers
from speedproof.stats.measurements import measure_ratio
from tests.report.example import CLAIMS, Example, vouch_again, write_example


def compare(results, overhangs, example=None):
    """The ratio of epochs of an example whose profiled runs have these overhangs."""
    write_example(results, example or Example())
    for path in results.glob(f"{ANALYSIS_FOLDER}/*/*/{SUMMARY_FILE}"):
        found = next(own for variant, own in overhangs.items() if variant in path.parent.name)
        write_json(path, read_summary(path.parent).model_copy(update={"gpu_overhang_s": found}))
    (ratio,) = measure_ratio(read_results(results), "baseline", "fast", "timed", "training_epoch_s")
    return ratio


# Epochs take 1.48 s and 1.08 s: 0.40 s are gained. Less than 0.0108 s are tolerated, more than 0.040 s eat of it.
@pytest.mark.parametrize(
    ("baseline", "fast", "expected"),
    [
        ([0.0] * 4, [0.01] * 4, None),
        ([0.0] * 4, [0.03] * 4, False),
        ([0.0] * 4, [0.0, 0.3, 0.3, 0.3], True),
        ([0.0] * 4, [0.0, 0.0, 0.0, 0.3], None),  # one line that came late
        ([0.3] * 4, [0.3] * 4, None),  # both alike
        ([0.3] * 4, [0.0] * 4, None),  # in the slower one's favour
        ([0.0] * 4, [0.3] * 2, None),  # too few epochs
        ([], [0.3] * 4, None),  # nothing is known of the other
    ],
)
def test_work_that_goes_on_after_epochs_contests_what_it_explains(tmp_path, baseline, fast, expected):
    ratio = compare(tmp_path, {"baseline": baseline, "fast": fast})
    assert [one.blocks for one in ratio.objections] == ([] if expected is None else [expected])
    assert (ratio.contested, ratio.claimed) == (expected is True, expected is not True)


def test_it_is_said_of_whom_and_how_much(tmp_path):
    (one,) = compare(tmp_path, {"baseline": [0.0] * 4, "fast": [0.3] * 4}).objections
    assert describe_objection(one, {"fast": "B"}).replace("\u00a0", " ") == (
        "when B reports the end of an epoch, the GPU works on it for another 0.300 s (the other's: 0 s); synchronize before "
        "you read the clock"
    )


def test_of_a_variant_that_is_slower_the_other_is_asked(tmp_path):
    slower = Example(epoch_s=(("baseline", 1.08), ("fast", 1.48)))
    (one,) = compare(tmp_path, {"baseline": [0.3] * 4, "fast": [0.0] * 4}, slower).objections
    assert (one.variant, one.blocks) == ("baseline", True)


def test_a_rebuilt_analysis_has_it_from_the_trace_and_the_run(tmp_path):
    write_example(tmp_path)
    for folder in tmp_path.glob("experiments/*/runs/*-profiled"):
        info = read_trace_info(folder / TRACE_FOLDER).model_copy(update={"unix_zero_ns": 10**18})
        write_json(folder / TRACE_FOLDER / TRACE_FILE, info)
        observed = Observations(epochs_ended_unix_ns=[10**18 + 6 * 10**9])
        write_json(folder / RUN_FILE, read_run(folder).model_copy(update={"observed": observed}))
    rebuild_numbers(read_results(vouch_again(tmp_path), summaries=False), CLAIMS)
    found = [read_summary(path.parent).gpu_overhang_s for path in tmp_path.glob(f"{ANALYSIS_FOLDER}/*/*/{SUMMARY_FILE}")]
    assert [len(own) for own in found] == [1, 1]
