"""When two traces' iterations are the same work, when that is a condition, and when they cannot be compared."""

from dataclasses import replace

import pytest

from speedproof.report.trace_phrases import describe_epoch_change
from speedproof.trace.diff import analyze_pair
from speedproof.trace.iterations import Choice
from speedproof.trace.similarity import list_doubts
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import RecordError
from tests.trace.handmade import TraceBuilder
from tests.trace.loops import MadeLoop, make_loop
from tests.trace.readings import analyze_once, compare_traces, us

STEP = MadeLoop(host=700, waits=False, steps=4)  # a step of 700, and kernels of 600: gemm, relu, adam
MICRO = (("gemm", 75), ("relu", 25), ("adam", 50))


def compare(tmp_path, one, other):
    return compare_traces(*(make_loop(loop)[0].write(tmp_path / name) for name, loop in (("a", one), ("b", other))))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(STEP, name="micro step {}", kernels=MICRO, host=175), "their ranges are `step #` and `micro step #`"),
        (replace(STEP, kernels=4 * STEP.kernels, host=2800), "B launches the same kernels 4 times as often in it"),
        # Of 600, the optimizer's 200 are of a kind that both have.
        (
            replace(STEP, kernels=(("conv", 300), ("batch_norm", 100), ("sgd", 200))),
            "33% of their GPU time is in kinds of kernels that both have",
        ),
    ],
)
def test_the_condition_of_a_difference_comes_first(tmp_path, other, why):
    difference = compare(tmp_path, STEP, other)
    assert difference.condition == f"a step is the same work in both ({why})"
    assert "".join(map(str, describe_epoch_change("A", "B", difference))).startswith(f"Only if {difference.condition}: ")


@pytest.mark.parametrize(
    "other",
    [
        replace(STEP, host=900),
        replace(STEP, name="Step_{}"),
        replace(STEP, kernels=(("gemm", 100), ("relu", 100), ("adam", 200))),
        replace(STEP, kernels=(*STEP.kernels, ("softmax", 50))),
        replace(STEP, steps=12, start_up=(("load", 9000),)),
    ],
)
def test_the_same_work_is_compared_without_a_condition(tmp_path, other):
    assert compare(tmp_path, STEP, other).condition is None


def test_other_ranges_with_wholly_different_kernels_are_refused(tmp_path):
    other = replace(STEP, name="decode step {}", kernels=(("flash", 300), ("softmax", 100), ("topk", 200)))
    with pytest.raises(RecordError, match="`step #` and `decode step #`, share no kernels; give traces of the same"):
        compare(tmp_path, STEP, other)


def test_different_gpus_are_named(tmp_path):
    one, other = (analyze_trace(make_loop(STEP)[0].write(tmp_path / gpu, gpu=gpu)) for gpu in ("H100", "A100"))
    assert list(list_doubts(one, other)) == ["they ran on different GPUs (H100; A100)"]


def on_cpu(step, name="step {}", optimizer="Optimizer.step#SGD.step"):
    """Six steps on the CPU without a gap, each of which ends with an optimizer's step of 5 us."""
    trace = TraceBuilder()
    for number in range(6):
        at = number * step
        if name:
            trace.range(name.format(number), at, at + step)
        if optimizer:
            trace.range(optimizer, at + step - 6, at + step - 1)
    return trace


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (on_cpu(100), on_cpu(80, name=None), ["Optimizer.step#SGD.step"] * 2),
        (on_cpu(100), on_cpu(80, name="batch {}"), ["step #", "batch #"]),  # the names of two programs
        (on_cpu(100, optimizer=None), on_cpu(80, name="my step {}", optimizer=None), ["step #", "my step #"]),
    ],
)
def test_traces_are_compared_by_a_range_that_both_have(tmp_path, one, other, names):
    folders = [trace.write(tmp_path / name, "kineto") for name, trace in (("a", one), ("b", other))]
    summaries, _ = analyze_pair(*folders, analyze_once)
    assert [summary.found.name for summary in summaries] == names
    changed = "its iterations are `Optimizer.step#SGD.step`, as in the other trace; by itself it would have `step #`"
    assert (changed in summaries[0].warnings) == (names[0] != "step #")
    assert [us(summary.steady_epochs[-1].duration_s) for summary in summaries] == [100, 80]


def test_steps_of_an_optimizer_are_not_compared_with_ranges_of_the_program_unless_the_user_says_so(tmp_path):
    one, other = on_cpu(100, name=None), on_cpu(80, optimizer=None)
    folders = [trace.write(tmp_path / name, "kineto") for name, trace in (("a", one), ("b", other))]
    with pytest.raises(RecordError, match=r"^A and B: .* a step `Optimizer.step#SGD.step`, .* `step #`; .* \(--epoch\)"):
        analyze_pair(*folders, analyze_once)
    by_name = Choice("step #|Optimizer.*")
    summaries, _ = analyze_pair(*folders, analyze_once, (by_name, by_name))
    assert [summary.found.unit for summary in summaries] == ["step", "step"]
