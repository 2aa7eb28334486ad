"""Commits as folders: what git holds, nothing of the working folder, and the build of each."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from speedproof.run.commits import BuildError, build_folder, export_commit, resolve_commit
from speedproof.util.errors import ConfigError
from tests.repositories import commit_all, git, make_repository


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.fixture
def repository(tmp_path):
    """Two commits: `old` says before, `main` says after; a file that is kept out of archives; an edit that is not committed."""
    folder = make_repository(tmp_path)
    write(folder, "train.py", "before\n")
    write(folder, "part/inner.py", "inner\n")
    write(folder, ".gitattributes", "part export-ignore\n")
    commit_all(folder, "old")
    git(folder, "tag", "old")
    write(folder, "train.py", "after\n")
    commit_all(folder, "new")
    write(folder, "train.py", "edited\n")
    return folder


def export(commit, folder):
    folder.mkdir()
    export_commit(commit, folder)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_each_commit_is_written_as_a_checkout_has_it(repository, tmp_path):
    status = git(repository, "status", "--porcelain")
    shared = {"part/inner.py": "inner\n", ".gitattributes": "part export-ignore\n"}
    assert export(resolve_commit(repository, "old"), tmp_path / "a") == {"train.py": "before\n", **shared}
    assert export(resolve_commit(repository, "main"), tmp_path / "b") == {"train.py": "after\n", **shared}
    assert git(repository, "status", "--porcelain") == status


def test_of_a_folder_below_its_own_files_count(repository, tmp_path):
    old, new = (resolve_commit(repository / "part", name) for name in ("old", "main"))
    assert old.tree == new.tree
    assert export(new, tmp_path / "a") == {"inner.py": "inner\n"}


def test_a_title_shows_what_was_asked_for_and_the_checksum(repository):
    sha = git(repository, "rev-parse", "main")
    assert resolve_commit(repository, "main").title == f"main ({sha[:12]})"
    assert resolve_commit(repository, sha[:9]).title == sha[:12]


def test_a_submodule_is_named(repository, tmp_path):
    git(repository, "submodule", "add", "-q", str(repository), "vendored")
    git(repository, "commit", "-qm", "submodule")
    assert resolve_commit(repository, "HEAD").submodules == ("vendored",)


@pytest.mark.parametrize("name", ["nowhere", "--all", "HEAD:train.py"])
def test_what_names_no_commit_is_refused_in_one_line(repository, name):
    with pytest.raises(ConfigError, match=f"^{name}: no such commit in .*fetch it"):
        resolve_commit(repository, name)


def test_a_folder_without_git_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not in a git repository"):
        resolve_commit(tmp_path, "HEAD")


def test_a_build_runs_in_its_folder_and_a_failure_shows_its_last_line(tmp_path):
    build_folder(tmp_path, "sh -c 'echo built > out'", "main")
    assert (tmp_path / "out").read_text() == "built\n"
    with pytest.raises(BuildError, match=r"^main: --build .* ended with exit status 7: no compiler$"):
        build_folder(tmp_path, "sh -c 'echo no compiler >&2; exit 7'", "main")
    with pytest.raises(BuildError, match=r"^main: cannot run --build 'nothing-like-this'"):
        build_folder(tmp_path, "nothing-like-this", "main")


def test_a_build_that_leaves_a_server_ends_and_one_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    build_folder(tmp_path, "sh -c 'sleep 1000 & echo $! > server'", "main")  # its output stays open
    os.kill(int((tmp_path / "server").read_text()), signal.SIGKILL)

    def interrupt(child):
        while not (tmp_path / "helper").is_file():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as inner:
        inner.setattr(subprocess.Popen, "__exit__", lambda *_: None)
        build_folder(tmp_path, "sh -c 'sleep 1000 & echo $! > new; mv new helper; wait'", "main")
    helper = int((tmp_path / "helper").read_text())
    while Path(f"/proc/{helper}/stat").exists() and ") Z " not in Path(f"/proc/{helper}/stat").read_text():
        time.sleep(0.01)
