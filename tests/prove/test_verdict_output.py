"""What a verdict looks like on a terminal: bold first, in colour there alone, folded, and the report's path last."""

import io

import pytest
from rich.console import Console

from speedproof.results.trace_results import Difference, Term
from speedproof.run.proof.verdict import Judged, MeasuredVariant, Verdict, add_terms
from speedproof.run.proof.verdict_output import print_verdict
from tests.stated_verdicts import state

HEADLINE = "Inconclusive: B (… --in-place) measured 1.23× as fast as A (python train_adam.py) on this machine, by the epoch"
NEXT = "speedproof prove 'python train_adam.py' 'python train_adam.py --in-place' --epoch-s 'took (\\S+) s' --out /tmp/p"
WIDTHS = (60, 80, 120, 200)


@pytest.fixture
def verdict():
    candidate = Judged(
        name="B (… --in-place)", command="x", against="x", outcome="inconclusive", ratio=1.23, low=0.9, high=1.6,
        observed=1.18, pairs=4, quality=None, objections=[], more="12 pairs in total would decide",
        headline=HEADLINE, sentence=f"{HEADLINE} (95 % interval 0.900–1.60×, 4 pairs of runs; 1.18× by our clock).",
    )  # fmt: skip
    variants = [
        MeasuredVariant(name="A", label="python train_adam.py", command="x", value=0.535, low=0.483, high=0.592),
        MeasuredVariant(name="B", label="… --in-place", command="x", value=0.436, low=0.349, high=0.544),
    ]
    return Verdict(
        outcome="inconclusive", exit_status=2, claim=None, metric="training_epoch_s", source="lines", rounds=4,
        equivalence_margin=0.02, trust_reported=None, variants=variants, candidates=[candidate], why="no trace was taken",
        next_command=NEXT, report="/tmp/p/results/report.html",
    )  # fmt: skip


def show(verdict, monkeypatch, width, terminal=False):
    monkeypatch.setenv("COLUMNS", str(width)) if width else monkeypatch.delenv("COLUMNS", raising=False)
    file = io.StringIO()
    print_verdict(verdict, Console(file=file, width=width or 120, force_terminal=terminal, highlight=False, markup=False))
    return file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_longer_than_the_terminal_is_wide_and_no_number_is_broken(verdict, monkeypatch, width):
    lines = [line.rstrip() for line in show(verdict, monkeypatch, width).splitlines()]
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("Inconclusive: ") and lines[-1] == "Report: /tmp/p/results/report.html"
    row = next(line for line in lines if line.startswith(" B ")).split()
    assert row == ["B", "0.436", "s", "0.349–0.544", "s", "1.23×", "1.18×", "inconclusive"]
    assert "A: python train_adam.py" in lines and "B: … --in-place" in lines


@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_the_next_command_can_be_copied(verdict, monkeypatch, width):
    text = show(verdict, monkeypatch, width)
    shown = text[text.index("Next: ") + 6 : text.index("\nReport:")]
    assert " ".join(shown.replace("\\\n", " ").split()) == NEXT  # a shell joins such lines
    assert width or "\n" not in shown


def test_only_a_terminal_gets_styles_and_none_that_asks_for_no_colour_gets_one(verdict, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" not in show(verdict, monkeypatch, 200)
    assert show(verdict, monkeypatch, 200, terminal=True).startswith(f"\x1b[1;33m{HEADLINE}\x1b[0m (95 %")
    monkeypatch.setenv("NO_COLOR", "1")
    assert show(verdict, monkeypatch, 200, terminal=True).startswith(f"\x1b[1m{HEADLINE}\x1b[0m (95 %")


def test_a_candidate_has_the_three_largest_terms_of_its_own_traces():
    def term(name, a_s, b_s):
        more = {"seconds_per_epoch": b_s - a_s, "seconds_per_sample": None}
        return Term(kind="idle", part="training", name=name, a_s=a_s, b_s=b_s, **more)

    # As an analysis writes them: largest change first.
    terms = [term("data wait", 0.9, 0.1), term("copies", 0.1, 0.3), term("launches", 0.2, 0.1), term("other", 0.2, 0.19)]
    differences = {("a", "b"): Difference.model_construct(terms=terms)}
    (judged,) = add_terms(state(), differences, ["a", "b"]).candidates
    assert [(one.name, round(one.seconds, 9)) for one in judged.terms] == [
        ("data wait", -0.8),
        ("copies", 0.2),
        ("launches", -0.1),
    ]
    (judged,) = add_terms(state(), {}, ["a", "b"]).candidates
    assert judged.terms == []
