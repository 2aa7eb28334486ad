"""`speedproof gate`: two commits of a tiny repository, judged by programs that sleep or by verdicts that a test states."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from speedproof.report.figures import draw
from speedproof.results.claim import read_claim
from speedproof.run import outside_watch
from speedproof.run.gate import calibration, gate
from speedproof.run.gate.calibration import check_calibration
from speedproof.run.gate.gate_request import make_gate_request, read_percent
from speedproof.run.proof.next_call import write_next_call
from speedproof.run.proof.shared_code import describe_shared_code
from speedproof.util.errors import ConfigError
from tests.repositories import commit_all, git, make_repository
from tests.stated_verdicts import state


def commit(folder, seconds):
    (folder / "train.sh").write_text(f"sleep {seconds}\n")
    commit_all(folder, f"sleep {seconds}")


@pytest.fixture(scope="module")
def three_commits(tmp_path_factory):
    """`main` sleeps for 0.02 s, and so does `same`; HEAD sleeps for 0.2 s."""
    folder = make_repository(tmp_path_factory.mktemp("commits"), ignored="results")
    commit(folder, 0.02)
    git(folder, "checkout", "-q", "-b", "change")
    commit(folder, 0.02)
    git(folder, "tag", "same")
    commit(folder, 0.2)
    return folder


@pytest.fixture
def repository(three_commits, tmp_path, monkeypatch):
    folder = shutil.copytree(three_commits, tmp_path / three_commits.name)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: ())
    monkeypatch.setattr(draw, "FIGURES", ())
    return folder


@pytest.fixture
def stated(monkeypatch):
    """Let each proof have a verdict that the test states, and return the list of what was asked of proofs."""
    asked = []

    def state_verdict(verdict):
        def prove(request, out, source, status, trees):
            asked.append((request, trees))
            return verdict

        for module in (gate, calibration):
            monkeypatch.setattr(module, "prove_request", prove)
        return asked

    return state_verdict


def run(speedproof_here, *words):
    done = speedproof_here("gate", *words, "--json", "--quiet", "--", "sh train.sh")
    return done.returncode, json.loads(done.stdout)


def test_a_slower_head_is_a_regression_and_the_base_is_measured_as_it_was(repository, speedproof_here):
    status, found = run(speedproof_here, "--regression", "100%", "--summary", "summary.md", "--device", "cpu")
    assert (status, found["outcome"], found["reason"]) == (1, "regression", "decided")
    assert found["high"] < 0.5
    assert found["base"]["value"] < found["head"]["value"]
    assert found["base"]["sha"] == git(repository, "rev-parse", "main")
    assert json.loads((repository / "results/gate/gate.json").read_text()) == found
    summary = (repository / "summary.md").read_text()
    assert "(main) | " in summary
    assert "[Report](results/gate/proof/results/report.html)" in summary
    assert re.search(r"takes \d{3} % longer, and at most 100 % is allowed", summary)
    typed = json.loads((repository / "results/gate/proof/results/asked.json").read_text())["command"]
    assert typed == "speedproof gate 'sh train.sh' --device cpu --regression 100%"


def test_equal_files_pass_at_once(repository, speedproof_here, stated):
    asked = stated(None)
    status, found = run(speedproof_here, "--head", "same")
    assert (status, found["outcome"], found["reason"], found["pairs"]) == (0, "passed", "nothing changed", 0)
    assert run(speedproof_here, "--head", "same", "--improvement", "5%")[1]["outcome"] == "no improvement"
    assert asked == []


def test_changes_that_are_not_committed_are_named(repository, speedproof_here, stated):
    stated(state())
    (repository / "train.sh").write_text("sleep 3\n")
    assert run(speedproof_here, "--base", "HEAD")[1]["notes"] == ["uncommitted changes are not measured: train.sh"]
    assert run(speedproof_here, "--head", "same", "--base", "HEAD")[1]["notes"] == []


def test_without_an_interval_none_is_told(repository, speedproof_here, stated):
    stated(state("inconclusive", low=None, high=None, stopped="budget"))
    run(speedproof_here, "--summary", "summary.md")
    text = (repository / "summary.md").read_text()
    assert "(6 pairs); too few pairs for an interval." in text
    assert "limit" not in text


def test_each_commit_is_built_and_measured_by_the_claim_of_the_limit(repository, speedproof_here, stated):
    asked = stated(state())
    assert run(speedproof_here, "--build", "make all")[0] == 0
    ((request, trees),) = asked
    assert (request.commands, request.names, request.claim) == (["sh train.sh"] * 2, ["base", "head"], "at most 3% slower")
    assert (list(trees.commits), trees.commits["a"].name, trees.commits["b"].name) == (["a", "b"], "main", "HEAD")
    assert trees.build == "make all"


@pytest.mark.parametrize(
    ("verdict", "status", "outcome", "reason"),
    [
        (state(), 0, "passed", "decided"),
        (state("claim fails", high=0.9), 1, "regression", "decided"),
        (state("worse quality"), 1, "worse quality", "quality"),
        (state("quality not established"), 2, "inconclusive", "quality"),
        (state("inconclusive", low=0.9), 2, "inconclusive", "interval"),
        (state("inconclusive", blocks=True), 2, "inconclusive", "check"),
    ],
)
def test_the_exit_status_follows_from_the_verdict(repository, speedproof_here, stated, verdict, status, outcome, reason):
    stated(verdict)
    ended, found = run(speedproof_here)
    assert (ended, found["exit_status"], found["outcome"], found["reason"]) == (status, status, outcome, reason)
    assert found["checks"] == (["its clocks disagree"] if reason == "check" else [])


@pytest.mark.parametrize(("outcome", "checks"), [("claim holds", []), ("inconclusive", ["its clocks disagree"])])
def test_noise_is_named_only_if_the_gate_is_open(repository, speedproof_here, stated, outcome, checks):
    verdict = state(outcome, low=0.9, blocks=True)
    (judged,) = verdict.candidates
    judged.objections[:] = [one.model_copy(update={"kind": "noise", "blocks": False}) for one in judged.objections]
    stated(verdict)
    assert run(speedproof_here)[1]["checks"] == checks


def test_an_improvement_that_is_asked_for_is_the_claim(repository, speedproof_here, stated):
    asked = stated(state("claim fails", high=1.01))
    assert run(speedproof_here, "--improvement", "5%")[1]["outcome"] == "no improvement"
    assert asked[0][0].claim == "at least 5% faster"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--regression", "3"], "gate: --regression: '3': write a percentage above 0, for example 3%"),
        (["--base", "nowhere"], "nowhere: no such commit in"),
        (["--claim", ">= 1"], "gate: --claim: no such option"),
        (["--out", "."], "--out: . is the working folder itself"),
        (["--build", "false"], "main ("),
    ],
)
def test_a_mistake_is_one_line_and_an_error_in_json_and_summary(repository, speedproof_here, words, said):
    status, found = run(speedproof_here, *words, "--summary", "summary.md")
    assert (status, found["outcome"], found["exit_status"]) == (3, "error", 3)
    assert found["message"].startswith(said)
    assert "\n" not in found["message"]
    if words[0] != "--claim":  # what is no command line is found before there is a summary to write
        assert "Speed gate: error" in (repository / "summary.md").read_text()


def test_several_words_are_one_command():
    assert make_gate_request(["python", "a b.py"], {}).command == "python 'a b.py'"


class Said:
    """A status that keeps quiet."""

    def say(self, text):
        pass


@pytest.fixture
def calibrated(repository, stated, monkeypatch):
    """A base whose twelve pairs have a deviation of 1 %, in rounds of 60 s: ±2.2010 · 0.01 / √12 about 0."""
    half = 2.2010 * 0.01 / 12**0.5
    verdict = state("equivalent", low=2.718281828**-half, high=2.718281828**half)
    verdict.candidates[0].pairs = 12
    asked = stated(verdict)
    monkeypatch.setattr(calibration, "_measure_round", lambda results: 60.0)
    request = make_gate_request(["sh train.sh"], {"budget_min": 30})
    base = gate.find_commit(repository, "main", repository / "out")
    found = calibration.calibrate(request, base, repository / "out", repository, Said())
    ((measured, trees),) = asked
    assert (measured.fixed_rounds, measured.claim) == (12, None)
    assert trees.commits["a"] is trees.commits["b"]
    return found


def test_a_calibration_states_what_24_pairs_detect(calibrated):
    assert calibrated.deviation == pytest.approx(0.01, rel=1e-4)
    # The limit of the noise is 0.01 · √(11 / 6.989); 24 pairs need 2.51 + about 1.34 standard errors of it.
    assert calibrated.detectable == pytest.approx((2.51 + 1.34) * 0.01254 / 24**0.5, rel=0.04)


def test_each_slowdown_that_a_calibration_states_is_taken_as_it_stands():
    for thousandths in range(1, 1000):
        detectable = thousandths / 1000  # as its file holds it
        assert read_percent(f"{100 * detectable:.3g}%") == detectable


def test_a_gate_below_what_is_detectable_is_refused(calibrated, repository):
    out = repository / "out"

    def check(words=("sh train.sh",), **options):
        return check_calibration(make_gate_request(list(words), options), out)

    assert check(regression="1%") == []  # what the calibration states
    with pytest.raises(ConfigError, match=r"^--regression 0.5%: below 1 %, the smallest slowdown .* within 30 min"):
        check(regression="0.5%")
    with pytest.raises(ConfigError, match=r"^--regression 1.1%: below \d\.\d %, .* within 8 min"):
        check(regression="1.1%", budget_min=8)
    with pytest.raises(ConfigError, match=r"^--budget 3: too short for 4 rounds"):
        check(budget_min=3)
    assert "of another command" in check(["sh other.sh"], regression="0.5%")[0]


def test_a_calibration_of_another_machine_does_not_count(calibrated, repository, monkeypatch):
    monkeypatch.setattr(calibration, "digest_host", lambda: "another")
    (note,) = check_calibration(make_gate_request(["sh train.sh"], {"regression": "0.1%"}), repository / "out")
    assert "of another machine" in note


def test_a_package_that_is_imported_from_the_repository_is_named(repository, tmp_path):
    """Else both commits would run the same code, and any gate would pass."""
    python = tmp_path / "python-stand-in"
    found = {"mine": repository.as_uri(), "other": "file:///elsewhere"}
    python.write_text(f"#!/bin/sh\necho '{json.dumps(found)}'\n")
    python.chmod(0o755)
    (note,) = describe_shared_code(make_gate_request([str(python), "train.py"], {}), repository, [])
    assert note.startswith(f"mine is installed in editable mode from {repository}: ")
    assert describe_shared_code(make_gate_request(["sh", "train.sh"], {}), repository, []) == []


def test_submodules_are_named(repository):
    base = gate.find_commit(repository, "main", repository / "out")
    request = make_gate_request(["sh", "train.sh"], {})
    (note,) = describe_shared_code(request, repository, [base, replace(base, submodules=("lib", "data"))])
    assert note == "left empty, because they are submodules: lib, data"


@pytest.mark.parametrize(("out", "words"), [("results/gate", ""), ("mine", " --out mine")])
def test_the_next_command_is_a_gate_in_its_own_folder(out, words):
    request = make_gate_request(["sh train.sh"], {"base": "old"})
    missing = SimpleNamespace(pairs=10, minutes=60)
    finding = SimpleNamespace(outcome="inconclusive", is_beyond_budget=False, stopped=None, needed=missing, pairs=4, caveats=[])
    line = write_next_call(request, [finding], Path(out) / "proof")
    # Six pairs of two runs take 60 minutes: ten take 100, and a quarter more in reserve.
    assert line == f"speedproof gate 'sh train.sh' --budget 125.0 --base old{words}"


def test_the_same_gate_goes_on_after_its_budget_was_spent(repository, speedproof_here, stated):
    asked = stated(state("inconclusive", low=0.9, stopped="budget"))
    for _ in range(2):
        assert run(speedproof_here, "--budget", "10")[0] == 2
    stated(state())
    for _ in range(2):  # decided, it stays as it is
        assert run(speedproof_here, "--budget", "10")[0] == 0
    run(speedproof_here, "--budget", "10", "--head", "main~0", "--base", "HEAD")
    assert [request.budget for request, _ in asked] == [10, 20, 30, 30, 10]


def test_the_rounds_of_a_spent_budget_are_kept_and_more_are_added(repository, speedproof_here):
    words = ("--head", "same~0", "--base", "HEAD", "--budget", "0.01", "--device", "cpu")
    pairs = [run(speedproof_here, *words)[1]["pairs"] for _ in range(2)]
    assert 0 < pairs[0] < pairs[1]


@pytest.mark.parametrize(
    ("text", "least", "words"),
    [
        ("at most 3% slower", 1 / 1.03, "at most 3 % slower"),
        ("at least 5 % faster", 1.05, "at least 5 % faster"),
        (">= 1.5", 1.5, "\N{GREATER-THAN OR EQUAL TO} 1.5×"),
    ],
)
def test_a_claim_is_told_as_it_was_asked(text, least, words):
    found = read_claim(text)
    assert (found.low, found.high, found.text) == (pytest.approx(least), None, words)
    for wrong in ("at least 3% slower", "at most 3% faster"):
        with pytest.raises(ValueError, match="write a comparison"):
            read_claim(wrong)
