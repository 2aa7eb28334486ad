"""What is shown of a results folder was made of what lies there: a comparison of other experiments or analyses is refused."""

import json
import shutil

import pytest

from speedproof.cli import main
from speedproof.stats.compare import compare_experiments, write_comparison
from tests.report.example import CLAIMS, Example, write_example

EXPERIMENT = "experiments/experiment-1/experiment.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = write_example(tmp_path_factory.mktemp("made") / "results", Example(experiments=1, rounds=1, modes=("profiled",)))
    write_comparison(compare_experiments(folder, CLAIMS), folder)
    return folder


@pytest.fixture
def results(made, tmp_path):
    return shutil.copytree(made, tmp_path / "results")


def change_experiment(results):
    experiment = json.loads((results / EXPERIMENT).read_text())
    (results / EXPERIMENT).write_text(json.dumps(experiment | {"kept": experiment["runs"][:1]}))


def change_summary(results):
    path = next(results.glob("analysis/*/*/summary.json"))
    path.write_text(path.read_text().replace("0.", "1.", 1))


def show(monkeypatch, capfd, *arguments):
    monkeypatch.setattr("sys.argv", ["speedproof", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0, capfd.readouterr().err


@pytest.mark.parametrize(("command", "failed"), [("show", 3), ("report", 6)])
@pytest.mark.parametrize(("change", "named"), [(change_experiment, "experiment.json"), (change_summary, "summary.json")])
def test_a_comparison_of_what_was_there_before_is_not_shown(results, monkeypatch, capfd, command, failed, change, named):
    change(results)
    status, said = show(monkeypatch, capfd, "results", command, "--from", results)
    assert status == failed
    assert said.startswith(f"speedproof: {results / 'comparison.json'}: is out of date: ") and f"/{named} changed" in said
    assert "`speedproof results rebuild` recomputes it" in said
    assert not (results / "report.md").exists()


def test_analyses_that_are_not_there_contradict_nothing_and_are_made_for_the_report(results, monkeypatch, capfd):
    """A record keeps none. Here the analyses were written by hand: those of the traces are others, and that is said."""
    shutil.rmtree(results / "analysis")
    assert show(monkeypatch, capfd, "results", "show", "--from", results) == (0, "")
    assert not (results / "analysis").exists()
    status, said = show(monkeypatch, capfd, "results", "report", "--from", results)
    assert status == 6 and "/summary.json changed; `speedproof results rebuild` recomputes it" in said
    assert show(monkeypatch, capfd, "results", "rebuild", "--from", results, "--claims", CLAIMS)[0] == 0
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    shutil.rmtree(results / "analysis")
    assert show(monkeypatch, capfd, "results", "report", "--from", results)[0] == 0
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before


def test_an_experiment_that_came_since_is_missed(results, monkeypatch, capfd):
    experiment = json.loads((results / EXPERIMENT).read_text())
    (results / "experiments/experiment-2").mkdir()
    (results / "experiments/experiment-2/experiment.json").write_text(json.dumps(experiment | {"experiment": "experiment-2"}))
    status, said = show(monkeypatch, capfd, "results", "show", "--from", results)
    assert status == 3 and "experiments/experiment-2/experiment.json changed" in said


def test_a_comparison_of_an_earlier_version_is_shown(results, monkeypatch, capfd):
    path = results / "comparison.json"
    comparison = json.loads(path.read_text())
    del comparison["made_of"], comparison["seal"]
    path.write_text(json.dumps(comparison))
    assert show(monkeypatch, capfd, "results", "show", "--from", results) == (0, "")


@pytest.mark.parametrize(("changed", "into"), [("1", "2"), ('"high": ', '"low": ')])
def test_a_comparison_that_was_changed_is_not_shown(results, monkeypatch, capfd, changed, into):
    path = results / "comparison.json"
    path.write_text(path.read_text().replace(changed, into, 1))
    status, said = show(monkeypatch, capfd, "results", "show", "--from", results)
    assert status == 3
    assert said.startswith(f"speedproof: {path}: ") and "`speedproof results rebuild` recomputes it" in said
