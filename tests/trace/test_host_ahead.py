"""Iterations of hosts that run ahead, of stubs without a launch, and with numbers of their own."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from speedproof.trace.summarize import analyze_trace
from tests.trace.loops import MadeLoop, made_loops, make_loop
from tests.trace.readings import us

QUICKLY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
AHEAD = MadeLoop(kernels=(("gemm", 1000), ("relu", 400)), host=1000, waits=False)


def lengths_of(summary):
    return [us(epoch.duration_s) for epoch in summary.epochs]


def test_a_step_of_a_host_that_runs_ahead_ends_with_its_last_kernel(tmp_path):
    # The host passes a step of 1000 us each 1000 us; the GPU takes 1400 us for its two kernels, which begins 3 us later.
    trace, steps = make_loop(AHEAD)
    summary = analyze_trace(trace.write(tmp_path))
    assert lengths_of(summary) == [step.length for step in steps] == [1403] + [1400] * 7
    assert {epoch.kernel_busy_fraction for epoch in summary.epochs[1:]} == {1.0}
    # Step 2 ends 803 us after the host's, step 8 3203 us: of the seven that count the median is step 5's.
    assert summary.warnings == [
        "the host runs ahead of the GPU: a step ends when the last kernel that it launched ends, in the median 2.00\xa0ms "
        "after the host's own end"
    ]


def test_phases_of_a_host_that_runs_ahead_are_those_of_its_own_time(tmp_path):
    trace, _ = make_loop(MadeLoop(kernels=AHEAD.kernels, host=1000, waits=False, siblings=("forward", "backward")))
    phases = {phase.name: phase for phase in analyze_trace(trace.write(tmp_path)).phases}
    assert {name: (phase.calls, phase.part, us(phase.gpu_busy_s)) for name, phase in phases.items()} == {
        "forward": (8, "training", 8000),
        "backward": (8, "training", 3200),
    }


def test_a_host_that_waits_in_each_step_has_steps_as_long_as_its_ranges(tmp_path):
    trace, steps = make_loop(MadeLoop(kernels=AHEAD.kernels, host=1000))
    summary = analyze_trace(trace.write(tmp_path))
    assert [(epoch.start_ns // 1000, epoch.end_ns // 1000) for epoch in summary.epochs] == [
        (step.host_start, step.host_end) for step in steps
    ]
    assert summary.warnings == []


@pytest.mark.parametrize("waits", [True, False])
def test_a_range_without_a_launch_is_no_step(tmp_path, waits):
    trace, steps = make_loop(MadeLoop(steps=5, waits=waits, stub=True))
    summary = analyze_trace(trace.write(tmp_path))
    assert len(summary.epochs) == len(steps) == 5
    assert summary.found.left_out == 1
    assert "1 of 6 steps launch nothing, and are left out" in summary.warnings


@QUICKLY
@given(made_loops())
def test_steps_are_as_long_as_the_slower_of_host_and_gpu(tmp_path, loop):
    trace, steps = make_loop(loop)
    summary = analyze_trace(trace.write(tmp_path))
    assert len(summary.epochs) == len(steps)
    measured, expected = (np.mean(lengths[1:]) for lengths in (lengths_of(summary), [step.length for step in steps]))
    assert measured == pytest.approx(expected, rel=0.02)


def test_steps_have_the_numbers_in_their_names(tmp_path):
    trace, _ = make_loop(MadeLoop(first=36))
    summary = analyze_trace(trace.write(tmp_path))
    assert [epoch.number for epoch in summary.epochs] == [*range(36, 44)]
    assert summary.own_numbers[3] == 38


def test_a_number_that_two_share_is_no_name(tmp_path):
    trace, _ = make_loop(MadeLoop(steps=4))
    make_loop(MadeLoop(steps=4, start=4000), trace)
    summary = analyze_trace(trace.write(tmp_path))
    assert [epoch.number for epoch in summary.epochs] == [None] * 8
    assert [*summary.own_numbers.values()] == [*range(1, 9)]
