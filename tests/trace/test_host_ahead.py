"""Iterations of hosts that run ahead, of stubs without a launch, and with numbers of their own."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import TraceBuilder
from tests.trace.loops import MadeLoop, made_loops, make_loop
from tests.trace.readings import us

QUICKLY = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        "after the host's own end, at most 3.20\xa0ms"
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


def expected_of(steps):
    return [step.length for step in steps]


@pytest.mark.parametrize(
    "more",
    [
        {"kernels": (("gemm", 900),), "start_up": (("init", 50),)},  # behind by less than a step, always about the same
        {"waits_every": 3},  # behind by one step more each time, until the host waits
        {"queue": 4},  # behind by up to four kernels
        {"copy": 3000},  # and copies of a stream of their own fall behind further and further
        {"copy": 3000, "waits_every": 4, "queue": 5},
    ],
)
def test_each_step_is_as_long_as_the_gpu_takes_however_far_it_is_behind(tmp_path, more):
    trace, steps = make_loop(MadeLoop(**{"kernels": AHEAD.kernels, "host": 1000, "waits": False} | more))
    assert lengths_of(analyze_trace(trace.write(tmp_path))) == expected_of(steps)


def test_steps_that_a_host_passes_fast_and_then_slowly_are_the_steps(tmp_path):
    # Of the ranges half last 100 us, half 1903 and more: the host waits in each second one. The GPU takes 1000 us for each.
    trace, steps = make_loop(MadeLoop(kernels=(("gemm", 1000),), host=100, waits=False, waits_every=2))
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.found.by, lengths_of(summary)) == ("ranges", expected_of(steps))


@pytest.mark.parametrize("parallel", [True, False])
def test_a_host_whose_kernels_have_no_known_launch_keeps_its_own_steps(tmp_path, parallel):
    trace, steps = make_loop(AHEAD)
    if parallel:  # a kernel on another stream that is launched in step 2 and ends with the last step
        trace.call("cudaLaunchKernel", 1100, 1102, 99)
        trace.kernel(1105, steps[-1].end, 99, stream=9)
        why = "it works on several steps at once"
    else:  # those of the last four steps
        for kernel in trace.rows["kernels"][8:]:
            kernel["correlation"] = None
        trace.rows["api"] = [call for call in trace.rows["api"] if call["correlation"] <= 8]
        why = "the launches of 8 of 16 kernels are not in the trace"
    summary = analyze_trace(trace.write(tmp_path), "step #")
    assert lengths_of(summary) == [1000] * len(summary.epochs)
    assert f"it is not known when the GPU ends a step ({why}): each ends when the host ends it" in summary.warnings


def test_a_kernel_between_others_of_its_stream_was_launched_between_them(tmp_path):
    trace, steps = make_loop(AHEAD)
    for kernel in trace.rows["kernels"][4::4]:  # the first one of each second step: its neighbours are of other steps
        kernel["correlation"] = None
    trace.rows["kernels"][1]["correlation"] = None  # the last one of the first step is as late as anything
    assert "it is not known" in analyze_trace(trace.write(tmp_path / "between")).warnings[0]

    trace, steps = make_loop(MadeLoop(**{**vars(AHEAD), "kernels": (("gemm", 500), ("relu", 400), ("adam", 500))}))
    for kernel in trace.rows["kernels"][1::3]:
        kernel["correlation"] = None
    assert lengths_of(analyze_trace(trace.write(tmp_path / "inside"))) == expected_of(steps)


def test_steps_without_work_while_the_gpu_is_behind_are_left_out(tmp_path):
    # Ten steps of 1000 us; the first four launch 3000 us each, the others nothing: at 10 000 us the GPU is at the fourth.
    trace = TraceBuilder()
    for number in range(10):
        trace.range(f"step {number}", 1000 * number, 1000 * number + 1000)
        if number < 4:
            trace.call("cudaLaunchKernel", 1000 * number, 1000 * number + 2, number)
            trace.kernel(3000 * number + 5, 3000 * number + 3005, number, name="gemm")
    summary = analyze_trace(trace.write(tmp_path))
    assert lengths_of(summary) == [3005, 3000, 3000, 3000]
    assert summary.found.left_out == 6
    assert (
        "6 of 10 steps launch no GPU work, and are over before the GPU has ended earlier ones: they are left out"
        in summary.warnings
    )


def test_ranges_without_a_duration_are_stated(tmp_path):
    trace, _ = make_loop(MadeLoop(steps=4))
    trace.range("step 4", 4200, 4200)
    summary = analyze_trace(trace.write(tmp_path))
    assert (len(summary.epochs), summary.found.left_out) == (4, 1)
    assert summary.warnings == ["1 of 5 ranges `step #` have no duration, and are left out"]


def test_a_step_whose_kernel_is_certainly_missing_is_left_out(tmp_path):
    # Twenty launches of two steps are not in the trace, their kernels are. The last launch is, and no kernel follows it.
    trace, steps = make_loop(MadeLoop(steps=2, kernels=(("gemm", 40),) * 10))
    for kernel in trace.rows["kernels"]:
        kernel["correlation"] = None
    trace.rows["api"] = [call for call in trace.rows["api"] if call["correlation"] is None]
    trace.call("cudaLaunchKernel", steps[0].host_start + 10, steps[0].host_start + 12, 50)
    trace.kernel(steps[0].host_start + 13, steps[0].host_start + 14, 50, stream=8)
    trace.call("cudaLaunchKernel", steps[1].host_end - 10, steps[1].host_end - 8, 51)
    summary = analyze_trace(trace.write(tmp_path), "step #")
    assert len(summary.epochs) == summary.found.left_out == 1
    assert (
        "the kernels of 50% of the launches are missing: 1 of 2 steps lack some of their GPU work and are left out"
        in summary.warnings
    )


@QUICKLY
@given(
    made_loops(waits=False),
    st.sampled_from([0, 2, 3, 5]),
    st.sampled_from([0, 1, 3, 8]),
    st.sampled_from([0, 200, 4000]),
    st.booleans(),
)
def test_each_step_of_a_host_that_runs_ahead_is_right_or_refused(tmp_path, loop, waits_every, queue, copy, marked):
    made = MadeLoop(**{**vars(loop), "waits_every": waits_every, "queue": queue, "copy": copy})
    trace, steps = make_loop(made if marked else MadeLoop(**{**vars(made), "name": None}))
    summary = analyze_trace(trace.write(tmp_path))
    if marked:
        assert lengths_of(summary) == pytest.approx(expected_of(steps), rel=0.025)
    elif summary.found.by == "repetition":  # where an iteration begins is then open: all of them are as long as the steps
        measured, expected = np.mean(lengths_of(summary)[1:-1]), np.mean(expected_of(steps)[1:-1])
        assert measured == pytest.approx(expected, rel=0.25)


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
