"""Recordings in part: what is missing is found, counted and left out, or nothing is said of the GPU."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import TraceBuilder
from tests.trace.readings import us

ITERATIONS, KERNELS = 12, 10


def loop(dropped=frozenset(), iterations=ITERATIONS, ranges=True):
    """Iterations of 1000 us, each of ten kernels of 60 us that begin 5 us after their launch; the dropped ones are missing."""
    trace = TraceBuilder()
    for number in range(iterations):
        if ranges:
            trace.range(f"step {number}", 1000 * number, 1000 * number + 1000)
        for place in range(KERNELS):
            at, correlation = 1000 * number + 100 * place, KERNELS * number + place
            trace.call("cudaLaunchKernel", at, at + 4, correlation)
            if correlation not in dropped:
                trace.kernel(at + 5, at + 65, correlation, name=f"kernel_{'abcdefghij'[place]}")
    return trace


def fractions(summary):
    return {round(epoch.kernel_busy_fraction, 9) for epoch in summary.epochs}


def test_iterations_without_their_gpu_are_left_out_and_counted(tmp_path):
    summary = analyze_trace(loop(dropped={0, 1, 35, *range(70, 80)}).write(tmp_path))
    assert (len(summary.epochs), summary.found.left_out, summary.recorded) == (9, 3, True)
    assert fractions(summary) == {0.6}
    assert summary.warnings == [
        "the kernels of 11% of the launches are missing: 3 of 12 steps lack some of their GPU work and are left out"
    ]


def test_a_device_that_stopped_being_traced_ends_what_counts(tmp_path):
    summary = analyze_trace(loop(dropped=set(range(55, 120))).write(tmp_path))
    assert [epoch.start_ns // 1_000_000 for epoch in summary.epochs] == [0, 1, 2, 3, 4]
    assert fractions(summary) == {0.6}


def test_where_too_few_are_left_no_share_is_told(tmp_path):
    summary = analyze_trace(loop(dropped=set(range(120)) - {3, 50}).write(tmp_path))
    assert (summary.recorded, summary.has_gpu, summary.idle_gaps, summary.kernels, summary.advice) == (False, False, [], [], [])
    assert (summary.ideal_epoch_s, summary.processes) == (None, [])
    assert "the kernels of 98% of the launches are missing: too few steps" in summary.warnings[0]


def test_what_a_capture_launches_is_not_missing(tmp_path):
    trace = loop()
    trace.call("cudaStreamBeginCapture", 900, 901)
    for number in range(10):
        trace.call("cudaLaunchKernel", 910 + number, 911 + number, 1000 + number)
    trace.call("cudaStreamEndCapture", 940, 941)
    summary = analyze_trace(trace.write(tmp_path))
    assert (len(summary.epochs), summary.warnings) == (12, [])


def test_a_driver_call_within_a_runtime_call_is_one_launch(tmp_path):
    trace = loop()
    for number in range(ITERATIONS):
        trace.call("cuLaunchKernelEx", 1000 * number + 1, 1000 * number + 3, 10_000 + number)
    assert analyze_trace(trace.write(tmp_path)).warnings == []


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False), st.floats(0.01, 0.9), st.booleans())
def test_dropped_kernels_never_make_a_wrong_share(tmp_path, random, share, in_a_row):
    everything = range(ITERATIONS * KERNELS)
    count = max(1, round(share * len(everything)))
    first = random.randrange(len(everything) - count + 1)
    dropped = set(everything[first : first + count]) if in_a_row else set(random.sample(everything, count))
    for ranges in (True, False):
        summary = analyze_trace(loop(dropped, ranges=ranges).write(tmp_path))
        assert not summary.has_gpu or fractions(summary) == {0.6}


@pytest.mark.parametrize("cut", range(1, ITERATIONS, 3))
def test_a_trace_cut_at_any_iteration_has_the_shares_of_the_whole(tmp_path, cut):
    trace = loop()
    for table in trace.rows.values():
        table[:] = [row for row in table if row["end_ns"] <= cut * 1_000_000 + 437_000]
    summary = analyze_trace(trace.write(tmp_path))
    if summary.found.unit == "step":
        assert fractions(summary) == {0.6}
        assert us(summary.epochs[0].duration_s) == 1000
