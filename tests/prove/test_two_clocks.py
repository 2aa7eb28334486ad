"""Whole proofs of programs whose reports our own clock supports, and of others; each run takes a fifth of a second."""

import json
import re

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from tests.support import without_machine

pytestmark = pytest.mark.timed

# Three epochs of $1 s that are reported as $2, then $3 s of other work.
PROGRAM = "for n in 1 2 3; do sleep $1; echo $2 tok/s took $2 s; done; sleep ${3:-0}\n"
READ = ["--epoch-s", r"took (\S+) s"]


def prove(one, other, *words):
    result = CliRunner().invoke(
        app, ["prove", f"sh p.sh {one}", f"sh p.sh {other}", "--rounds", "4", "--device", "cpu", "--json", *words]
    )
    return result, json.loads(result.stdout)


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.sh").write_text(PROGRAM)


def test_a_program_that_says_half_is_inconclusive_unless_its_reports_are_trusted():
    result, verdict = prove("0.06 0.06", "0.06 0.03", *READ)
    (one,) = verdict["candidates"]
    assert (result.exit_code, one["outcome"], one["ratio"]) == (2, "inconclusive", pytest.approx(2.0))
    assert 0.6 < one["observed"] < 1.6
    assert [objection["kind"] for objection in without_machine(one["objections"]) if objection["blocks"]] == ["clocks"]
    assert one["sentence"].startswith("Inconclusive: B (sh p.sh 0.06 0.03) reports 2.00× but our clock saw ")
    assert "(observed when its lines arrive)" in result.stderr.replace("\n", " ")
    result, verdict = prove("0.06 0.06", "0.06 0.03", *READ, "--trust-reported", "its timer is the GPU's")
    (one,) = verdict["candidates"]
    assert (result.exit_code, one["outcome"], verdict["trust_reported"]) == (0, "faster", "its timer is the GPU's")
    assert "Reported times are trusted: its timer is the GPU's." in one["sentence"]
    assert "plan: reported times are trusted (its timer is the GPU's); 8 timed runs" in " ".join(result.stderr.split())


def test_a_program_that_works_on_after_its_lines_is_inconclusive():
    result, verdict = prove("0.06 0.06", "0 0.001 0.15", *READ)  # so that the process is faster
    (one,) = verdict["candidates"]
    assert result.exit_code == 2
    assert {objection["kind"] for objection in without_machine(one["objections"])} <= {"outside", "unsupported"}
    assert re.search(r"s less, but (its process takes longer elsewhere|the rest of its process is too noisy)", one["sentence"])


def test_an_honest_difference_is_shown_by_both_clocks():
    result, verdict = prove("0.1 0.1", "0.03 0.03", *READ)
    (one,) = verdict["candidates"]
    assert (result.exit_code, without_machine(one["objections"])) == (0, [])
    assert 1.5 < one["observed"] < 4


def test_a_higher_rate_is_faster():
    result, verdict = prove("0.08 1000", "0.02 4000", "--rate", r"(\S+) tok/s")
    (one,) = verdict["candidates"]
    assert (result.exit_code, verdict["metric"], one["ratio"]) == (0, "samples_per_s", pytest.approx(4.0))
    assert without_machine(one["objections"]) == []


# Starts for $1 s; three epochs of $2 s that are reported as $3, in lines that are held back until the end.
HELD_BACK = 'sleep $1; lines=$(for n in 1 2 3; do sleep $2; echo took $3 s; done); echo "$lines"\n'


def prove_held_back(tmp_path, words):
    """Compare a program that starts for 0.4 s, and prints its three epochs of 0.1 s at once, with one that holds them back."""
    (tmp_path / "starts.sh").write_text("sleep 0.4; for n in 1 2 3; do sleep 0.1; echo took 0.1 s; done\n")
    (tmp_path / "held.sh").write_text(HELD_BACK)
    words = ["sh starts.sh", f"sh held.sh {words}", "--rounds", "4", "--device", "cpu", "--json", *READ]
    result = CliRunner().invoke(app, ["prove", *words])
    (one,) = json.loads(result.stdout)["candidates"]
    return result.exit_code, one, [objection["kind"] for objection in without_machine(one["objections"]) if objection["blocks"]]


def test_epochs_that_were_not_observed_support_a_gain_only_if_the_process_leaves_no_room_for_more(tmp_path):
    # 3 × 0.07 s are saved. The program's start alone lies outside of its reports.
    status, one, blocking = prove_held_back(tmp_path, "0 0.03 0.03")
    assert (status, blocking) == (0, [])
    assert "The epochs of B (sh held.sh 0 0.03 0.03) were not observed, because its reports arrive together." in one["sentence"]
    # Each epoch takes 0.1 s, as the other's; 0.2 s of that lie outside of the reports, less than the other's start takes.
    status, one, blocking = prove_held_back(tmp_path, "0 0.1 0.03")
    assert (status, blocking) == (2, ["unobserved"])
    assert one["sentence"].startswith(
        "Inconclusive: the epochs of B (sh held.sh 0 0.1 0.03) were not observed, because its reports"
    )
    # An honest one that starts for as long: our clock cannot tell it from that.
    status, one, blocking = prove_held_back(tmp_path, "0.4 0.03 0.03")
    assert (status, blocking) == (2, ["unobserved"])
    assert "print with flush, or compare whole processes (--metric process_s)" in one["sentence"]
