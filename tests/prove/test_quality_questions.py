"""Whether a quality is a loss, and whether all commands print one unit, is asked before anything is timed."""

import pytest

from speedproof.run.proof.judging import tell_source
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.loss_names import find_loss_name
from speedproof.run.proof.progress import Progress, Records
from speedproof.run.proof.quality_questions import question_direction, question_units
from speedproof.run.proof.request import check_request
from speedproof.run.proof.workspace import ProofBasis, Snapshot, write_claims
from speedproof.util.errors import ConfigError
from tests.prove.recorded import leave_experiment

COMMANDS = ["python a.py", "python b.py"]


def ask(**values):
    return check_request({"commands": COMMANDS, "epoch_s": r"took (\S+)", **values}, "here")


@pytest.mark.parametrize(
    ("pattern", "is_column", "word"),
    [
        (r"val_loss: (\S+)", False, "loss"),
        (r"(?i)loss\s*=\s*([\d.]+)", False, "loss"),
        (r"word error rate: (\S+) %", False, "error"),
        (r"\berr (\S+)", False, "err"),
        (r"ppl (?P<quality>\S+)", False, "ppl"),
        ("valLoss", True, "loss"),
        ("eval/MAE", True, "mae"),
        ("rmse", True, "rmse"),
        ("perplexity", True, "perplexity"),
        # Not of the quality: what stands before it, or behind it; nor a score that is named after a loss.
        (r"loss \S+,? acc (\S+)", False, None),
        (r"acc (\S+) loss \S+", False, None),
        (r"loss 0.1 accuracy (\S+)", False, None),
        (r"terror (\S+)", False, None),
        (r"steps per second (\S+)", False, None),
        ("val_acc", True, None),
        ("lossless_share", True, None),
        ("f1_score", True, None),
    ],
)
def test_the_name_of_a_loss_is_found_in_what_names_the_quality(pattern, is_column, word):
    assert find_loss_name(pattern, is_column) == word


def test_a_loss_without_a_direction_is_refused_with_the_remedy():
    with pytest.raises(ConfigError, match=r"quality: 'loss' sounds as if lower is better; add better lower"):
        ask(quality=r"loss (\S+)")
    with pytest.raises(ConfigError, match="quality: 'mse' sounds"):
        ask(epoch_s="took", file="log.csv", quality="val_mse")


def test_a_loss_of_which_higher_is_better_by_the_user_s_word_is_questioned_in_one_line():
    assert question_direction(ask(quality=r"loss (\S+)", better="lower")) is None
    assert question_direction(ask(quality=r"acc (\S+)")) is None
    assert question_direction(ask(quality=r"loss (\S+)", better="higher")) == (
        "quality: 'loss' sounds as if lower is better, but with --better higher the highest value counts as the best"
    )


@pytest.mark.parametrize(
    ("qualities", "is_questioned"),
    [
        ({"a": 90.1, "b": 0.903}, True),
        ({"a": 0.45, "b": 82.0}, True),
        ({"a": 0.903, "b": 0.45}, False),
        ({"a": 90.1, "b": 45.0}, False),
        ({"a": 0.95, "b": 12.0}, False),  # a loss that fell: 13 times
        ({"a": 0.03, "b": 3.1}, False),  # of a training that failed
        ({"a": 90.1, "b": None}, False),
        ({"a": None, "b": None}, False),
    ],
)
def test_a_percentage_beside_a_share_is_questioned_and_refused_if_it_is_judged(qualities, is_questioned):
    said = question_units(qualities, ask(quality=r"acc (\S+)"))
    assert (said is not None) == is_questioned, said
    judged = ask(quality=r"acc (\S+)", margin=0.01)
    if is_questioned:
        with pytest.raises(
            ConfigError, match="if one is a percentage and the other a fraction, print both the same way, or leave"
        ):
            question_units(qualities, judged)
    else:
        assert question_units(qualities, judged) is None


def follow_rounds(place, quality, judges_quality=True):
    """What is printed of four rounds whose runs have these qualities."""
    request = check_request({"commands": COMMANDS, "rounds": 4}, "here")
    named = dict(zip("ab", COMMANDS, strict=True))
    measured = ProofBasis(place / "out", request, named, Snapshot(), {}).describe(request.reading("process"), {})
    write_claims(measured)
    said, status = [], Status(quiet=True)
    status.say = said.append
    progress = Progress(measured.config.measurement, {"a": "A", "b": "B"}, {"a": 1.0, "b": 1.0}, status, judges_quality)
    records = Records(place / "out/results/experiments/experiment-1", progress)
    leave_experiment(place / "out", measured.config, lambda variant, number: 1.0, quality)
    records.look()
    return said


def test_a_program_whose_quality_no_seed_changes_is_named_after_two_rounds(place):
    said = follow_rounds(place, lambda variant, number: 0.9 if variant == "a" else 0.9 + number / 1000)
    assert [text[:12] for text in said] == ["round 1 of 4", "round 2 of 4", "quality: A h", "round 3 of 4", "round 4 of 4"]
    assert said[2] == ("quality: A has the same 0.9 with 2 seeds; if it ignores SPEEDPROOF_SEED, --margin cannot be judged")


@pytest.mark.parametrize(
    ("quality", "judges_quality"),
    [
        (lambda variant, number: 0.9 + number / 1000, True),
        (lambda variant, number: 0.9, False),
        (None, True),
        (lambda variant, number: 0.8 if number == 1 else 0.9, True),  # later rounds agree with the first
    ],
)
def test_seeds_that_change_a_quality_or_need_not_are_no_question(place, quality, judges_quality):
    assert [text for text in follow_rounds(place, quality, judges_quality) if "seed" in text] == []


@pytest.mark.parametrize("margin", [0.01, None])
def test_the_plan_says_that_a_margin_needs_seeds(margin):
    said = []
    tell_source(ask(quality=r"acc (\S+)", margin=margin), None, said.append)
    needs = "quality: compared across seeds, one per round; every program must read its seed from SPEEDPROOF_SEED"
    assert (needs in said) == (margin is not None)
