"""How long a proof goes on: until what is asked is decided, or hardly will be; and what a further call makes of its rounds."""

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.results.asked import read_asked
from speedproof.results.comparison_rows import Needed, Objection
from speedproof.results.experiment import PLAN_FILE, Plan, read_experiment
from speedproof.results.files import read_record
from speedproof.run.proof.next_call import write_next_call
from speedproof.run.proof.request import check_request
from speedproof.run.proof.typed_call import write_call
from speedproof.stats.finding import Caveat
from speedproof.util.errors import ConfigError

# Prints so many microseconds an epoch, so many more of every second seed, and a quality with an own digit for each of these.
SEEDED = (
    "for n in 1 2 3; do echo epoch took $(($1 + SPEEDPROOF_SEED % 2 * $2)) us acc 0.90$((SPEEDPROOF_SEED % 2 * $3)); done\n"
)
READ = ["--epoch-s", r"took (\S+)", "--quality", r"acc (\S+)", "--trust-reported", "made up", "--device", "cpu"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(SEEDED)
    return tmp_path


def prove(*words, out="out"):
    result = CliRunner().invoke(app, ["prove", *words, *READ, "--out", out, "--json"])
    return json.loads(result.stdout), " ".join(result.stderr.split())


# 160 against 100 and 240 us by turns: log ratios of 0.47 and -0.41, of which no 24 rounds show a difference.
OPEN = ["sh run.sh 160 0 0", "sh run.sh 100 140 0"]


def test_more_rounds_go_on_with_those_that_there_are_until_they_would_hardly_decide(folder):
    first, told = prove(*OPEN, "--rounds", "4", "--budget", "5")
    assert (first["outcome"], first["rounds"], first["stopped"]) == ("inconclusive", 4, "longest")
    experiment = folder / "out/results/experiments/experiment-1"
    before = read_experiment(experiment)
    second, told = prove(*OPEN, "--rounds", "24", "--budget", "5")
    after = read_experiment(experiment)
    assert "continuing from the rounds of an earlier call, whose limit was 4" in told
    assert set(after.kept) == set(before.runs) and len(read_record(experiment / PLAN_FILE, Plan).order) == 48
    assert (second["stopped"], second["attempt"], after.stopped.reachable) == ("futile", 1, 24)
    assert 4 < second["rounds"] < 24
    (candidate,) = second["candidates"]
    assert (
        f"stopped after {second['rounds']} rounds: with this much variation, 24 rounds are unlikely to decide"
        in candidate["sentence"]
    )
    fixed, told = prove(*OPEN, "--rounds", "4")
    assert "All rounds run again" in told
    assert (fixed["stopped"], fixed["attempt"]) == (None, 2)


def test_if_the_printed_digits_hide_a_difference_they_are_named_and_no_number_of_rounds(folder):
    # Epochs of 2 us each, of which one in four takes 3 of every second seed: 2 against 2.25, each within half a microsecond.
    (folder / "few.sh").write_text("for n in 2 2 2 $((2 + SPEEDPROOF_SEED % 2 * $1)); do echo epoch took $n us acc 0.9; done\n")
    found, _ = prove("sh few.sh 0", "sh few.sh 1")
    (candidate,) = found["candidates"]
    said = f"stopped after {found['rounds']} rounds, since more are unlikely to decide: epoch times are printed to 1.00"
    assert said in candidate["sentence"]


def test_rounds_go_on_until_the_quality_is_decided(folder):
    # Qualities of 0.900 and 0.901 against 0.900 and 0.909: differences 0 and 0.008. Of four ± 6.21 × 0.0046 / 2 = 0.0143 is
    # below -0.01, of six ± 4.65 × 0.0044 / √6 = 0.0083 does not.
    commands = ["sh run.sh 200 0 1", "sh run.sh 100 0 9"]
    found, _ = prove(*commands, "--margin", "0.01", "--budget", "5")
    assert (found["outcome"], found["rounds"], found["stopped"]) == ("faster", 6, "decided")
    without, _ = prove(*commands, "--budget", "5", out="without")
    assert (without["outcome"], without["rounds"], without["stopped"]) == ("faster", 4, "decided")


def test_a_proof_that_is_repeated_beside_others_counts_them(folder):
    commands = ["sh run.sh 200 0 0", "sh run.sh 100 0 0", "sh run.sh 150 0 0"]
    first, said = prove(*commands, "--rounds", "4", out="proofs/first")
    again, said_again = prove(*commands, "--rounds", "4", out="proofs/first")
    assert ["nothing was run" in one for one in (said, said_again)] == [False, True]
    second, _ = prove(*commands, "--rounds", "4", out="proofs/second")
    later, _ = prove(*commands, "--rounds", "4", out="proofs/first")
    assert [one["attempt"] for one in (first, again, second, later)] == [1, 1, 2, 1]
    told = CliRunner().invoke(app, ["results", "show", "--from", "proofs/second"])
    assert "Second proof of these commands here." in " ".join(told.stdout.split())
    results = folder / "proofs/second/results"
    assert read_asked(results).attempt == 2
    assert "Second proof of these commands here." in (results / "report.html").read_text(encoding="utf-8")
    # The intervals of two candidates are adjusted, in JSON, terminal and page.
    assert first["comparisons"] == 2
    assert all(", adjusted for 2 comparisons, " in one["sentence"] for one in first["candidates"])
    assert "The intervals of a metric are adjusted for its 2 comparisons" in (results / "report.md").read_text(encoding="utf-8")


def test_rounds_with_a_budget_are_the_most_that_run():
    request = check_request({"commands": OPEN, "rounds": 8, "budget_min": 5}, "here")
    assert (request.fixed_rounds, request.most_rounds, request.budget) == (None, 8, 5)
    request = check_request(yaml.safe_load("{commands: ['true', 'true'], rounds: 6}"), "here")
    assert (request.fixed_rounds, request.most_rounds, request.budget) == (6, 6, None)
    with pytest.raises(ConfigError, match="with budget_min rounds may end after 4, 6, 8, 10, 12, 16, 20, 24; choose one"):
        check_request({"commands": OPEN, "rounds": 14, "budget_min": 5}, "here")


# 140 against 100 and 120 us by turns: log ratios of 0.336 and 0.154, of four a mean of 0.245 and a deviation of 0.105. The
# interval is 0.245 ± 6.21 × 0.105 / 2 = ± 0.33 after four rounds, and ± 4.65 × 0.1 / √6 = ± 0.19 after six. The forecast
# is by the upper limit of the deviation, 0.182: ± 3.88 × 0.182 / √8 = 0.249 after eight,
# and ± 3.47 × 0.182 / √10 = 0.199 after ten.
NEARLY = ["sh run.sh 140 0 0", "sh run.sh 100 20 0"]


def test_the_next_command_goes_on_with_the_rounds_and_decides(folder):
    first, _ = prove(*NEARLY, "--rounds", "4", "--budget", "5")
    assert (first["outcome"], first["rounds"]) == ("inconclusive", 4)
    assert first["candidates"][0]["more"].startswith("about 10 pairs in total would decide")
    words = shlex.split(first["next_command"])
    assert words[:4] == ["speedproof", "prove", *NEARLY] and words[-2:] == ["--out", "out"]
    assert words[words.index("--rounds") + 1] == "10"
    # An open claim ends with what would decide it, too: 1.02 is a log ratio of 0.020, 0.245 - 0.249 after eight rounds, and
    # 0.245 - 0.199 after ten.
    claimed, _ = prove(*NEARLY, "--rounds", "4", "--budget", "5", "--claim", ">= 1.02")
    assert claimed["candidates"][0]["more"].startswith("about 10 pairs in total would decide")
    asked = shlex.split(claimed["next_command"])
    assert (asked[asked.index("--rounds") + 1], asked[asked.index("--claim") + 1]) == ("10", ">= 1.02")
    # Of 1.25 (0.223), no 24 rounds are expected to: 0.245 - 2.5 × 0.182 / √24 = 0.15.
    far, said = prove(*NEARLY, "--rounds", "4", "--budget", "5", "--claim", ">= 1.25")
    assert far["candidates"][0]["more"] == "with this much variation, 24 pairs may not decide"
    assert "nothing was run" in said
    result = CliRunner().invoke(app, [*words[1:], "--json"])
    second = json.loads(result.stdout)
    assert (second["outcome"], second["rounds"], second["next_command"]) == ("faster", 6, None)
    experiment = read_experiment(folder / "out/results/experiments/experiment-1")
    assert len(experiment.kept) == 8  # the first four rounds


@pytest.mark.parametrize(
    ("asked", "needed", "stopped", "expected"),
    [
        # Three commands and a control: a pair of runs takes 0.5 min, so a round 1 min; 12 of them 12 min, with spare 15 min.
        ({"budget_min": 5.0, "control": True}, Needed(pairs=12, minutes=4.0), None, {"budget_min": 15}),
        ({"budget_min": 60.0, "rounds": 8}, Needed(pairs=12, minutes=4.0), None, {"rounds": 12}),
        ({"budget_min": 60.0}, Needed(pairs=12, minutes=4.0), None, None),  # it may go on as it is
        ({"rounds": 4}, Needed(pairs=12, minutes=4.0), None, {"rounds": 12}),
        ({}, None, 152, {"rounds": 152, "budget_min": None}),
        ({}, None, 0, None),
        ({"claim": ">= 1.5"}, None, None, None),
    ],
)
def test_the_next_command_has_room_for_what_would_decide(asked, needed, stopped, expected):
    request = check_request({"commands": ["true", "false", "sh -c :"], **asked}, "here")
    futile = None if stopped is None else SimpleNamespace(reason="futile", needed=stopped or None)
    found = SimpleNamespace(outcome="inconclusive", needed=needed, pairs=4, stopped=futile, is_beyond_budget=False, caveats=[])
    call = write_next_call(request, [found], Path("results/proof"))
    assert call == (expected if expected is None else write_call(request.model_copy(update=expected)))


def test_a_proof_whose_warm_up_differs_is_repeated_in_another_folder(tmp_path):
    (tmp_path / "proof-2").mkdir()
    objection = Objection(kind="warm-up differs", variant="b", blocks=True, values={})
    found = SimpleNamespace(
        outcome="inconclusive", needed=Needed(pairs=12, minutes=4.0), caveats=[Caveat(objection, leads=True)]
    )
    request = check_request({"commands": ["true", "false"]}, "here")
    call = f"speedproof prove true false --wait-for-quiet 10.0 --out {tmp_path}/proof-3"
    assert write_next_call(request, [found], tmp_path / "proof") == call


def test_a_budget_that_holds_no_verdict_is_named_before_the_rounds_begin(folder):
    # Four rounds of two runs of 0.3 s or more take 2.4 s or more; the budget is 0.6 s.
    (folder / "run.sh").write_text(f"sleep 0.3; {SEEDED}")
    _, told = prove(*NEARLY, "--budget", "0.01")
    assert "budget: 4 rounds, which a verdict needs, take about " in told
    assert "--budget 1 holds them" in told
    assert told.index("budget: 4 rounds") < told.index("round 1 of")


def test_rounds_are_decided_by_the_metric_that_is_compared(folder):
    # As fast an epoch, but half the start-up.
    (folder / "starts.sh").write_text("sleep $1; for n in 1 2 3; do sleep 0.03; echo epoch took 30 ms; done\n")
    commands = [f"sh starts.sh {seconds}" for seconds in (0.6, 0.2)]
    reading = ["--epoch-s", r"took (\S+)", "--metric", "process_s"]
    asked = ["prove", *commands, *reading, "--device", "cpu", "--out", "out", "--json"]
    verdict = json.loads(CliRunner().invoke(app, asked).stdout)
    assert (verdict["metric"], verdict["outcome"], verdict["stopped"]) == ("process_s", "faster", "decided")
    assert 1.5 < verdict["candidates"][0]["ratio"] < 2.6  # 0.69 s against 0.29 s, and what a busy machine adds to both
