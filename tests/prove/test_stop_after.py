"""Programs that do not end by themselves, or not within the budget: `--stop-after`, `--timeout`, and what the plan proposes."""

import json
import re
import sys

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.results.run_record import read_epochs
from speedproof.results.trace_tables import read_table
from speedproof.run.proof.stop_after import StopAfter, WarmUpLimit, propose_stop, question_budget, read_stop

READ = ("--epoch-s", r"took (\S+) s", "--device", "cpu", "--rounds", "4", "--json")
# Sleeps $1 s an epoch, a thousand times; its answer to an interrupt looks like an epoch.
ENDLESS = "trap 'echo took 77 s; exit 1' INT\nfor n in $(seq 1000); do sleep $1; echo took ${1}000 s; done\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endless.sh").write_text(ENDLESS)
    return tmp_path


def prove(*words, commands=("bash endless.sh 0.10", "bash endless.sh 0.05")):
    return CliRunner().invoke(app, ["prove", *commands, "--out", "out", *words])


def read_runs(place):
    return [read_epochs(run)["train_s"].tolist() for run in sorted((place / "out").glob("results/experiments/*/runs/*"))]


def test_a_thousand_epochs_are_measured_by_their_first_ones(place):
    result = prove(*READ, "--stop-after", "3")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["candidates"][0]["ratio"] == pytest.approx(2.0)
    runs = read_runs(place)
    assert (len(runs), {len(one) for one in runs}) == (8, {3})
    assert "each run ends after its first 3 epochs; the first one may include start-up and is not compared" in " ".join(
        result.stderr.split()
    )


def test_of_a_time_all_variants_are_compared_by_the_epochs_that_the_slowest_finishes(place):
    result = prove(*READ, "--stop-after", "0.5s")
    assert result.exit_code == 0, result.output
    (count,) = {len(one) for one in read_runs(place)}
    assert 2 <= count <= 5  # in half a second at 0.1 s each
    warmed = json.loads((place / "out/warm-up.json").read_text())
    assert (warmed["stop_after"], warmed["epochs"]) == (count, {"a": count, "b": count})
    assert warmed["process_s"]["b"] < warmed["process_s"]["a"]  # as if it had ended with as many epochs


def test_without_epochs_there_is_nothing_to_stop_after(place):
    result = prove("--device", "cpu", "--stop-after", "0.5s")
    assert "finished no epoch that is read before --stop-after 0.5s; name where its epochs are read" in str(result.exception)


def test_a_timeout_says_how_many_epochs_it_saw(place):
    result = prove(*READ, "--timeout", "1")
    assert "did not end within 1 s" in str(result.exception)
    assert re.search(r"had finished (\d+) epochs?: --stop-after \1 measures as many", str(result.exception))


def test_programs_that_end_before_the_limit_are_measured_whole(place):
    (place / "short.sh").write_text("for n in 1 2 3; do sleep $1; echo took ${1}000 s; done\n")
    result = prove(*READ, "--stop-after", "60s", commands=("sh short.sh 0.1", "sh short.sh 0.05"))
    assert (result.exit_code, {len(one) for one in read_runs(place)}) == (0, {3})
    assert "ended early" not in result.stderr


@pytest.mark.parametrize(
    ("text", "stop"), [("10", StopAfter(epochs=10)), ("90s", StopAfter(seconds=90)), ("2 min", StopAfter(seconds=120))]
)
def test_a_limit_is_a_number_of_epochs_or_a_time(text, stop):
    assert read_stop(text) == stop


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "s", "0s", "5 tok/s", "1 min 20 s", "inf s"])
def test_any_other_limit_is_a_mistake(text):
    with pytest.raises(ValueError, match="write a number of epochs, such as 10, or a time, such as 60s or 5min"):
        read_stop(text)


SPINS = """
import itertools, sys, time
import nvtx
for epoch in itertools.count():
    with nvtx.annotate("epoch"):
        time.sleep(float(sys.argv[1]))
    print(f"took {sys.argv[1]}00 s", flush=True)
"""


