"""The generated sentences, with numbers small enough to check by eye."""

import pytest

from speedproof.report.accounts import Account, explain, split_difference
from speedproof.report.explanation import describe_gpu_use, explain_difference
from speedproof.results.summary import Epoch
from speedproof.results.trace_results import Difference, Term
from tests.report.example import Example
from tests.report.example_trace import example_summary


def term(kind, name, seconds, part="training"):
    return Term(kind=kind, part=part, name=name, a_s=1.0, b_s=1.0 + seconds, seconds_per_epoch=seconds, seconds_per_sample=None)


def test_the_largest_changes_are_named():
    difference = Difference(
        a="one", b="other", epochs_a=5, epochs_b=5, samples_a=None, samples_b=None, epoch_a_s=2.0, epoch_b_s=1.25,
        terms=[
            term("idle", "waiting for data", -0.9),
            term("gpu", "backward", 0.2),
            term("idle", "launch-bound", 0.02),
            term("gpu", "backward", -0.08, part="validation"),
        ],
        residual_s=0.01, total_s=-0.75, residual_per_sample_s=None, total_per_sample_s=None,
    )  # fmt: skip
    assert explain_difference(difference, "Slow", "Quick").replace("\N{NO-BREAK SPACE}", " ") == (
        "An epoch, with its share of validation, takes 2.00 s in Slow and 1.25 s in Quick: 0.750 s less. "
        "GPU idle time falls by 0.880 s: 0.900 s waiting for data. "
        "Kernel time rises by 0.120 s: 0.120 s backward. "
        "The cause of 10.0 ms is unknown."
    )


def test_changes_of_both_directions_have_a_sign():
    difference = Difference(
        a="one", b="other", epochs_a=5, epochs_b=5, samples_a=None, samples_b=None, epoch_a_s=2.0, epoch_b_s=1.5,
        terms=[term("idle", "waiting for data", -0.9), term("idle", "launch-bound", 0.4)],
        residual_s=0.0, total_s=-0.5, residual_per_sample_s=None, total_per_sample_s=None,
    )  # fmt: skip
    said = explain_difference(difference, "Slow", "Quick").replace("\N{NO-BREAK SPACE}", " ")
    assert "GPU idle time falls by 0.500 s: −0.900 s waiting for data, +0.400 s launch-bound. " in said
    assert "Kernel time does not change." in said


def test_what_is_no_epoch_is_not_called_one():
    gone = Term(
        kind="idle", part="training", name="waiting for data", a_s=2.0, b_s=1.0, seconds_per_epoch=-1.0, seconds_per_sample=None
    )
    found = Difference(
        a="one", b="other", unit="iteration", epochs_a=5, epochs_b=5, samples_a=None, samples_b=None,
        epoch_a_s=2.0, epoch_b_s=1.0, terms=[gone],
        residual_s=0.0, total_s=-1.0, residual_per_sample_s=None, total_per_sample_s=None,
    )  # fmt: skip
    said = explain_difference(found, "Slow", "Quick").replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith("An iteration of the trace takes 2.00 s in Slow and 1.00 s in Quick: 1.00 s less.")
    assert explain(*split_difference(found, "Slow", "Quick")).replace("\N{NO-BREAK SPACE}", " ") == (
        "1.00 s less per iteration under the profiler; it saves 1.00 s of idle GPU (waiting for data)."
    )


def test_a_small_second_reason_is_left_out_and_a_large_opposite_one_is_said():
    def explain_changes(**seconds):
        changed = {("gpu", f"kernels: {name}"): change for name, change in seconds.items()}
        slow, fast = ({key: base + change * share for key, change in changed.items()} for base, share in ((2.0, 0), (2.0, 1)))
        said = explain(Account("Slow", "iteration", slow), Account("Quick", "iteration", fast))
        return said.replace("\N{NO-BREAK SPACE}", " ")

    # 0.97 s less in all: softmax is all of it; copies, 3 %, are not worth a word; attention takes 0.4 s more.
    assert explain_changes(softmax=-1.34, copies=-0.03, attention=0.4) == (
        "0.970 s less per iteration under the profiler; it saves 1.34 s of softmax kernels, "
        "but adds 0.400 s of attention kernels."
    )
    assert explain_changes(softmax=-1.0, attention=0.2) == (
        "0.800 s less per iteration under the profiler; it saves 1.00 s of softmax kernels, "
        "but adds 0.200 s of attention kernels."
    )
    assert explain_changes(softmax=1.0, attention=-0.1) == (
        "0.900 s more per iteration under the profiler; it adds 1.00 s of softmax kernels."
    )


def test_kernels_and_idle_gpu_are_summed_if_no_single_cause_is_most_of_them():
    slow = {("gpu", "backward"): 0.7, ("gpu", "forward"): 0.3, ("idle", "waiting for data"): 0.4, ("idle", "unknown"): 0.2}
    fast = dict.fromkeys(slow, 0.1)
    # Kernels 0.6 + 0.2 s less, of which 0.6 s are less than 80 %; idle GPU 0.3 + 0.1 s less.
    said = explain(Account("Slow", "epoch", slow), Account("Quick", "epoch", fast)).replace("\N{NO-BREAK SPACE}", " ")
    assert said == (
        "1.20 s less per epoch under the profiler; it saves 0.800 s of kernels (0.600 s of it backward) "
        "and 0.400 s of idle GPU (0.300 s of it waiting for data)."
    )


def test_a_sum_of_kernels_hides_none_that_takes_longer():
    slow = {("gpu", "backward"): 0.3, ("gpu", "a"): 0.6, ("gpu", "b"): 0.6, ("gpu", "c"): 0.7}
    fast = {("gpu", "backward"): 1.0, ("gpu", "a"): 0.1, ("gpu", "b"): 0.1, ("gpu", "c"): 0.1}
    said = explain(Account("Slow", "epoch", slow), Account("Quick", "epoch", fast)).replace("\N{NO-BREAK SPACE}", " ")
    assert said == (
        "0.900 s less per epoch under the profiler; it saves 0.600 s of c kernels and 0.500 s of a kernels, "
        "but adds 0.700 s of backward kernels."
    )


@pytest.mark.parametrize(
    ("validating", "said"),
    [
        ((), "70 % of the time."),
        ((3,), "70 % of the time, 90 % in epochs that do not validate."),
        ((2, 3), "70 % of the time."),
    ],
)
def test_how_busy_a_gpu_is_while_it_trains_stands_beside_all_of_it(validating, said):
    """Of epochs of 10 s, the first of which warms up: 9 s and 5 s of work."""
    epochs = [
        Epoch(
            index=index, start_ns=0, end_ns=10**10, duration_s=10.0, training_s=10.0, validates=index in validating,
            kernel_busy_fraction=busy, gpu_busy_fraction=busy,
        )
        for index, busy in ((1, 0.1), (2, 0.9), (3, 0.5))
    ]  # fmt: skip
    summary = example_summary("fast", Example(), "2025.3").model_copy(update={"epochs": epochs})
    told = describe_gpu_use("Quick", summary).replace("\N{NO-BREAK SPACE}", " ")
    assert told.startswith(f"Quick keeps its GPU busy {said}")
