"""Which ranges and kernels are a loop's iterations: the right ones, or none and why; never parts of one."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import LOADER, TraceBuilder
from tests.trace.loops import MadeLoop, kernel_lists, made_loops, make_loop
from tests.trace.readings import us

QUICKLY = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCANS, SOLVES = (("scan_a", 6), ("scan_b", 6)), tuple((f"solve_{'abcd'[place % 4]}", 2700) for place in range(40))


def mean_of(summary):
    return us(np.mean([epoch.duration_s for epoch in summary.steady_epochs]))


def test_kernels_that_repeat_but_hold_little_of_the_gpus_time_are_no_loop(tmp_path):
    # 100 times two scans of 6 us, 1.2 ms; and 40 solves of 2.7 ms, 108 ms, in another order each time.
    solves = tuple(SOLVES[place] for place in np.random.default_rng(0).permutation(40))
    trace, _ = make_loop(MadeLoop(steps=100, kernels=SCANS, host=60, waits=False, name=None, after=solves))
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.found.by, summary.found.unit) == ("nothing", "stretch")
    assert summary.warnings == [
        "the same 2 kernels are launched 99 times, but take only 1.1\xa0% of the GPU's time: they are not the loop's "
        "iterations",
        "no iterations were found: the whole trace counts as one stretch; name the range of an iteration (--epoch)",
    ]


def test_one_kernel_launched_again_and_again_is_a_loop(tmp_path):
    # Of 200 steps of 10 ms, each with one kernel of 7 ms, the last one's end does not show.
    trace, _ = make_loop(MadeLoop(steps=200, kernels=(("matmul", 7000),), host=10_000, name=None))
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.found.by, len(summary.epochs)) == ("repetition", 199)
    assert {us(epoch.duration_s) for epoch in summary.epochs} == {10_000}
    assert summary.warnings[0].endswith("and the last of them, whose end no launch shows")


def test_one_kernel_that_a_host_launches_in_bursts_is_a_loop_of_the_gpus_times(tmp_path):
    # Ten launches of 5 us each every 2 ms, while the GPU runs kernels of 199 us one after the other, 1 us apart.
    trace = TraceBuilder()
    for number in range(200):
        at = number // 10 * 2000 + number % 10 * 5
        trace.call("cudaLaunchKernel", at, at + 4, number)
        trace.kernel(100 + 200 * number, 299 + 200 * number, number, name="gemm")
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.found.by, summary.found.unit, len(summary.epochs)) == ("repetition", "iteration", 199)
    assert mean_of(summary) == pytest.approx(200)


def test_a_kernel_beside_others_or_now_and_then_is_no_loop(tmp_path):
    trace = TraceBuilder()
    for number, at in enumerate(np.cumsum([1, 300, 2, 900, 5, 40, 1, 2000, 8, 70, 3, 500] * 2) * 10):
        trace.call("cudaLaunchKernel", int(at), int(at) + 1, number)
        trace.kernel(int(at) + 2, int(at) + 9, number, name="gemm")
    assert analyze_trace(trace.write(tmp_path)).found.by == "nothing"


@pytest.mark.parametrize("gpu", [True, False])
def test_ranges_that_follow_each_other_again_and_again_are_a_loop(tmp_path, gpu):
    # Passes of 900 us, of three ranges of 300 us each; the last range of each ends 1 us before the next pass.
    siblings = ("reader", "backbone", "head")
    kernels = tuple((name, 50) for name in siblings)
    trace, _ = make_loop(MadeLoop(steps=30, kernels=kernels, host=900, name=None, siblings=siblings, gpu=gpu))
    summary = analyze_trace(trace.write(tmp_path))
    assert mean_of(summary) == pytest.approx(900, abs=1)
    if not gpu:
        assert (summary.found.by, summary.found.name, len(summary.epochs)) == ("ranges", "ranges that repeat", 30)
        assert summary.warnings == [
            "no range holds the loop: its 30 iterations are repetitions of the same 3 ranges, `reader` to `head` "
            "(they may be a model's layers)"
        ]
        assert [(phase.name, phase.calls) for phase in summary.phases] == [(name, 30) for name in siblings]


def test_what_is_left_out_is_stated_in_gpu_time(tmp_path):
    # Five steps of 600 us of kernels, and 9000 us of others behind them.
    trace, _ = make_loop(MadeLoop(steps=5, after=tuple((f"save_{letter}", 3000) for letter in "abc")))
    warnings = analyze_trace(trace.write(tmp_path)).warnings
    assert warnings == ["the steps hold 25\xa0% of the time in which the GPU runs kernels; the rest is left out"]


def layers(outer):
    """One inference of 6000 us: 16 layers `Identity_0` … of 15 us that launch 20 us each, then 16 of 25 us that launch 330."""
    trace, at, gpu = TraceBuilder(), 400, 400
    for number in range(32):
        wide, busy, name = (15, 20, "Identity_{}") if number < 16 else (25, 330, "/layer{}/Conv")
        trace.range(name.format(number), at, at + wide)
        trace.call("cudaLaunchKernel", at + 2, at + 6, number)
        gpu = max(gpu, at + 9) + busy
        trace.kernel(gpu - busy, gpu, number, name="identity" if number < 16 else f"conv_{'abcde'[number % 5]}")
        at += wide + 1
    trace.range(outer, 0, 6000)
    return trace


def test_layers_of_one_call_of_an_inference_engine_are_no_iterations(tmp_path):
    summary = analyze_trace(layers("ExecutionContext::execute").write(tmp_path))
    assert (summary.found.name, [us(epoch.duration_s) for epoch in summary.epochs]) == ("ExecutionContext::execute", [6000])


def test_a_family_that_holds_little_of_a_range_around_it_is_no_loop(tmp_path):
    summary = analyze_trace(layers("inference").write(tmp_path))
    # `Identity_#` holds 320 of 5600 us of what `inference` launches.
    assert summary.found.name != "Identity_#"


def test_ranges_of_one_name_and_very_different_lengths_are_no_iterations(tmp_path):
    trace, at = TraceBuilder(), 0
    for number, length in enumerate([10, 900, 12, 3000, 11, 700, 10, 2500] * 2):
        trace.range(f"part {number}", at, at + length)
        trace.call("cudaLaunchKernel", at, at + 1, number)
        trace.kernel(at + 2, at + length, number, name=f"k{'abcdefghijklmnop'[number]}")
        at += length
    summary = analyze_trace(trace.write(tmp_path))
    assert summary.found.by == "nothing"
    assert summary.warnings == [
        "ranges `part #` repeat, but are not the iterations, because they differ too much in length; what they launch takes "
        "100\xa0% of the GPU's time",
        "no iterations were found: the whole trace counts as one stretch; name the range of an iteration (--epoch)",
    ]


def test_ranges_that_were_set_aside_are_named_and_the_lengths_are_those_in_the_end(tmp_path):
    # A host that runs ahead launches 1400 us of kernels each 1000 us. `log #` marks one of three launches of each step.
    trace, steps = make_loop(MadeLoop(kernels=(("gemm", 900), ("relu", 400), ("adam", 100)), waits=False, name=None))
    for number, step in enumerate(steps):
        trace.range(f"log {number}", step.host_start + 666, step.host_start + 669)
    warnings = analyze_trace(trace.write(tmp_path)).warnings
    assert warnings[0] == (
        "ranges `log #` repeat, but are not the iterations, because less than half of the ranges and calls of their thread "
        "begin in them; what they launch takes 7.1\xa0% of the GPU's time"
    )
    assert warnings[1].startswith(
        "the loop's 7 iterations are repetitions of the same 3 kernels (they may be a model's layers)"
    )
    assert "80 % of them last 1.4 to 1.4" in warnings[1]
    assert warnings[2].startswith("the host runs ahead of the GPU")


@QUICKLY
@given(made_loops(least_steps=6, name=None), st.integers(0, 6), st.integers(0, 40))
def test_unmarked_steps_are_right_or_refused(tmp_path, loop, start_up, after):
    """What is launched before the loop comes once, what comes after it again and again in a random order."""
    before = tuple((f"tune_{'abcdef'[place]}", 2000) for place in range(start_up))
    names = np.random.default_rng(after).integers(0, 5, after)
    made = MadeLoop(**{**vars(loop), "start_up": before, "after": tuple((f"solve_{'abcde'[name]}", 900) for name in names)})
    trace, steps = make_loop(made)
    summary = analyze_trace(trace.write(tmp_path))
    if summary.found.by == "nothing":
        # More of the GPU's time is behind the loop than in it, or nearly as much.
        assert 900 * after > 0.9 * loop.busy * (loop.steps - 2)
    elif 900 * after < loop.busy * loop.steps:
        assert mean_of(summary) == pytest.approx(np.mean([step.length for step in steps[1:-1]]), rel=0.02)


@QUICKLY
@given(kernel_lists(), st.integers(4, 12), st.integers(2, 5), st.integers(600, 4000), st.booleans())
def test_passes_of_siblings_are_right(tmp_path, kernels, steps, siblings, host, gpu):
    names = tuple(["reader", "backbone", "neck", "head", "post"][:siblings])
    trace, made = make_loop(MadeLoop(steps=steps, kernels=kernels, host=host, name=None, siblings=names, gpu=gpu))
    summary = analyze_trace(trace.write(tmp_path))
    assert mean_of(summary) == pytest.approx(np.mean([step.length for step in made[1:-1]]), rel=0.02)


@QUICKLY
@given(st.integers(5, 40), st.integers(20, 3000), st.integers(20, 3000), st.booleans())
def test_launches_of_one_kernel_are_right(tmp_path, steps, busy, host, waits):
    assume(not waits or host > 5)
    trace, made = make_loop(MadeLoop(steps=steps, kernels=(("matmul", busy),), host=host, waits=waits, name=None))
    summary = analyze_trace(trace.write(tmp_path))
    assert mean_of(summary) == pytest.approx(np.mean([step.length for step in made[1:-1]]), rel=0.02)


@pytest.mark.parametrize(("name", "family"), [("ProfilerStep#{}", "ProfilerStep#"), ("step {}", "step #")])
@pytest.mark.parametrize("starts_up", [True, False])
def test_a_loop_of_a_second_thread_is_the_loop(tmp_path, name, family, starts_up):
    # Ten steps of 10 ms on a worker thread; the main thread marks at most two ranges before them, in which nothing runs.
    trace, _ = make_loop(MadeLoop(steps=10, kernels=(("gemm", 6000),), host=10_000, name=name, start=5000, thread=LOADER))
    if starts_up:
        trace.range("init 0", 0, 1000)
        trace.range("init 1", 2000, 3000)
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.found.name, [us(epoch.duration_s) for epoch in summary.epochs]) == (family, [10_000] * 10)


def test_steps_of_torch_on_a_second_thread_count_though_the_main_thread_launches_most(tmp_path):
    # The main thread launches 12 kernels in each of five batches of 20 ms, a worker three in each of ten steps of 10 ms.
    trace, _ = make_loop(MadeLoop(steps=10, host=10_000, name="ProfilerStep#{}", start=5000, thread=LOADER))
    make_loop(MadeLoop(steps=5, kernels=(("small", 10),) * 12, host=20_000, name="batch {}"), trace)
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.found.name, [us(epoch.duration_s) for epoch in summary.epochs]) == ("ProfilerStep#", [10_000] * 10)


def test_of_two_loops_that_which_the_gpu_works_for_is_taken(tmp_path):
    # Ten steps of 10 ms with 7.6 ms of kernels, 76 ms; then 200 of 300 us with 80 us, 16 ms, which launch more often.
    trace, _ = make_loop(MadeLoop(steps=10, kernels=(("gemm", 1900),) * 4, host=10_000, name="train {}"))
    make_loop(MadeLoop(steps=200, kernels=(("small", 20),) * 4, host=300, name="infer {}", start=100_000), trace)
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.found.name, [us(epoch.duration_s) for epoch in summary.epochs]) == ("train #", [10_000] * 10)


def make_uneven(lengths, steps_in=lambda number: 1, name="step {}"):
    """On the CPU: ranges of these lengths in turn, 1 us apart; each ends with some optimizer's steps of 2 us each."""
    trace, at = TraceBuilder(), 0
    for number, length in enumerate(lengths):
        trace.range(name.format(number), at, at + length)
        for place in range(steps_in(number)):
            trace.range("Optimizer.step#SGD.step", at + length - 3 * place - 3, at + length - 3 * place - 1)
        at += length + 1
    return trace


