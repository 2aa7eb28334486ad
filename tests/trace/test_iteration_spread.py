"""What the spread of iterations leaves of a difference between two traces; the interval is compared with scipy's."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from speedproof.report.trace_phrases import describe_epoch_change
from speedproof.trace.diff import compare_summaries
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import RecordError
from tests.trace.handmade import TraceBuilder
from tests.trace.loops import MadeLoop, kernel_lists, make_loop
from tests.trace.readings import compare_traces, us


def uneven(lengths, name="step {}"):
    trace, at = TraceBuilder(), 0
    for number, length in enumerate(lengths):
        trace.range(name.format(number), at, at + length)
        trace.call("cudaLaunchKernel", at, at + 1, number)
        trace.kernel(at + 2, at + length - 10, number)
        at += length
    return trace


def sentence_of(difference):
    return "".join(describe_epoch_change("A", "B", difference)).replace("\N{NO-BREAK SPACE}", " ")


def test_the_interval_is_welchs(tmp_path):
    a, b = [500, 1000, 1040, 980, 1010], [500, 1200, 1290, 1150]
    difference = compare_traces(uneven(a).write(tmp_path / "a"), uneven(b).write(tmp_path / "b"))
    expected = stats.ttest_ind(b[1:], a[1:], equal_var=False).confidence_interval(0.95)
    assert (us(difference.low_s), us(difference.high_s)) == pytest.approx((expected.low, expected.high))
    assert not difference.is_within_spread
    assert sentence_of(difference) == (
        "B takes 206 µs more per step than A: 1.21 ms against 1.01 ms (95 % interval of the change, by the spread of the "
        "steps: +46.9 µs to +365 µs)."
    )


@pytest.mark.parametrize(
    ("other", "notes"),
    [
        ([500, 1050, 1250, 890], []),  # 30 us more, within the spread
        (
            [500, 2050, 2250, 1890],
            ["most of the difference cannot be explained: +1.030 of +1.030 ms belong to no phase"],
        ),
    ],
)
def test_only_a_difference_beyond_the_spread_is_called_unexplained(tmp_path, other, notes):
    """On the CPU, each step has a phase of 100 us; the rest is in none."""
    folders = []
    for name, lengths in (("a", [500, 1000, 1200, 900]), ("b", other)):
        trace, at = TraceBuilder(), 0
        for number, length in enumerate(lengths):
            trace.range(f"step {number}", at, at + length)
            trace.range("forward", at, at + 100)
            at += length
        folders.append(trace.write(tmp_path / name))
    assert compare_traces(*folders).notes == notes


def test_what_is_within_the_spread_is_no_difference(tmp_path):
    a, b = [500, 1000, 1200, 900], [500, 1050, 1250, 890]
    difference = compare_traces(uneven(a).write(tmp_path / "a"), uneven(b).write(tmp_path / "b"))
    assert difference.is_within_spread
    assert sentence_of(difference).startswith("No difference beyond their spread: B takes 30.0 µs more per step than A: ")


def test_of_one_iteration_there_is_no_spread(tmp_path):
    difference = compare_traces(uneven([500, 900]).write(tmp_path / "a"), uneven([600, 800]).write(tmp_path / "b"))
    assert difference.low_s is not None  # two of either: none warms up
    whole = analyze_trace(uneven([500, 900]).write(tmp_path / "c"), whole=True)
    assert compare_summaries(whole, whole, ("a", "b")).low_s is None


@pytest.mark.parametrize("marked_first", [True, False])
def test_a_program_with_ranges_is_compared_with_itself_without_them(tmp_path, marked_first):
    marked, plain = (make_loop(MadeLoop(steps=12, name=name))[0].write(tmp_path / str(name)) for name in ("step {}", None))
    difference = compare_traces(*((marked, plain) if marked_first else (plain, marked)))
    assert (difference.unit, us(difference.total_s), us(difference.epoch_a_s)) == ("iteration", 0, 1000)
    assert {term.seconds_per_epoch for term in difference.terms} == {0}
    assert sentence_of(difference).startswith("B takes as long per iteration as A: 1.00 ms against 1.00 ms")


def test_a_loop_and_its_layers_are_not_compared(tmp_path):
    # One trace's step has three times the same two layers, which are what repeats in it.
    kernels = (("gemm", 100), ("relu", 50)) * 3
    marked, plain = (
        make_loop(MadeLoop(kernels=kernels, name=name))[0].write(tmp_path / str(name)) for name in ("step {}", None)
    )
    with pytest.raises(RecordError, match="an iteration of the first is a step"):
        compare_traces(marked, plain)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kernel_lists(), st.integers(8, 14), st.integers(300, 3000), st.booleans(), st.integers(1, 400))
def test_marks_change_no_difference(tmp_path, kernels, steps, host, waits, more):
    """A program, marked or not, against another one whose last kernel takes longer: the same answer, or a refusal."""
    slower = (*kernels[:-1], (kernels[-1][0], kernels[-1][1] + more))
    other = make_loop(MadeLoop(steps=steps, kernels=slower, host=host, waits=waits, name=None))[0].write(tmp_path / "other")
    answers = []
    for name in ("step {}", None):
        made = make_loop(MadeLoop(steps=steps, kernels=kernels, host=host, waits=waits, name=name))[0]
        try:
            answers.append(compare_traces(made.write(tmp_path / "one"), other).total_s)
        except RecordError:
            answers.append(np.nan)
    known = [answer for answer in answers if not np.isnan(answer)]
    assert known
    assert max(known) - min(known) <= 1e-9
