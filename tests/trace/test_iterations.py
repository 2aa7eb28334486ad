"""What an iteration is, in traces of loops that nobody wrote for us."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import RecordError
from tests.trace.handmade import TraceBuilder
from tests.trace.loops import MadeLoop, make_loop
from tests.trace.readings import account_of, idle_gaps_of, phases_of, us


def loading_between(steps=5, name="step {}", load=600, compute=100, trace=None, start=0):
    """Steps of 100 us, each 80 % kernels, and 600 us between two of them in which data is loaded."""
    trace = trace or TraceBuilder()
    for number in range(steps):
        at = start + (load + compute) * number
        trace.range(name.format(number), at, at + compute)
        trace.call("cudaLaunchKernel", at + 1, at + 2, at)
        trace.kernel(at + compute // 10, at + compute * 9 // 10, at)
        trace.range("next batch", at + compute, at + compute + load)
    return trace


@pytest.mark.parametrize(
    ("name", "family", "unit"),
    [("step {}", "step #", "step"), ("Batch{}", "Batch#", "iteration"), ("ProfilerStep#{}", "ProfilerStep#", "step")],
)
def test_an_iteration_lasts_from_start_to_start_where_ranges_leave_gaps(tmp_path, name, family, unit):
    summary = analyze_trace(loading_between(name=name).write(tmp_path))
    assert (summary.found.name, summary.found.unit, summary.found.by) == (family, unit, "ranges")
    # Five ranges of 100 us in 2900; the fifth iteration ends with the batch that follows each of them.
    assert summary.found.coverage == pytest.approx(500 / 2900)
    assert [us(epoch.duration_s) for epoch in summary.epochs] == [700] * 5
    assert summary.found.left_out == 0
    assert {round(epoch.gpu_busy_fraction, 6) for epoch in summary.epochs} == {round(80 / 700, 6)}
    assert summary.warnings[0].startswith(f"ranges `{family}` cover 17% of the time")
    assert us(phases_of(summary)["next batch", "training"].wall_s) == 600 * 5
    assert idle_gaps_of(summary)["waiting for data", ""] == (5, 600 * 5)
    assert sum(account_of(summary).values()) == 700 * 5


@pytest.mark.parametrize(
    ("validation_us", "after", "last_us"),
    [
        (450, ["validation"], [950]),
        (450, [], []),
        (450, ["test"], []),
        (450, ["validation", "validation"], [950]),  # what comes once more than after the others is no part of the loop
        (450, ["validation", "test"], [950]),
        (300, ["validation"], []),  # of each iteration 200 us are of no range: who knows how long the last one is
    ],
)
def test_the_last_iteration_ends_with_what_follows_each(tmp_path, validation_us, after, last_us):
    trace = TraceBuilder()
    for at in (0, 1000, 2000):
        trace.range("epoch", at, at + 500)
        for number, name in enumerate(["validation"] if at < 2000 else after):
            begin = at + 500 + validation_us * number
            trace.range(name, begin, begin + validation_us)
    summary = analyze_trace(trace.write(tmp_path))
    assert [us(epoch.duration_s) for epoch in summary.epochs] == [1000, 1000, *last_us]


def test_ranges_that_fill_the_loop_are_the_iterations(tmp_path):
    summary = analyze_trace(loading_between(load=10).write(tmp_path))
    assert [us(epoch.duration_s) for epoch in summary.epochs] == [100] * 5
    assert (summary.found.left_out, summary.warnings) == (0, [])


def test_without_ranges_or_kernels_that_repeat_an_optimizers_steps_are_the_iterations(tmp_path):
    trace = TraceBuilder()
    for at in range(0, 500, 100):
        trace.range("Optimizer.step#Adam.step", at, at + 10)
        trace.range("Optimizer.zero_grad#Adam.zero_grad", at + 15, at + 16)
    trace.range("Optimizer.step#SGD.step", 510, 520)  # another one, which steps once
    summary = analyze_trace(trace.write(tmp_path, "kineto"))
    assert (summary.found.name, summary.found.unit) == ("Optimizer.step#Adam.step", "step")
    assert [us(epoch.duration_s) for epoch in summary.epochs] == [100] * 4


def test_what_is_around_the_next_range_does_not_follow_the_one_before(tmp_path):
    # Twelve batches of 10 ms, each around an optimizer's step that launches a kernel. The end of the last step does not show.
    trace, _ = make_loop(MadeLoop(steps=12, kernels=(("gemm", 450),) * 20, host=10_000, name="train {}"))
    for at in range(0, 120_000, 10_000):
        trace.range("Optimizer.step#SGD.step", at + 9500, at + 9800)
        trace.range("Optimizer.zero_grad#SGD.zero_grad", at + 9810, at + 9860)
    summary = analyze_trace(trace.write(tmp_path), "Optimizer.step.*")
    assert [us(epoch.duration_s) for epoch in summary.epochs] == [10_000] * 11


def test_what_lies_far_apart_is_no_iteration(tmp_path):
    trace = loading_between(steps=4)
    loading_between(steps=4, trace=trace, start=100_000)
    summary = analyze_trace(trace.write(tmp_path))
    # Eight ranges: the fourth is followed by an evaluation of 97 ms.
    assert [us(epoch.duration_s) for epoch in summary.epochs] == [700] * 7
    assert "1 of them are followed by a gap" in summary.warnings[1]


def test_a_step_of_a_family_ends_where_the_next_begins_though_others_were_asked_for(tmp_path):
    folder = loading_between().write(tmp_path)
    assert [(epoch.start_ns // 1000, us(epoch.duration_s)) for epoch in analyze_trace(folder, "step [13]").epochs] == [
        (700, 700), (2100, 700),
    ]  # fmt: skip
    assert len(analyze_trace(folder, "step #").epochs) == 5


def nested():
    trace = TraceBuilder()
    for epoch in range(3):
        trace.range(f"Epoch {epoch}", 1000 * epoch, 1000 * epoch + 1000)
        for step in range(4):
            at = 1000 * epoch + 250 * step
            trace.range(f"step {step}", at, at + 250)
            trace.range("fwd", at, at + 100)
            trace.range("opt", at + 100, at + 250)
            trace.call("cudaLaunchKernel", at + 1, at + 2, at)
            trace.kernel(at + 10, at + 200, at)
    return trace


def test_nested_candidates_are_all_there(tmp_path):
    folder = nested().write(tmp_path)
    summary = analyze_trace(folder)
    assert (summary.found.unit, len(summary.epochs)) == ("epoch", 3)
    assert {one.name: one.count for one in summary.candidates} == {"Epoch #": 3, "step #": 12, "fwd": 12, "opt": 12}
    assert list(phases_of(summary)) == [("step #", "training")]
    steps = analyze_trace(folder, "step #")
    assert (steps.found.unit, len(steps.epochs)) == ("step", 12)
    assert list(phases_of(steps)) == [("fwd", "training"), ("opt", "training")]


def test_compiled_graphs_are_phases_with_short_names(tmp_path):
    graphs = {"CompiledFxGraph fxm5fumj": "mxliqizrgejthnosl7ydlsjj2sahklc7syl5w2i5xur4", "CompiledFxGraph fxm6fumj": "q7"}
    trace = TraceBuilder()
    for at in (0, 1000, 2000):
        trace.range(f"step {at}", at, at + 990)
        for begin, (short, rest) in enumerate(graphs.items()):
            trace.range(f"## Call {short}{rest} ##", at + 100 + 400 * begin, at + 300 + 400 * begin)
    folder = trace.write(tmp_path)
    assert {phase.name: phase.calls for phase in analyze_trace(folder).phases} == dict.fromkeys(graphs, 3)
    found = analyze_trace(folder, epoch="CompiledFxGraph fxm5fumj").found
    assert (found.name, found.by) == ("CompiledFxGraph fxm5fumj", "ranges")


def test_phases_and_the_whole_are_chosen(tmp_path):
    folder = nested().write(tmp_path)
    chosen = analyze_trace(folder, phases={"forward": "fwd"})
    assert us(phases_of(chosen)["forward", "training"].wall_s) == 12 * 100
    with pytest.raises(RecordError, match="--phase forward=nothing: no range"):
        analyze_trace(folder, phases={"forward": "nothing"})
    whole = analyze_trace(folder, whole=True)
    assert (whole.found.unit, len(whole.epochs), whole.warnings) == ("stretch", 1, [])


def test_start_up_does_not_hide_the_loop(tmp_path):
    # A thousand calls before the loop: the steps hold but few of all.
    trace = TraceBuilder()
    for number in range(1000):
        trace.call("cudaMalloc", number, number + 1)
    loading_between(trace=trace, start=2000)
    assert analyze_trace(trace.write(tmp_path)).found.name == "step #"


def test_one_coinciding_name_hides_no_sibling(tmp_path):
    trace = TraceBuilder()
    for number in range(3):
        at = 100 * number
        trace.range(f"step {number}", at, at + 100)
        for place, name in enumerate(["Embed", "forward", "Loss", "Optimize"]):
            trace.range(name, at + 25 * place, at + 25 * place + 25)
            trace.range("Conv2d", at + 25 * place + 5, at + 25 * place + 10)
    summary = analyze_trace(trace.write(tmp_path))
    assert [name for name, _ in phases_of(summary)] == ["Embed", "forward", "Loss", "Optimize"]
    assert summary.transforms == []


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 999), st.integers(5, 1000), st.integers(3, 8))
def test_ranges_off_the_loop_make_no_wrong_share(tmp_path, offset, width, count):
    """Iterations of 1000 us, 600 of them kernels, whose ranges begin anywhere in them and are of any length."""
    trace = TraceBuilder()
    for number in range(count + 2):
        for place in range(10):
            at, correlation = 1000 * number + 100 * place, 10 * number + place
            trace.call("cudaLaunchKernel", at, at + 4, correlation)
            trace.kernel(at + 5, at + 65, correlation)
    for number in range(count):
        trace.range(f"Batch{number}", 1000 * number + offset, 1000 * number + offset + width)
    summary = analyze_trace(trace.write(tmp_path))
    shares = [epoch.kernel_busy_fraction for epoch in summary.epochs]
    if summary.found.by == "ranges" and summary.found.coverage < 0.9:
        assert {us(epoch.duration_s) for epoch in summary.epochs} == {1000}
        assert shares == pytest.approx([0.6] * (count - 1))
    else:  # ranges that fill the loop, or such short ones that they hold no launch: kernels tell, or nothing does
        assert shares == pytest.approx([0.6] * len(shares), abs=0.05)