UNEVEN = [900, 100, 1000, 80, 1200, 90, 700, 100, 950, 80]


@pytest.mark.parametrize(
    ("steps_in", "name"),
    [
        (lambda number: 1, "step #"),
        (lambda number: 2, "step #"),  # two optimizers
        (lambda number: min(number, 1), "step #"),  # a gradient scaler skips the first
        (lambda number: 1 + number % 5, "Optimizer.step#SGD.step"),  # stages of different numbers of steps
        (lambda number: number % 2, "Optimizer.step#SGD.step"),  # parts of a step
    ],
)
def test_uneven_ranges_around_equally_many_steps_of_an_optimizer_are_the_iterations(tmp_path, steps_in, name):
    summary = analyze_trace(make_uneven(UNEVEN, steps_in).write(tmp_path, "kineto"))
    assert summary.found.name == name
    if name == "step #":
        assert [us(epoch.duration_s) for epoch in summary.epochs] == UNEVEN


def test_an_uneven_range_around_an_even_one_that_leaves_gaps_is_the_iteration(tmp_path):
    # Steps of 100 and 410 us in turn. From one `forward` to the next 150 and 360 us pass: these are alike.
    trace = TraceBuilder()
    for number in range(12):
        at, length, before = (255 * number, 100, 10) if number % 2 == 0 else (255 * number - 155, 410, 60)
        trace.range(f"step {number}", at, at + length)
        trace.range("forward", at + before, at + before + 30)
        for place in range(4):
            trace.range("layer", at + before + 1 + 7 * place, at + before + 5 + 7 * place)
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.found.name, [us(epoch.duration_s) for epoch in summary.epochs]) == ("step #", [100, 410] * 6)