@pytest.mark.timed
def test_a_run_that_is_ended_early_is_profiled_too(place, needs_nsys):
    (place / "spins.py").write_text(SPINS)
    commands = [f"{sys.executable} spins.py {seconds}" for seconds in (0.2, 0.1)]
    result = prove(*READ, "--stop-after", "3", "--profiled", "1", commands=commands)
    assert result.exit_code == 0, (result.output, result.exception)
    (run,) = (place / "out").glob("results/experiments/*/runs/*-b-profiled")
    assert len(read_epochs(run)) == 3
    assert (read_table(run / "trace", "ranges").column("name").to_pylist().count("epoch")) >= 3


def test_ranges_of_a_run_that_is_ended_early_cannot_be_read():
    result = prove("--stop-after", "3", "--epoch-range", "epoch")
    assert "--stop-after and --epoch-range: a run that is ended early leaves no ranges" in str(result.exception)


def test_the_plan_proposes_a_limit_if_whole_runs_exceed_the_budget():
    # Four rounds of 300 + 300 s are 2400 s, and a spare one makes 3000 s: of 100 epochs, 60 fit into 1800 s.
    proposed = propose_stop({"a": 300, "b": 300}, {"a": 100, "b": 200}, 30, control=False)
    assert "--stop-after 60 ends each run after 60 epochs, or --budget 50 allows whole runs" in proposed
    assert propose_stop({"a": 200, "b": 25}, {"a": 100, "b": 200}, 30, control=False) is None
    assert propose_stop({"a": 300, "b": 300}, {"a": 100, "b": 200}, None, control=False) is None
    assert propose_stop({"a": 300, "b": 300}, {"a": 0, "b": 0}, 30, control=False) is None


def test_the_limit_allows_for_a_control():
    # Rounds of 300 + 300 + 300 s: five are 4500 s, so that 40 of 100 epochs fit into 1800 s.
    proposed = propose_stop({"a": 300, "b": 300}, {"a": 100, "b": 200}, 30, control=True)
    assert "--stop-after 40 ends each run after 40 epochs, or --budget 75 allows whole runs" in proposed
    # Four rounds of 425 s fit into 1800 s; with a control five of 825 s are 4125 s.
    assert propose_stop({"a": 400, "b": 25}, {"a": 100, "b": 200}, 30, control=False) is None
    assert "--stop-after 43 " in propose_stop({"a": 400, "b": 25}, {"a": 100, "b": 200}, 30, control=True)
    assert question_budget({"a": 400, "b": 25}, 30, control=True).endswith("; --budget 69 holds them")


def test_a_warm_up_that_is_too_long_says_so_while_it_runs():
    # Four rounds of two runs as long in 30 min: 225 s each; with a spare round 180 s each, or 37.7 min for 226 s each.
    limit = WarmUpLimit(30, 2, reads_epochs=True)
    assert limit.describe("A", [], 225) == "warm-up: A running, 225 s"
    assert (
        limit.describe("A", [], 226)
        == "warm-up: A running, 226 s. Interrupt and add --stop-after 180s: 4 rounds would exceed 30 min"
    )
    assert WarmUpLimit(None, 2, reads_epochs=True).describe("A", [], 1e6) == "warm-up: A running, 1000000 s"


def test_a_long_warm_up_without_epochs_is_offered_a_longer_budget():
    said = WarmUpLimit(30, 2, reads_epochs=False).describe("A", [], 226)
    assert said == "warm-up: A running, 226 s. Interrupt and use --budget 38 or shorter runs: 4 rounds would exceed 30 min"


def test_a_long_warm_up_beside_a_short_one_fits():
    # Four rounds of 4 + 41 s are 3 min.
    limit = WarmUpLimit(3, 2, reads_epochs=False)
    assert limit.describe("A", [4.0], 41) == "warm-up: A running, 41 s"
    assert "--budget 4 " in limit.describe("A", [4.0], 42)  # 5 rounds of 46 s are 3.8 min
