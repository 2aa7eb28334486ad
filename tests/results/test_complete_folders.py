"""A folder of volumes is whole or not there, whoever is killed meanwhile; of several processes one fills it."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from speedproof.results.complete_folders import check_free_space, make_once
from speedproof.util.errors import DataError

FIRST, SECOND = {"size": "tiny", "seed": 1}, {"size": "tiny", "seed": 2}

FILLER = """
import sys
from pathlib import Path
from speedproof.results.complete_folders import make_once

def fill(empty):
    (empty / sys.argv[2]).write_text("begun")
    print("fills", flush=True)
    sys.stdin.readline()

make_once(Path(sys.argv[1]), {"size": "tiny", "seed": 1}, fill)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data" / "phantom"


def filling(name):
    """Return a function that fills a folder with one file, and refuses one that is not empty."""

    def fill(empty):
        assert list(empty.iterdir()) == []
        (empty / name).write_text(name)

    return fill


def never(empty):
    raise AssertionError("is there already")


def volumes(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


@contextmanager
def filler(folder, name):
    """Start a process that fills the folder with a file of this name, once it gets a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", FILLER, str(folder), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_folder_is_filled_once(folder):
    assert make_once(folder, FIRST, filling("volume")) == folder
    assert make_once(folder, FIRST, never) == folder
    assert volumes(folder) == ["volume"]
    assert volumes(folder.parent) == ["phantom"]


def test_for_another_marker_it_is_filled_again(folder):
    make_once(folder, FIRST, filling("older"))
    make_once(folder, SECOND, filling("newer"))
    assert volumes(folder) == ["newer"]
    make_once(folder, SECOND, never)


def test_a_fill_that_fails_leaves_nothing(folder):
    def fail(empty):
        (empty / "half").write_text("half")
        raise DataError("no room")

    with pytest.raises(DataError, match="no room"):
        make_once(folder, FIRST, fail)
    assert not [path for path in folder.parent.rglob("*") if not path.name.endswith(".lock")]
    make_once(folder, FIRST, filling("volume"))
    with pytest.raises(DataError, match="no room"):
        make_once(folder, SECOND, fail)
    assert volumes(folder) == ["volume"]
    make_once(folder, FIRST, never)


@pytest.mark.parametrize("marker", [None, "", "{"], ids=["none", "empty", "broken"])
def test_a_folder_that_is_not_ours_is_left_alone(folder, marker):
    folder.mkdir(parents=True)
    (folder / "thesis").write_text("years of work")
    if marker is not None:
        (folder / ".speedproof.json").write_text(marker)
    with pytest.raises(DataError) as raised:
        make_once(folder, FIRST, never)
    said = "exists, but speedproof did not make it; move it away, or use it: `data.source: local`"
    assert str(raised.value) == f"{folder}: {said}"
    assert volumes(folder) == ["thesis"]


def test_a_run_killed_while_it_replaces_a_folder_leaves_one_that_is_ours(folder, monkeypatch):
    make_once(folder, FIRST, filling("older"))
    remove = shutil.rmtree

    def stop_half_way(path, **options):
        if (path / ".speedproof.json").exists():
            (path / ".speedproof.json").unlink()
            raise KeyboardInterrupt
        remove(path, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "rmtree", stop_half_way)
        make_once(folder, SECOND, filling("newer"))
    make_once(folder, FIRST, filling("volume"))
    assert volumes(folder) == ["volume"]
    assert not [path for path in folder.parent.iterdir() if path != folder and not path.name.endswith(".lock")]


def test_of_two_processes_one_fills_and_both_get_it(folder):
    with filler(folder, "one") as first:
        assert first.stdout.readline() == "fills\n"
        with filler(folder, "two") as second:
            go_on(second)  # for later: it would have nothing to fill
            assert second.stderr.readline() == f"{folder}: another process is making it; waiting for that\n"
            go_on(first)
            first.wait(timeout=60)
            said, _ = second.communicate(timeout=60)
    assert (first.returncode, second.returncode, said) == (0, 0, "")
    assert volumes(folder) == ["one"]


def test_one_that_waits_takes_over_from_one_that_is_killed(folder):
    with filler(folder, "one") as first:
        assert first.stdout.readline() == "fills\n"
        with filler(folder, "two") as second:
            go_on(second)
            second.stderr.readline()
            first.kill()
            said, _ = second.communicate(timeout=60)
    assert (second.returncode, said) == (0, "fills\n")
    assert volumes(folder) == ["two"]


def test_what_a_killed_run_left_is_taken_over(folder):
    with filler(folder, "one") as process:
        assert process.stdout.readline() == "fills\n"
    assert not folder.exists()
    make_once(folder, FIRST, filling("two"))
    assert volumes(folder) == ["two"]


@pytest.mark.parametrize("needed_bytes", [0, 2**20])
def test_enough_room_is_nothing_to_say(tmp_path, monkeypatch, needed_bytes):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    check_free_space(tmp_path, needed_bytes, "a phantom")


def test_too_little_room_is_said_in_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(DataError) as raised:
        check_free_space(tmp_path, 1500 * 2**20, "a phantom")
    said = "a phantom needs 1,500 MiB, the disk has 1 MiB free; make room, or set `data.folder` to another disk"
    assert str(raised.value) == f"{tmp_path}: {said}"


@pytest.mark.parametrize("lay", [Path.symlink_to, Path.hardlink_to], ids=["link", "second name"])
def test_a_lock_that_someone_laid_there_changes_no_other_file(folder, tmp_path, lay):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder.parent.mkdir()
    lay(folder.with_name(".phantom.lock"), victim)
    with pytest.raises(DataError, match=r"\.phantom\.lock: is not a regular file.*; remove it, or set `data\.folder`"):
        make_once(folder, FIRST, never)
    assert victim.read_text() == "mine"
    folder.with_name(".phantom.lock").unlink()
    make_once(folder, FIRST, filling("volume"))


def test_a_pipe_in_place_of_a_lock_is_not_waited_for(folder):
    folder.parent.mkdir()
    os.mkfifo(folder.with_name(".phantom.lock"))
    with pytest.raises(DataError, match=r"\.phantom\.lock: is not a regular file"):
        make_once(folder, FIRST, never)


def test_a_link_in_place_of_an_unfinished_folder_is_named(folder, tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/volume").write_text("mine")
    folder.parent.mkdir()
    folder.with_name(".phantom.unfinished").symlink_to(tmp_path / "victim")
    with pytest.raises(DataError, match=r"\.phantom\.unfinished: is a link; remove it"):
        make_once(folder, FIRST, never)
    assert (tmp_path / "victim/volume").read_text() == "mine"
