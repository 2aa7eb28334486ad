"""What a proof measures of the folder in which it was typed: copies, links, what is left out, what changed."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from speedproof.config.load import load_config
from speedproof.config.workload import find_workload
from speedproof.run.commits import export_commit, resolve_commit
from speedproof.run.proof.left_files import Snapshot, take_snapshot
from speedproof.run.proof.request import ProofRequest, check_request, write_request
from speedproof.run.proof.workspace import ProofBasis, describe_commit, write_for_others


def test_an_odd_working_folder_is_copied_as_far_as_it_can_be(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (place / "data").symlink_to(elsewhere)
    (place / ".#a.sh").symlink_to("nobody@nowhere")  # an editor's lock
    (place / "lib").mkdir()
    (place / "lib/__init__.py").touch()
    os.mkfifo(place / "lib/pipe")
    for out in ("lib/proof", "other"):  # beside each other, and neither is part of what the other measures
        snapshot = take_snapshot(place, place / out)
        tree = place / out / "programs/tree"
        assert sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*")) == [
            ".#a.sh", "a.sh", "lib", "lib/__init__.py"
        ]  # fmt: skip
        assert (snapshot.linked, snapshot.left_out) == ({"data": str(place / "data")}, [])
    assert take_snapshot(place, place / "lib/proof").changed == []


def test_where_our_own_output_goes_is_no_part_of_the_working_folder(place):
    """`prove … --json > verdict.json` would else find another folder each time, and measure all anew."""
    words = "from pathlib import Path; from speedproof.run.proof.left_files import take_snapshot; import sys; "
    words += "take_snapshot(Path(), Path('out')); print('said', file=sys.stderr)"
    (place / "logs").mkdir()
    with (place / "verdict.json").open("w") as stdout, (place / "logs/said.txt").open("w") as stderr:
        subprocess.run([sys.executable, "-c", words], stdout=stdout, stderr=stderr, check=True)
    assert sorted(path.name for path in (place / "out/programs/tree").rglob("*")) == ["a.sh", "logs"]
    assert take_snapshot(place, place / "out").changed == []  # nor of a later call, whose output goes elsewhere


def test_of_the_last_commit_no_edit_is_measured_and_what_git_ignores_is_linked(place, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(place.parents[1]))  # temporary folders may lie in a checkout
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    (place / ".gitignore").write_text("data\n")
    (place / "data").mkdir()
    (place / "sub").mkdir()
    (place / "sub/b.sh").write_text("committed\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=place, check=True)
    (place / "sub/b.sh").write_text("edited\n")
    (place / "new.sh").touch()
    fill = partial(export_commit, resolve_commit(place, "HEAD"))
    committed = take_snapshot(place, place / "out", fill)
    assert committed == Snapshot(linked={"data": str(place / "data")})
    assert (place / "out/programs/tree/sub/b.sh").read_text() == "committed\n"
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], cwd=place, capture_output=True, text=True).stdout.strip()
    shutil.rmtree(place / "out")
    assert describe_commit(place) == f"commit {head}, with changes to new.sh, sub/b.sh"
    assert describe_commit(place.parent) == ""
    take_snapshot(place, place / "out", fill)
    copied = take_snapshot(place, place / "out")
    assert copied.changed == ["new.sh", "sub/b.sh"]


def test_a_folder_of_many_files_is_no_large_configuration(place):
    for number in range(50):
        (place / f"{number}.sh").write_text(str(number))
    checked = check_request({"commands": ["true", "true"]}, "here")

    def describe():
        snapshot = take_snapshot(place, place / "out")
        named = {"a": "true", "b": "true"}
        return ProofBasis(place / "out", checked, named, snapshot, {}).describe(checked.reading("process"), {})

    measured = describe()
    path = write_for_others(measured, place / "out")
    assert "49.sh" not in (place / "out/programs/workload.yaml").read_text()
    # Who reads the files measures the same.
    assert (load_config(path), find_workload(measured.config.case)) == (measured.config, measured.workload)
    digests = [measured.workload.digest_sources("experiment")]
    for edit in (None, "edited"):
        (place / "49.sh").write_text(edit or "49")
        digests.append(describe().workload.digest_sources("experiment"))
    assert digests[0] == digests[1] != digests[2]


def test_a_first_file_in_an_empty_folder_is_named_too(place):
    (place / "a.sh").unlink()
    assert take_snapshot(place, place / "out").changed == []
    (place / "b.sh").touch()
    assert take_snapshot(place, place / "out").changed == ["b.sh"]


def test_a_file_that_asks_for_this_proof_is_no_part_of_the_programs(place):
    commands = ["sh a.sh 2 1", "sh a.sh 1 1"]
    for name, asked in {"proof.yaml": commands, "sub/proof.json": commands, "other.yaml": commands[::-1]}.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(write_request(check_request({"commands": asked}, "here")))
    (place / "mine.yaml").write_text("commands: {a: 1}\n")
    take_snapshot(place, place / "out", commands=commands)
    tree = place / "out/programs/tree"
    assert sorted(path.name for path in tree.rglob("*")) == ["a.sh", "mine.yaml", "other.yaml", "sub"]
    (place / "proof.yaml").write_text(write_request(check_request({"commands": commands, "claim": ">= 2"}, "here")))
    assert take_snapshot(place, place / "out", commands=commands).changed == []


@pytest.mark.parametrize("moment", ["copytree", "rmtree"])
def test_a_killed_copy_changes_nothing(place, monkeypatch, moment):
    """The next call compared with what the killed one had copied until then."""
    (place / "sub").mkdir()
    (place / "sub/b.sh").touch()
    take_snapshot(place, place / "out")
    (place / "a.sh").write_text("edited")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, moment, killed_when_it_is_full(getattr(shutil, moment)))
        with pytest.raises(KeyboardInterrupt):
            take_snapshot(place, place / "out")
    expected = ["a.sh"] if moment == "copytree" else []  # the old copy was being removed: the new one is whole
    assert take_snapshot(place, place / "out").changed == expected
    assert sorted(path.name for path in (place / "out/programs").iterdir()) == ["tree", "tree.sha256"]


def killed_when_it_is_full(function):
    def run(path, *words, **more):
        if Path(path).is_dir():
            raise KeyboardInterrupt
        return function(path, *words, **more)

    return run


def test_each_variant_may_have_a_tree_of_its_own_and_links_only_what_that_lacks(place):
    (place / "data").mkdir()
    (place / ".gitignore").write_text("data\nbuilt\n")
    (place / "built").write_text("of the working folder")
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)

    def fill(tree):
        for name in "ab":
            (tree / name).mkdir()
            (tree / name / "name").write_text(name)
        (tree / "b/built").write_text("its own")

    snapshot = replace(take_snapshot(place, place / "out", fill), own_trees=frozenset("ab"))
    request = ProofRequest(commands=["sh a.sh"] * 2, workdir="commit")
    commands = dict.fromkeys("ab", "/bin/sh a.sh")
    basis = ProofBasis(place / "out", request, commands, snapshot, {"PATH": "/bin"})
    variants = basis.describe(request.reading("process"), {}).config.completed_variants
    assert {name: variant.tree for name, variant in variants.items()} == {"a": "{workload}/tree/a", "b": "{workload}/tree/b"}
    assert {name: set(variant.linked) for name, variant in variants.items()} == {"a": {"data", "built"}, "b": {"data"}}
