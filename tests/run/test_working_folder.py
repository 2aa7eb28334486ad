"""The folder that a run works in: its owner's only, its files with their own rights."""

import os
import shutil
import stat

import pytest

from speedproof.config.model import Variant
from speedproof.config.workload import Declared, Workload
from speedproof.run.proof.left_files import take_snapshot
from speedproof.run.working_folder import providing_marks, working_folder


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def tree(tmp_path):
    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    for name, mode in (("a.sh", 0o750), ("lib/b.py", 0o644), ("lib/key", 0o600)):
        (tree / name).touch()
        (tree / name).chmod(mode)
    (tree / "lib").chmod(0o755)
    (tree / "link").symlink_to("lib/b.py")
    (tree / "gone").symlink_to("nowhere")
    tree.chmod(0o755)
    return tree


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_copy_is_its_owners_only_and_files_keep_their_rights(tmp_path, tree, umask):
    workload, variant = Workload(tmp_path, Declared(title="One")), Variant(title="one", tree=str(tree))
    with working_folder(workload, variant) as place:
        assert mode_of(place) == 0o700
        assert {name: mode_of(place / name) for name in ("a.sh", "lib", "lib/b.py", "lib/key")} == {
            "a.sh": 0o750, "lib": 0o755, "lib/b.py": 0o644, "lib/key": 0o600
        }  # fmt: skip
        assert [(place / name).readlink().as_posix() for name in ("link", "gone")] == ["lib/b.py", "nowhere"]
    assert not place.exists()


def test_nobody_can_enter_a_copy_while_it_is_made(tmp_path, tree, umask, monkeypatch):
    seen, copystat = [], shutil.copystat

    def watch(source, target, **options):
        seen.append(str(target))
        copystat(source, target, **options)

    monkeypatch.setattr("shutil.copystat", watch)
    with working_folder(Workload(tmp_path, Declared(title="One")), Variant(title="one", tree=str(tree))) as place:
        assert seen
        assert str(place) not in seen


def test_what_a_program_finds_marks_in_is_its_owners_only(umask):
    with providing_marks() as folder:
        assert mode_of(folder) == 0o700


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_the_copy_of_a_proof_is_no_more_open_than_its_source(tmp_path, tree, umask, mode):
    tree.chmod(mode)
    take_snapshot(tree, tmp_path / "proof")
    assert mode_of(tmp_path / "proof/programs/tree") == mode & ~umask
