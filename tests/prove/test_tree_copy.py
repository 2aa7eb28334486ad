"""Copies of folders with links, devices and odd names: nothing is read without end, and what is not copied is named."""

import os
import resource
import socket
from pathlib import Path

import pytest

from speedproof.config.model import Variant
from speedproof.config.workload import Declared, Workload
from speedproof.run.proof.left_files import take_snapshot
from speedproof.run.working_folder import list_outward_links, working_folder
from speedproof.util.errors import ConfigError


@pytest.fixture
def tree(place):
    return place / "out/programs/tree"


@pytest.fixture
def small_files():
    """Let nothing write more than a MiB into a file, so that a device that is copied fills no disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def make_sparse(path, size):
    with path.open("wb") as file:
        file.truncate(size)
    return path


def start_in_copy(tree):
    return working_folder(Workload(tree.parent, Declared(title="One")), Variant(title="one", tree=str(tree)))


def test_what_has_no_content_is_named_and_not_copied(place, tree, small_files):
    (place / "d").mkdir()
    os.mkfifo(place / "d/pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("d/socket")
    (place / "zero").symlink_to("/dev/zero")
    (place / "d/null").symlink_to("/dev/null")
    (place / "to-pipe").symlink_to("d/pipe")
    (place / "loop").symlink_to("loop")
    (place / "d/x").symlink_to("y")
    (place / "d/y").symlink_to("x")
    assert take_snapshot(place, place / "out").special == {
        "d/null": "a link to a device",
        "d/pipe": "a pipe",
        "d/socket": "a socket",
        "d/x": "a circle of links",
        "d/y": "a circle of links",
        "loop": "a circle of links",
        "to-pipe": "a link to a pipe",
        "zero": "a link to a device",
    }
    with start_in_copy(tree) as run:
        assert sorted(path.name for path in run.rglob("*")) == ["a.sh", "d", "loop", "null", "to-pipe", "x", "y", "zero"]
        assert (run / "zero").readlink() == Path("/dev/zero")
        assert sorted(list_outward_links(run)) == ["d/null", "to-pipe", "zero"]
    assert take_snapshot(place, place / "out").changed == []


def test_a_link_to_a_large_file_is_linked_and_a_nested_one_is_not_read(place, tree, tmp_path_factory):
    large = make_sparse(tmp_path_factory.mktemp("data") / "large", 2**40)  # a TiB of zeros, which no disk holds
    (place / "top").symlink_to(large)
    (place / "d").mkdir()
    (place / "d/nested").symlink_to(large)
    snapshot = take_snapshot(place, place / "out")
    assert snapshot.linked == {"top": str(place / "top")}
    assert not (tree / "top").exists()
    assert (tree / "d/nested").readlink() == large
    digests = (place / "out/programs/tree.sha256").read_text()
    os.utime(large, (0, 0))
    take_snapshot(place, place / "out")
    assert (place / "out/programs/tree.sha256").read_text() != digests  # known by its time


def test_a_small_linked_file_counts_by_its_content(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("data") / "small"
    elsewhere.write_text("1")
    (place / "d").mkdir()
    (place / "d/nested").symlink_to(elsewhere)
    digests = []
    for content in ("1", "1", "2"):
        elsewhere.write_text(content)
        take_snapshot(place, place / "out")
        digests.append((place / "out/programs/tree.sha256").read_text())
    assert digests[0] == digests[1] != digests[2]


def test_a_relative_link_out_of_the_folder_leads_there_from_a_copy_too(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_text("found")
    source = tmp_path / "work"
    (source / "d").mkdir(parents=True)
    (source / "d/x").symlink_to("../../data/x")
    (source / "d/own").symlink_to("../a")
    (source / "a").write_text("own")
    take_snapshot(source, source / "out")
    with start_in_copy(source / "out/programs/tree") as run:
        assert [(run / name).read_text() for name in ("d/x", "d/own")] == ["found", "own"]
        assert (run / "d/own").readlink() == Path("../a")


@pytest.mark.parametrize("name", [b"a\xff.txt", b"d/b\xfe"])
def test_a_name_that_is_not_utf8_is_named(place, name):
    (place / "d").mkdir()
    Path(os.fsdecode(name)).touch()
    with pytest.raises(ConfigError, match=r"(a\\xff.txt|d/b\\xfe): its name is not valid UTF-8; rename it"):
        take_snapshot(place, place / "out")
