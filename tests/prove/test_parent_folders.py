"""Programs that read `../data`: it is linked above each copy of their folder, up to the root of their git repository."""

import json
import os

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.config.model import Variant
from speedproof.config.workload import Declared, Workload
from speedproof.run.mirrored_folders import count_mirrored
from speedproof.run.proof.left_files import take_snapshot
from speedproof.run.proof.parent_folders import describe_followed, list_named_above
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.workspace import ProofBasis
from speedproof.run.working_folder import working_folder

READS = "cat ../data/numbers.txt\n"
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


@pytest.fixture
def root(folder):
    """Return a folder that is the root of its git repository: nothing above it is mirrored."""
    (folder / ".git").mkdir()
    return folder


def prove(*words):
    asked = ["prove", "sh train.sh", "sh train.sh 2", "--rounds", "4", "--device", "cpu", "--out", "out"]
    return CliRunner().invoke(app, [*asked, *words])


def said(result):
    return " ".join(f"{result.stderr} {result.exception or ''}".split())


ADVICE = "since it starts in a copy of the working folder; --workdir here starts it in the folder itself"


def test_a_program_that_reads_them_works_at_the_first_call(folder):
    (folder / "train.sh").write_text(f"touch ../made; {READS}")
    proven = prove()
    assert proven.exit_code in (0, 1, 2), proven.stderr
    assert "uses ../data, which all runs share" in said(proven)
    assert (folder / "out/warm-up/a.txt").read_text() == "1\n"
    assert not (folder.parent / "made").exists()
    assert list((folder.parent / "tmp").iterdir()) == []


def test_what_a_source_names_there_is_watched(folder):
    (folder / "train.sh").write_text("echo 2 > ../data/left.txt\n")
    commands, out = {"a": "sh train.sh", "b": "sh train.sh 2"}, folder / "out"
    request = ProofRequest(commands=list(commands.values()))
    basis = ProofBasis(out, request, commands, take_snapshot(folder, out), os.environ, mirrored=1)
    variants = basis.describe(request.reading("process"), {}).config.completed_variants
    assert [one.named_folders for one in variants.values()] == [[str(folder.parent / "data")]] * 2
    assert (variants["a"].origin, variants["a"].mirrored) == (str(folder), 1)


def mirror(folder, levels):
    tree = folder.parent / "tree"
    tree.mkdir(exist_ok=True)
    workload = Workload(folder / "out/programs", Declared(title="One"))
    return working_folder(workload, Variant(title="one", tree=str(tree), origin=str(folder), mirrored=levels, caches="warm"))


def list_names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_mirror_has_the_real_names_and_links_to_the_rest(tmp_path):
    for name in ("repo/.git", "repo/data", "repo/examples/gan/out/programs", "repo/examples/other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "repo/setup.py").write_text("1")
    with mirror(tmp_path / "repo/examples/gan", 2) as place:
        assert place.parts[-2:] == ("examples", "gan")
        assert list_names(place.parent) == ["gan", "other", "tree"]
        assert list_names(place.parents[1]) == ["data", "examples", "setup.py"]
        assert (place / "../other").resolve() == tmp_path / "repo/examples/other"
        assert describe_followed(Variant(title="one", mirrored=2), place) == ["uses ../other, which all runs share"]
        (place / "../../setup.py").read_text()
        (place / "../made").mkdir()
    assert not (tmp_path / "repo/examples/made").exists()


def test_the_folder_that_holds_the_proof_is_not_linked(tmp_path):
    for name in ("work", "proofs/out/programs"):
        (tmp_path / name).mkdir(parents=True)
    workload = Workload(tmp_path / "proofs/out/programs", Declared(title="One"))
    with working_folder(workload, Variant(title="one", origin=str(tmp_path / "work"), mirrored=1)) as place:
        assert list_names(place.parent) == ["work"]


def test_folders_are_mirrored_up_to_the_root_of_the_repository_or_two(tmp_path, monkeypatch):
    place = tmp_path / "a/b/c/d"
    place.mkdir(parents=True)
    assert count_mirrored(place) == 2
    (tmp_path / "a/.git").mkdir()
    assert [count_mirrored(one) for one in (place, *place.parents[:3])] == [3, 2, 1, 0]
    monkeypatch.setenv("HOME", str(tmp_path / "a/b"))
    assert [count_mirrored(one) for one in (place, place.parent)] == [1, 0]
    monkeypatch.setattr("tempfile.tempdir", str(place.parent))
    assert count_mirrored(place) == 0


def test_a_folder_of_very_many_entries_is_not_mirrored(tmp_path, monkeypatch):
    monkeypatch.setattr("speedproof.run.mirrored_folders._MOST_ENTRIES", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    assert count_mirrored(tmp_path / "a") == 0


def test_what_texts_name_is_watched_on_any_level(tmp_path):
    for name in ("data", "a/data", "a/b/c", "a/b/lib"):
        (tmp_path / name).mkdir(parents=True)
    named = list_named_above(tmp_path / "a/b/c", 3, ['join(here, "..", "..", "data")', "../lib ../c ../nothing"])
    assert named == [str(tmp_path / name) for name in ("a/b/lib", "a/data", "data")]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("'../data'", "../data"),
        ("os.path.join('..', 'data')", "../data"),
        ('Path("..") / "data"', "../data"),
        ('join(here, "..", "..", "{test}")', "../../{test}"),
    ],
)
def test_a_program_that_fails_without_them_is_told_what_helps(root, path, name):
    path, name = (text.replace("{test}", root.parent.name) for text in (path, name))
    (root / "train.sh").write_text(f"echo no such data; exit 1 # {path}\n")
    assert f"it does not see your {name}, {ADVICE}" in said(prove())


def test_a_program_that_makes_the_path_of_its_own_is_told_what_helps(root):
    (root / "train.sh").write_text('cat "$(dirname "$PWD")/data/numbers.txt"\n')
    assert f"it does not see your ../data, {ADVICE}" in said(prove())


def test_a_command_whose_modules_lie_above_is_told_what_helps(root):
    (root / "train.sh").write_text("exit 1\n")
    failing = ["prove", "env PYTHONPATH=.. sh train.sh", "env PYTHONPATH=.. sh train.sh 2", "--device", "cpu", "--out", "out"]
    assert f"it does not see your ../, {ADVICE}" in said(CliRunner().invoke(app, failing))


def test_what_helps_does(root):
    (root / "train.sh").write_text(READS)
    assert "B (sh train.sh 2): exit status 1 (cat: ../data/numbers.txt" in said(prove())
    assert prove("--workdir", "here").exit_code in (0, 1, 2)
    assert json.loads((root / "out/verdict.json").read_text())["rounds"] == 4


@pytest.mark.parametrize("caches", ["warm", "shared"])
def test_what_a_run_makes_in_their_place_is_named_and_goes_with_it(root, recorded_runs, caches):
    (root / "train.sh").write_text(MAKES)
    proven = prove("--caches", caches)
    assert proven.exit_code in (0, 1, 2), proven.stderr
    assert f"it created ../data: it does not see your ../data, {ADVICE}" in said(proven)
    assert (root / "out/warm-up/a.txt").read_text() == "downloaded\n"
    assert list((root.parent / "tmp").iterdir()) == []


def test_another_failure_gets_no_advice(folder):
    (folder / "train.sh").write_text("cat ../nothing\n")
    assert "--workdir here" not in said(prove())
