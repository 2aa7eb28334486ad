"""Programs that read `../data`, which no copy of their folder has."""

import json

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app

FAILS = "cat ../data/numbers.txt\n"
MAKES = "mkdir -p ../data; [ -s ../data/numbers.txt ] || echo downloaded > ../data/numbers.txt; cat ../data/numbers.txt\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/numbers.txt").write_text("1\n")
    (tmp_path / "trainer").mkdir()
    monkeypatch.chdir(tmp_path / "trainer")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "trainer"


def prove(*words):
    asked = ["prove", "sh train.sh", "sh train.sh 2", "--rounds", "4", "--device", "cpu", "--out", "out"]
    return CliRunner().invoke(app, [*asked, *words])


def said(result):
    return " ".join(f"{result.stderr} {result.exception or ''}".split())


ADVICE = "your ../data, since it starts in a copy of the working folder; --workdir here starts it in the folder itself"


@pytest.mark.parametrize("path", ["'../data'", "os.path.join('..', 'data')", 'Path("..") / "data"'])
def test_a_program_that_fails_without_them_is_told_what_helps(folder, path):
    (folder / "train.sh").write_text(f"echo no such data; exit 1 # {path}\n")
    assert f"it does not see {ADVICE}" in said(prove())


def test_a_program_that_makes_the_path_of_its_own_is_told_what_helps(folder):
    (folder / "train.sh").write_text('cat "$(dirname "$PWD")/data/numbers.txt"\n')
    assert f"it does not see {ADVICE}" in said(prove())


def test_what_helps_does(folder):
    (folder / "train.sh").write_text(FAILS)
    assert "B (sh train.sh 2): exit status 1 (cat: ../data/numbers.txt" in said(prove())
    assert prove("--workdir", "here").exit_code in (0, 1, 2)
    assert json.loads((folder / "out/verdict.json").read_text())["rounds"] == 4


@pytest.mark.parametrize("caches", ["warm", "shared"])
def test_what_a_run_makes_in_their_place_is_named_and_goes_with_it(folder, caches):
    (folder / "train.sh").write_text(MAKES)
    proven = prove("--caches", caches)
    assert proven.exit_code in (0, 1, 2), proven.stderr
    assert f"it created ../data: it does not see {ADVICE}" in said(proven)
    assert (folder / "out/warm-up/a.txt").read_text() == "downloaded\n"
    assert list((folder.parent / "tmp").iterdir()) == []


def test_another_failure_gets_no_advice(folder):
    (folder / "train.sh").write_text("cat ../nothing\n")
    assert "--workdir here" not in said(prove())
