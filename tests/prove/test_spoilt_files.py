"""What one command's warm-up removes or changes and the other needs: the slower one is not called slow for it."""

import json
import os
import subprocess
import time

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.run.outside_watch import OutsideWatch
from tests.support import without_machine

pytestmark = pytest.mark.timed

# Takes 0.05 s if the file $1 says "fast", else 0.25 s.
NEEDS = 'if grep -qs fast "$1"; then sleep 0.05; else sleep 0.25; fi\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A repository with an ignored folder, in which a file is, and a home."""
    for name in ("work/kept", "home/.config"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work/needs.sh").write_text(NEEDS)
    (tmp_path / "work/kept/index").write_text("fast\n")
    (tmp_path / "work/.gitignore").write_text("kept/\nout/\n")
    subprocess.run(["git", "init", "-q", "."], check=True)
    return tmp_path / "work"


def prove(folder, other, *words, needs="sh needs.sh kept/index"):
    (folder / "other.sh").write_text(other)
    result = CliRunner().invoke(
        app, ["prove", needs, "sh other.sh", "--rounds", "4", "--out", "out", "--quiet", "--json", *words]
    )
    (candidate,) = json.loads(result.stdout)["candidates"]
    found = [one for one in without_machine(candidate["objections"]) if one["kind"] in ("spoilt", "may be slowed")]
    return result.exit_code, [(one["kind"], one["blocks"], one["names"]) for one in found], candidate["sentence"]


@pytest.mark.parametrize("words", [(), ("--workdir", "here")])
def test_a_reference_that_lacks_what_the_other_removed_is_inconclusive(folder, words):
    status, found, sentence = prove(folder, "rm -f kept/index; sleep 0.12\n", *words)
    assert (status, found) == (2, [("spoilt", True, ["kept/index"])])
    said = "A (sh needs.sh kept/index) may be slow because kept/index vanished or changed while another command ran; restore it"
    assert said in sentence.replace("\xa0", " ")


@pytest.mark.parametrize("writes", ["[ $(cat kept/index) = slow ] || echo slow > kept/index", "echo slow > kept/index"])
def test_so_is_one_that_reads_what_the_other_changed(folder, writes):
    assert prove(folder, f"{writes}; sleep 0.12\n")[:2] == (2, [("spoilt", True, ["kept/index"])])


def test_what_it_does_not_read_is_no_reason(folder):
    status, found, _ = prove(folder, "echo 1 > kept/index; sleep 0.05\n", needs="sleep 0.2")
    assert (status, found) == (0, [])


def test_what_only_grows_is_a_condition(folder):
    status, found, _ = prove(folder, "echo more >> kept/index; sleep 0.02\n")
    assert (status, found) == (0, [("may be slowed", False, ["kept/index"])])


def test_who_removes_a_file_and_writes_its_kind_gets_a_condition(folder):
    (folder / "kept/step-1.pt").touch()
    status, found, _ = prove(folder, "rm -f kept/*.pt; touch kept/step-$$.pt; sleep 0.02\n", needs="sleep 0.2")
    assert (status, found) == (0, [("may be slowed", False, ["kept/step-1.pt"])])


def test_what_the_slower_one_writes_itself_is_no_reason(folder):
    (folder / "kept/a.log").touch()
    status, found, _ = prove(folder, "rm -f kept/*.log; sleep 0.02\n", needs="sh -c 'sleep 0.2; date > kept/b.log'")
    assert (status, found) == (0, [])


def test_a_link_that_a_run_removes_from_its_copy_takes_no_file(folder):
    status, found, _ = prove(folder, "rm kept; sleep 0.02\n", needs="sleep 0.2")
    assert (status, found) == (0, [])


def test_what_vanishes_from_the_home_is_a_condition(folder):
    cache = folder.parent / "home/.cache/needed"
    cache.mkdir(parents=True)
    (cache / "index").write_text("fast\n")
    status, found, _ = prove(folder, f"rm -rf {cache}; sleep 0.12\n", needs=f"sh needs.sh {cache}/index")
    assert (status, found) == (0, [("may be slowed", False, ["~/.cache/needed"])])


def test_a_file_that_it_reads_in_a_shared_folder_is_a_condition(folder, monkeypatch):
    shared = folder.parent / "shared/settings"
    shared.parent.mkdir()
    monkeypatch.setenv("HF_HOME", str(shared.parent))  # watched whatever lies in /tmp
    shared.write_text("fast\n")
    status, found, _ = prove(folder, f"echo slow > {shared}; sleep 0.12\n", needs=f"sh needs.sh {shared}")
    assert (status, found) == (0, [("may be slowed", False, [str(shared)])])
    shared.write_text("fast\n")
    assert prove(folder, f"echo slow > {shared}; sleep 0.05\n", needs="sleep 0.2")[:2] == (0, [])


def test_only_what_was_there_at_the_first_walk_vanishes(tmp_path):
    for name in ("old", "other"):
        (tmp_path / name).touch()
    (tmp_path / "folder/deep").mkdir(parents=True)
    watch = OutsideWatch((str(tmp_path),), os.geteuid())

    def walk():
        time.sleep(0.05)
        watch.find_changed(time.time_ns(), [], 5)
        return watch.vanished

    assert walk() == set()
    (tmp_path / "new").touch()
    (tmp_path / "old").unlink()
    (tmp_path / "folder/deep").rmdir()
    assert walk() == {str(tmp_path / "old"), str(tmp_path / "folder/deep")}
    (tmp_path / "new").unlink()
    (tmp_path / "old").touch()
    assert walk() == set()
    (tmp_path / "old").unlink()  # by now a run's
    (tmp_path / "other").rename(tmp_path / "folder/other")
    assert walk() == {str(tmp_path / "other")}
