"""Somebody else's record: nothing in it is read from, or written to, a place outside of it; what does not fit is refused."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from speedproof.results.evidence_archive import is_there
from speedproof.results.folder import read_results
from speedproof.results.names import inside
from speedproof.run.archive.rebuild import rebuild_results
from speedproof.run.archive.record import write_record
from speedproof.util.errors import RecordError
from speedproof.util.scrub import read_identity
from tests.report.example import CLAIMS, Example, vouch_again, write_example

EXAMPLE = Example(experiments=1, rounds=1, gpu=False, profiler="kineto")
RUN = "runs/01-baseline-timed"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_example(tmp_path_factory.mktemp("made") / "results", EXAMPLE)


@pytest.fixture
def results(made, tmp_path):
    return shutil.copytree(made, tmp_path / "inner" / "results")


def change_experiment(results, change):
    path = results / "experiments/experiment-1/experiment.json"
    experiment = json.loads(path.read_text())
    change(experiment)
    path.write_text(json.dumps(experiment))


def listing(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


HOSTILE = {
    "a digest above": lambda experiment: experiment["digests"].update({"../../../../planted.csv": "0"}),
    "an absolute digest": lambda experiment: experiment["digests"].update({"/etc/passwd": "0"}),
    "a digest of no table": lambda experiment: experiment["digests"].update({f"{RUN}/report.sqlite": "0"}),
    "a profiler's report": lambda experiment: experiment["digests"].update({f"{RUN}/report.nsys-rep": "0"}),
    "a run above": lambda experiment: experiment["runs"].__setitem__(0, "../../../../planted"),
    "an absolute run": lambda experiment: experiment["runs"].__setitem__(0, "/tmp/planted"),
    "no name": lambda experiment: experiment["runs"].__setitem__(0, ""),
    "a name of two": lambda experiment: experiment["runs"].__setitem__(0, experiment["runs"][1]),
    "a name with a NUL": lambda experiment: experiment["runs"].__setitem__(0, "a\0b"),
    "a name with an escape code": lambda experiment: experiment["runs"].__setitem__(0, "a\x1b[2Jb"),
    "an experiment above": lambda experiment: experiment.update(experiment="../planted"),
    "another experiment": lambda experiment: experiment.update(experiment="experiment-2"),
    "a variant above": lambda experiment: experiment["order"][0].update(variant="../../planted"),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_is_written(results, how, tmp_path):
    change_experiment(results, HOSTILE[how])
    before = listing(tmp_path)
    for use in (lambda: rebuild_results(results, CLAIMS), lambda: write_record([results], CLAIMS, tmp_path / "record")):
        with pytest.raises(RecordError) as caught:
            use()
        assert str(caught.value).isprintable()
        assert listing(tmp_path) == before


LINKS = {
    "a table": "experiments/experiment-1/runs/01-baseline-timed/epochs.csv",
    "a log": "experiments/experiment-1/runs/01-baseline-timed/log.txt",
    "a run": "experiments/experiment-1/runs/01-baseline-timed",
    "an experiment": "experiments/experiment-1",
    "a plan": "experiments/experiment-1/plan.json",
}


@pytest.mark.parametrize("what", LINKS)
def test_a_link_that_leads_out_is_not_followed_into_what_is_published(results, what, tmp_path):
    place = results / LINKS[what]
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    with pytest.raises(RecordError, match="leads out of"):
        write_record([results], CLAIMS, tmp_path / "record")
    assert not (tmp_path / "record").exists()


@pytest.mark.parametrize("folder", ["analysis", "analysis/experiment-1", "figures"])
def test_nothing_is_written_through_a_link(results, folder, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    place = results / folder
    if place.exists():
        shutil.rmtree(place)
    place.symlink_to(victim)
    with pytest.raises(RecordError, match="leads out of"):
        rebuild_results(results, CLAIMS)
    assert not list(victim.iterdir())


def test_a_link_inside_a_folder_is_as_good_as_what_it_leads_to(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to("here")
    assert inside(tmp_path, "link/file") == tmp_path / "link/file"
    ring = tmp_path / "ring"
    ring.symlink_to(ring)
    for path in ("..", "../other", "/etc", "link/../../other"):
        with pytest.raises(RecordError):
            inside(tmp_path, path)


def cut_epochs(folder):
    path = folder / "epochs.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))


def remove_table(folder):
    (folder / "epochs.csv").unlink()


def replace_by_pipe(folder):
    remove_table(folder)
    os.mkfifo(folder / "epochs.csv")


def change_trace(folder):
    path = folder.parent / "03-baseline-profiled/trace/ranges.parquet"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [cut_epochs, remove_table, replace_by_pipe, change_trace])
def test_numbers_of_a_file_that_its_experiment_does_not_vouch_for_are_used_nowhere(results, spoil):
    spoil(results / "experiments/experiment-1" / RUN)
    with pytest.raises(RecordError, match=r"(was changed|is missing|not a regular file|no such file).*delete its run's folder"):
        read_results(results)


def test_a_file_that_nobody_vouches_for_is_refused(results):
    change_experiment(results, lambda experiment: experiment["digests"].pop(f"{RUN}/epochs.csv"))
    with pytest.raises(RecordError, match=r"epochs\.csv: its experiment has no checksum of it"):
        read_results(results)


def test_fewer_epochs_than_a_run_completed_are_refused_though_vouched_for(results):
    cut_epochs(results / "experiments/experiment-1" / RUN)
    vouch_again(results)
    with pytest.raises(RecordError, match="4 epochs of a run that completed 6"):
        read_results(results)


@pytest.fixture
def no_report(monkeypatch):
    """Whatever a record keeps, it keeps before its report is made."""
    monkeypatch.setattr("speedproof.run.archive.record.rebuild_numbers", lambda *_: None)
    monkeypatch.setattr("speedproof.run.archive.record.write_report", lambda *_: None)


@pytest.fixture
def called(monkeypatch):
    """Give the user another name."""

    def call(name):
        monkeypatch.setenv("LOGNAME", name)
        read_identity.cache_clear()

    yield call
    read_identity.cache_clear()


@pytest.mark.usefixtures("no_report")
def test_a_record_keeps_no_profilers_report(results, tmp_path):
    for name in ("report.sqlite", "report.nsys-rep", "trace/other.sqlite"):
        path = results / "experiments/experiment-1/runs/03-baseline-profiled" / name
        path.write_bytes(b"SQLite format 3")
    with pytest.raises(RecordError, match="has no checksum"):  # a table of a trace that is none
        write_record([results], CLAIMS, tmp_path / "record")
    path.unlink()
    write_record([results], CLAIMS, tmp_path / "record")
    with zipfile.ZipFile(tmp_path / "record/evidence.zip") as archive:
        assert {Path(name).suffix for name in archive.namelist()} == {".json", ".csv", ".txt", ".parquet"}


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("name", ["epoch", "training", "torch", "baseline"])
def test_a_user_who_is_called_like_a_word_of_ours_can_keep_a_record(results, name, tmp_path, called):
    called(name)
    write_record([results], CLAIMS, tmp_path / "record")
    assert is_there(tmp_path / "record/experiments/experiment-1/experiment.json")


def test_a_user_of_a_name_of_its_own_is_still_looked_for(results, tmp_path, called):
    path = results / "experiments/experiment-1" / RUN / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"warnings": ["seen by wilhelmine"]}))
    vouch_again(results)
    called("wilhelmine")
    with pytest.raises(RecordError, match="names this machine, its user"):
        write_record([results], CLAIMS, tmp_path / "record")


@pytest.mark.usefixtures("no_report")
def test_a_corrected_title_is_what_tables_and_a_record_show(results, tmp_path):
    config = {"variants": {"baseline": {"title": "Corrected $\\frac{$ \x1b[2J"}, "other": {"title": "not measured"}}}
    (results / "config.json").write_text(json.dumps(config))
    write_record([results], CLAIMS, tmp_path / "record")
    for folder in (results, tmp_path / "record"):
        titles = read_results(folder).variants
        assert titles == {"baseline": "Corrected $\\frac{$ \\x1b[2J", "fast": "MONAI fast script"}
