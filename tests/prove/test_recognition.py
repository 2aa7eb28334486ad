"""Programs that are measured without a pattern, since their lines are known."""

import json

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.results.run_record import read_epochs
from speedproof.run import live_epochs

NANOGPT = 'for n in 0 1 2 3; do sleep $1; echo "iter $n: loss 3.$n, time ${2}.00ms, mfu 24.00%"; done\n'
LLM_C = 'for n in 1 2 3; do sleep $1; echo "step    $n/3 | loss 7.1 | $2.00 ms | 45.1% bf16 MFU | 151 tok/s"; done\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt.sh").write_text(NANOGPT)
    (tmp_path / "llm.sh").write_text(LLM_C)
    (tmp_path / "other.sh").write_text("sleep $1; echo done\n")
    return tmp_path


def prove(*words):
    result = CliRunner().invoke(app, ["prove", *words, "--device", "cpu", "--rounds", "4", "--json", "--out", "out"])
    return result, json.loads(result.stdout) if result.stdout else {}


def test_known_lines_are_read_in_their_own_unit_and_named_in_the_plan(place):
    result, verdict = prove("sh gpt.sh 0.10 100", "sh gpt.sh 0.05 50", "--quality", r"loss (\d+\.\d+)", "--better", "lower")
    assert result.exit_code == 0, result.output
    assert (verdict["source"], verdict["metric"]) == ("lines", "training_epoch_s")
    assert verdict["candidates"][0]["ratio"] == pytest.approx(2.0)
    said = " ".join(result.stderr.split())
    assert "epochs: lines of nanoGPT, such as `iter 0: loss 3.0, time 100.00ms, mfu 24.00%`" in said
    assert "read as milliseconds" in said
    epochs = next(iter((place / "out").glob("results/experiments/*/runs/*-a-timed/epochs.csv"))).read_text()
    assert ",0.1," in epochs


def test_steps_that_are_printed_one_in_ten_are_compared_by_the_intervals_between_lines(place):
    (place / "gpt.sh").write_text(NANOGPT.replace("sleep $1", "sleep $1; sleep $1"))
    result, verdict = prove("sh gpt.sh 0.06 50", "sh gpt.sh 0.03 50")
    assert "epochs: intervals between lines of nanoGPT, such as `iter 0: loss 3.0, " in " ".join(result.stderr.split())
    assert verdict["candidates"][0]["ratio"] == pytest.approx(2.0, rel=0.3)


@pytest.mark.timed
def test_an_endless_known_program_ends_after_its_first_epochs(place):
    (place / "gpt.sh").write_text(NANOGPT.replace("0 1 2 3", "$(seq 1000)"))
    result, _ = prove("sh gpt.sh 0.10 100", "sh gpt.sh 0.05 50", "--stop-after", "3")
    assert result.exit_code == 0, result.output
    assert json.loads((place / "out/warm-up.json").read_text())["epochs"] == {"a": 3, "b": 3}


def test_lines_of_different_programs_are_refused_by_their_names(place, recorded_runs):
    result, _ = prove("sh gpt.sh 0.05 50", "sh llm.sh 0.05 50")
    assert "A those of nanoGPT (`iter 0:" in str(result.exception)
    assert "B those of llm.c (`step 1/3" in str(result.exception)
    assert "--metric process_s" in str(result.exception)
    assert prove("sh gpt.sh 0.05 50", "sh llm.sh 0.05 50", "--metric", "process_s")[1]["source"] == "process"


def test_a_program_beside_an_unknown_one_is_compared_by_its_process(place, recorded_runs):
    result, verdict = prove("sh gpt.sh 0.05 50", "sh other.sh 0.1")
    assert (verdict["source"], verdict["metric"]) == ("process", "process_s")
    assert "lines of nanoGPT" not in result.stderr


def test_known_lines_whose_times_cannot_be_are_not_read(place, recorded_runs):
    _, verdict = prove("sh gpt.sh 0.01 9000", "sh gpt.sh 0.01 9000")
    assert verdict["source"] == "process"


# As Lightning's CSVLogger writes: a row per logged step, one per validation and per epoch, with empty cells; a test's at last.
LIGHTNING = """
mkdir -p lightning_logs/version_0; log=lightning_logs/version_0/metrics.csv
echo epoch,step,train_loss_step,val_loss,train_loss_epoch,test_loss > $log
for epoch in $2; do
  for step in 0 1 2; do sleep $1; echo $epoch,$((3 * epoch + step)),0.9,,, >> $log; done
  echo $epoch,$((3 * epoch + 2)),,0.8,, >> $log
  echo $epoch,$((3 * epoch + 2)),,,0.9, >> $log
done
echo 5,15,,,,0.7 >> $log
"""


@pytest.mark.timed
def test_the_rows_of_lightnings_table_are_epochs_and_not_steps(place):
    (place / "lit.sh").write_text(LIGHTNING)
    result, verdict = prove("sh lit.sh 0.06 '0 1 2'", "sh lit.sh 0.03 '0 1 2'")
    assert (verdict.get("source"), verdict.get("metric")) == ("file", "training_epoch_s"), (result.output, result.exception)
    assert verdict["candidates"][0]["ratio"] == pytest.approx(2.0, rel=0.3)
    assert "epochs: Lightning's CSV, `lightning_logs/version_0/metrics.csv`; --epoch-s" in " ".join(result.stderr.split())
    # From the end of one of three epochs to that of the next: two, of three steps each.
    assert json.loads((place / "out/warm-up.json").read_text())["epochs"] == {"a": 2, "b": 2}
    (run,) = (place / "out").glob("results/experiments/*/runs/01-*")
    step_s = 0.06 if run.name.endswith("a-timed") else 0.03
    assert all(seconds > 2 * step_s for seconds in read_epochs(run)["train_s"])  # the file is read every 10 ms


@pytest.mark.timed
def test_an_endless_program_of_lightning_ends_after_whole_epochs(place, monkeypatch):
    monkeypatch.setattr(live_epochs, "_READ_EVERY_S", 0.05)
    (place / "endless.sh").write_text(LIGHTNING.replace("$2", "$(seq 0 999)"))
    result, _ = prove("sh endless.sh 0.05", "sh endless.sh 0.04", "--stop-after", "2")
    assert result.exit_code in (0, 2), result.output
    assert json.loads((place / "out/warm-up.json").read_text())["epochs"] == {"a": 2, "b": 2}
    runs = (place / "out").glob("results/experiments/*/runs/*-a-timed")
    assert all(seconds > 0.1 for run in runs for seconds in read_epochs(run)["train_s"])
