"""What a terminal shows of a verdict besides its sentence: the table, the whole process, and that nothing was run."""

import io
from types import SimpleNamespace

import pytest

from speedproof.config.model import Measurement
from speedproof.config.reading import Reading
from speedproof.results.comparison import StoppedExperiment
from speedproof.results.experiment import PlannedRun
from speedproof.run.known_formats import KNOWN_FORMATS
from speedproof.run.observer import EndedRun
from speedproof.run.proof.left_files import Snapshot
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.progress import Progress
from speedproof.run.proof.request import check_request
from speedproof.run.proof.verdict import judge, tabulate
from speedproof.run.proof.workspace import ProofBasis, write_claims
from speedproof.stats.metrics import PROCESS, TRAINING_EPOCH
from tests.prove.recorded import leave_experiment

READING = Reading(source="lines", epoch_s=r"took (\S+)")
TITLES = {"a": "sh a.sh", "b": "sh b.sh"}


@pytest.fixture
def compared(tmp_path):
    """A proof by the epoch: B takes half as long, and its process does, too."""
    request = check_request({"commands": list(TITLES.values()), "rounds": 4, "epoch_s": r"took (\S+)"}, "here")
    basis = ProofBasis(tmp_path / "out", request, TITLES, Snapshot(), {})
    measured = basis.describe(request.named_reading(), {"a": 3, "b": 3})
    write_claims(measured)
    evidence = leave_experiment(tmp_path / "out", measured.config, lambda name, n: (1.0 if name == "a" else 0.5) + n / 100)
    return request, evidence.comparison


def judged(compared, place, whole):
    """Return the verdict if the ratio of whole processes has these values."""
    request, comparison = compared
    ratios = [one.model_copy(update=whole if one.metric == PROCESS else {}) for one in comparison.ratios]
    comparison = comparison.model_copy(update={"ratios": ratios})
    return judge(comparison, request, TRAINING_EPOCH, READING, "report.html", place / "out")


@pytest.mark.parametrize(
    ("reading", "title", "said"),
    [
        (KNOWN_FORMATS[0].reading, ">step", "measured by step time"),
        (KNOWN_FORMATS[0].by_arrival().reading, ">interval between lines", "measured by the time between lines"),
    ],
)
def test_steps_and_intervals_are_not_called_epochs(compared, tmp_path, reading, title, said):
    request, comparison = compared
    verdict = judge(comparison, request, TRAINING_EPOCH, reading, "report.html", tmp_path / "out")
    assert tabulate(verdict)[0][1] == title
    assert said in verdict.candidates[0].sentence and "measured by training epoch" not in verdict.candidates[0].sentence


def test_the_table_has_the_reports_title_and_the_json_the_key(compared, tmp_path):
    verdict = judged(compared, tmp_path, {})
    assert tabulate(verdict)[0][1] == ">training epoch" and verdict.metric == "training_epoch_s"


def test_the_whole_process_is_named_if_its_outcome_is_another(compared, tmp_path):
    verdict = judged(compared, tmp_path, {"centre": 1.1, "low": 0.9, "high": 1.344, "outcome": "inconclusive"})
    said = "By the whole process, B (sh b.sh) measured 1.10× as fast as A (sh a.sh) (95 % interval 0.900–1.34×): inconclusive."
    assert said in [sentence.replace("\u00a0", " ") for sentence in verdict.further_sentences]


def test_it_is_not_if_the_outcome_is_the_same_or_the_sentence_has_it(compared, tmp_path):
    for whole in ({}, {"centre": 0.5, "low": 0.4, "high": 0.6, "outcome": "slower"}):
        assert judged(compared, tmp_path, whole).candidates[0].whole_process is None


def stopped_open(compared, place, claim=None, **stopped):
    """Return the verdict if rounds of 3 s ended after four without a decision, for the reason in `stopped`."""
    request, comparison = compared
    found = {"centre": 1.1, "low": 0.9, "high": 1.344, "outcome": "inconclusive"}
    origin = comparison.ratios[0].origin
    update = {
        "ratios": [one.model_copy(update=found) for one in comparison.ratios],
        "measured": [one.model_copy(update={"values": [1.5] * 4}) for one in comparison.measured],
        "stopped": [StoppedExperiment(experiment="experiment-1", rounds=4, most=24, budget_min=3.0, origin=origin, **stopped)],
    }
    request = request.model_copy(update={"rounds": None, "budget_min": 3.0, "claim": claim})
    return judge(comparison.model_copy(update=update), request, TRAINING_EPOCH, READING, "report.html", place / "out")


@pytest.mark.parametrize("claim", [None, ">= 1.1"])
def test_a_spent_budget_is_named_as_the_reason(compared, tmp_path, claim):
    verdict = stopped_open(compared, tmp_path, claim, reason="budget")
    more = "the budget of 3 min was spent after 4 rounds; with this much variation, 24 pairs may not decide"
    assert verdict.candidates[0].more == more


def test_the_time_of_the_rounds_that_would_decide_is_stated(compared, tmp_path):
    verdict = stopped_open(compared, tmp_path, reason="futile", reachable=24, needed=100)  # of 3 s: 5 min
    assert verdict.candidates[0].more.endswith("; 100 fixed rounds would in about 5 minutes (--rounds 100)")
    assert "--rounds 100" in verdict.next_command


def test_rounds_that_take_several_budgets_are_not_proposed(compared, tmp_path):
    verdict = stopped_open(compared, tmp_path, reason="futile", reachable=24, needed=440)  # of 3 s: 22 min, the budget is 3 min
    said = "; 440 fixed rounds would in about 22 minutes, but longer runs (more epochs or data) need fewer"
    assert verdict.candidates[0].more.endswith(said)
    assert verdict.next_command is None


def ended(name, number, kept):
    planned = PlannedRun(variant=name, mode="timed", round=number, seed=number)
    compared = SimpleNamespace(cost=2.0 if name == "a" else 1.0, resolution=0.0)
    return EndedRun(
        f"{number}-{name}",
        planned,
        SimpleNamespace(process_s=1.0, best_quality=None, started=f"{number}{name}", ended=f"{number}{name}"),
        compared,
        kept,
    )


@pytest.fixture
def printed():
    stream = io.StringIO()
    measurement = Measurement(variants=["a", "b"], rounds=24, until="decided", budget_min=10)
    with Status(stream=stream) as status:
        yield Progress(measurement, {"a": "A", "b": "B"}, {"a": 1.0, "b": 1.0}, status), stream


def test_that_nothing_was_run_is_all_that_is_printed_of_kept_rounds(printed):
    progress, stream = printed
    for number in range(4):
        for name in "ab":
            progress.end_run(ended(name, number, kept=True))
    progress.conclude(SimpleNamespace(reason="decided"))
    assert stream.getvalue() == "speedproof: already decided after 4 rounds of an earlier call; nothing was run\n"


def test_kept_rounds_are_printed_before_the_first_run(printed):
    progress, stream = printed
    for name in "ab":
        progress.end_run(ended(name, 0, kept=True))
    assert stream.getvalue() == ""
    progress.begin_run(ended("a", 1, kept=False).planned)
    begin = "speedproof: resumed with 2 runs of an earlier call\nspeedproof: round 1 of at most 24: A / B 2.00×"
    assert stream.getvalue().startswith(begin)
    for name in "ab":
        progress.end_run(ended(name, 1, kept=False))
    progress.conclude(SimpleNamespace(reason="longest"))
    assert "round 2" in stream.getvalue() and "nothing was run" not in stream.getvalue()
