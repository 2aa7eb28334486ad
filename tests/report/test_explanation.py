"""The generated sentences, with numbers small enough to check by eye."""

from speedproof.records.difference import Difference, Term
from speedproof.report.accounts import explain, split_difference
from speedproof.report.explanation import explain_difference


def term(kind, name, seconds, part="training"):
    return Term(kind=kind, part=part, name=name, a_s=1.0, b_s=1.0 + seconds, seconds_per_epoch=seconds, seconds_per_sample=None)


def test_the_largest_changes_are_named_with_their_sign():
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
        "An epoch, validation at its share, takes 2.00 s in Slow and 1.25 s in Quick: 0.750 s less. "
        "The time without a kernel changes by −0.880 s: waiting for data −0.900 s. "
        "The kernels' time changes by +0.120 s: backward +0.120 s. "
        "No rule explains 10.0 ms of it."
    )


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
        "1.00 s less an iteration under the profiler; 1.00 s of idle GPU (waiting for data) fall away."
    )
