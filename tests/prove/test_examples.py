"""The examples: short, and read as their first lines say."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from speedproof.results.run_record import read_epochs
from tests.run.test_shell import read_run, run_once
from tests.workflow.checkout import ROOT

EXAMPLES = ROOT / "examples"


def run_example(tmp_path, command, **reads):
    run_once(tmp_path, "", command=command, tree=str(EXAMPLES), reads=reads)
    return read_run(tmp_path / "01-one-timed"), read_epochs(tmp_path / "01-one-timed")


@pytest.fixture
def epochs(monkeypatch):
    """How many epochs the variant's runs have."""

    def ask(number):
        monkeypatch.setitem(__import__("tests.run.test_shell", fromlist=["MEASURED"]).MEASURED, "epochs", number)

    return ask


def test_each_is_short():
    programs = [path for path in EXAMPLES.iterdir() if path.suffix in {".c", ".py", ".sh"}]
    assert len(programs) >= 4
    assert {path.name for path in programs if len(path.read_text().splitlines()) >= 40} == set()


def test_a_numpy_program_is_read_by_what_it_prints(tmp_path, epochs):
    epochs(4)
    run, table = run_example(
        tmp_path, f"{sys.executable} train_numpy.py", source="lines", epoch_s=r"took (\S+) s", quality=r"error (\S+)"
    )
    assert table["train_s"].gt(0).all() and table["quality"].is_monotonic_decreasing
    assert run.process_s > run.training_s


@pytest.mark.timed
def test_a_shell_script_is_read_by_when_its_lines_come(tmp_path, epochs):
    epochs(3)
    run, table = run_example(tmp_path, "sh train.sh 0.1", source="lines", epoch="^epoch", quality=r"score (\S+)")
    assert (table["quality"].tolist(), run.best_quality) == ([0.17, 0.27, 0.37], 0.37)  # the last digit is the seed
    assert table["train_s"].ge(0.08).all()  # each sleeps 0.1 s, and on a busy machine longer
    assert table["train_s"].sum() < run.process_s


def test_plain_pytorch_marks_its_epochs(tmp_path, epochs):
    epochs(2)
    run, table = run_example(tmp_path, f"{sys.executable} train_torch.py --fused", source="marks")
    assert (len(table), run.best_quality is not None and run.best_quality > 0.6) == (2, True)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_c_program_is_known_by_its_process(tmp_path, epochs):
    program = tmp_path / "sum"
    subprocess.run(["cc", "-O2", EXAMPLES / "sum.c", "-o", program], check=True)
    run, table = run_example(tmp_path, str(program), source="process")
    assert (len(table), run.epochs, run.outcome) == (0, 0, "completed")
    assert run.process_s > 0.01
    assert Path(run.command[0]).name == "sum"
