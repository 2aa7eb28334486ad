"""What other programs do in temporary folders is not held against the programs that are compared."""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from speedproof.run import outside_watch
from speedproof.run.others_files import OthersFiles, is_temporary
from speedproof.run.outside_watch import find_changes, note_others

WAITS = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def place(monkeypatch):
    """A folder in /tmp as the only place that is watched."""
    with tempfile.TemporaryDirectory() as folder:
        outside_watch._watch_of.cache_clear()
        outside_watch.known_others.cache_clear()
        monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: (folder,))
        monkeypatch.setattr(outside_watch, "is_temporary", lambda name, places, environ: name.startswith(folder))
        find_changes([], time.time_ns(), [], 5)
        yield Path(folder)
    outside_watch._watch_of.cache_clear()
    outside_watch.known_others.cache_clear()


def begin():
    """Return a moment that files written before and after are surely told from."""
    time.sleep(0.05)
    moment = time.time_ns()
    time.sleep(0.05)
    return moment


@contextmanager
def running(folder, command):
    """Run a command as a shell's process, since our own children do not count."""
    words = ["sh", "-c", 'cd "$0" && "$@"; true', folder, *command]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        shell.stdout.read(1)
        yield
        shell.stdin.close()


def see(since_ns):
    changes = find_changes([], since_ns, [], 5)
    return changes.files, changes.created


def test_what_a_run_leaves_is_named_and_what_vanishes_is_not(place):
    (place / "old").touch()
    see(begin())
    since_ns = begin()
    (place / "made").mkdir()
    (place / "made/file").touch()
    (place / "old").unlink()
    changes = find_changes([], since_ns, [], 5)
    assert (changes.files, changes.created) == ([f"{place}/made/file"], [f"{place}/made"])
    assert changes.vanished == []


MAPS = (
    """
import mmap, sys
with open(sys.argv[1][1:], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
"""
    + WAITS
)


def test_what_another_process_maps_into_its_memory_or_has_in_a_variable_is_its(place):
    """As Nsight Systems' semaphores, and the settings that it names to the program that it profiles."""
    since_ns = begin()
    for name in ("semaphore", "settings", "ours"):
        (place / name).write_bytes(b"1234")
    command = ["env", f"CONFIG={place}/settings", sys.executable, "-c", MAPS, f":{place}/semaphore"]
    with running("/", command):
        found = see(since_ns)
    assert found == ([f"{place}/ours"], [f"{place}/ours"])


@pytest.mark.parametrize("words", [[], ["{place}/made"], ["--folder={place}/made/"]])
def test_a_folder_in_which_another_process_works_or_that_it_names_is_its(place, words):
    since_ns = begin()
    (place / "made").mkdir()
    for name in ("file", "other"):
        (place / "made" / name).touch()
    command = [sys.executable, "-c", WAITS, *(word.format(place=place) for word in words)]
    folder = "/" if words else str(place / "made")
    with running(folder, command):
        (place / "ours").touch()
        found = see(since_ns)
    assert found == ([f"{place}/ours"], [f"{place}/ours"])


def test_a_folder_that_appears_between_runs_is_anothers(place):
    (place / "made/deep").mkdir(parents=True)
    since_ns = begin()
    (place / "made/deep/file").touch()
    (place / "ours").touch()
    assert see(since_ns)[0] == [f"{place}/ours"]


def test_what_changes_while_no_run_can_write_there_is_anothers(place):
    since_ns = begin()
    for name in ("made", "kept"):
        (place / name).mkdir()
        (place / name / "file").touch()
    assert see(since_ns)[1] == [f"{place}/kept", f"{place}/made"]
    since_ns = begin()
    (place / "made/more").touch()
    note_others([], since_ns, [])
    assert outside_watch.is_others(f"{place}/made", [str(place)])
    assert not outside_watch.is_others(f"{place}/kept", [str(place)])


def test_a_folder_that_holds_our_own_is_not_anothers(tmp_path):
    others = OthersFiles()
    (tmp_path / "work").mkdir()
    with running(tmp_path, [sys.executable, "-c", WAITS]):
        others.note_processes([str(tmp_path / "work")])
        assert not others.has(f"{tmp_path}/file")
        others.note_processes([])
        assert others.has(f"{tmp_path}/file")


def test_a_home_within_tmp_is_none_of_the_temporary_folders():
    places = ["/tmp", "/tmp/home", "/data/scratch"]
    found = [
        is_temporary(name, places, {"TMPDIR": "/data/scratch"}) for name in ("/tmp/a", "/tmp/home/a", "/data/scratch/a", "/x")
    ]
    assert found == [True, False, True, False]
    assert not is_temporary("/data/scratch/a", places, os.environ | {"TMPDIR": ""})
