"""When two traces' iterations are the same work, when that is a condition, and when they cannot be compared."""

from dataclasses import replace

import pytest

from speedproof.report.trace_phrases import describe_epoch_change
from speedproof.trace.similarity import list_doubts
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import RecordError
from tests.trace.loops import MadeLoop, make_loop
from tests.trace.readings import compare_traces

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
