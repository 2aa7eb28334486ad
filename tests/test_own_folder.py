"""What a killed process left on a scratch disk goes when the next one begins; nothing else does."""

import os
import sys
from pathlib import Path

import pytest

from speedproof.config.model import Variant
from speedproof.util.temporary_folder import OWNER_FILE, own_folder, removable_folder
from tests.test_children import started

HOLDER = """
import sys, time
from pathlib import Path
from speedproof.util.temporary_folder import own_folder
with own_folder(Path(sys.argv[1]), 'speedproof-') as folder:
    (folder / 'data').mkdir()
    (folder / 'data/volume').write_text('gigabytes')
    print(folder, flush=True)
    time.sleep(120)
"""


def left_by_a_killed_process(disk):
    with started([sys.executable, "-c", HOLDER, str(disk)]) as holder:
        folder = disk / Path(holder.stdout.readline().strip()).name
    assert (folder / "data/volume").exists()
    return folder


def names(disk):
    return {path.name for path in disk.iterdir()}


def test_a_folder_goes_with_its_end_and_is_its_owners(tmp_path):
    with own_folder(tmp_path, "speedproof-") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
    assert names(tmp_path) == set()


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_others_use_is_not(tmp_path):
    with started([sys.executable, "-c", HOLDER, str(tmp_path)]) as alive:
        used = Path(alive.stdout.readline().strip()).name
        left = left_by_a_killed_process(tmp_path)
        with own_folder(tmp_path, "speedproof-") as own:
            assert not left.exists()
            assert names(tmp_path) == {used, own.name}


@pytest.mark.parametrize("kind", ["without an owner", "of another machine", "of another user", "open to others", "a link"])
def test_what_may_be_anothers_stays(tmp_path, kind):
    left = left_by_a_killed_process(tmp_path)
    if kind == "without an owner":
        (left / OWNER_FILE).unlink()
    elif kind == "of another machine":
        (left / OWNER_FILE).write_text("node7")
    elif kind == "of another user":
        if os.geteuid():
            pytest.skip("only root gives files away")
        os.chown(left, 12345, 12345)
    elif kind == "open to others":
        left.chmod(0o777)
    else:
        left.rename(tmp_path / "elsewhere")
        left.symlink_to(tmp_path / "elsewhere")
    with own_folder(tmp_path, "speedproof-"):
        assert (left / "data/volume").exists()


RUNS = """
import sys, tempfile, time
from pathlib import Path
from speedproof.config.model import Variant
from speedproof.config.workload import Declared, Workload
from speedproof.run.working_folder import providing_marks, taking_marks, working_folder
from speedproof.util.temporary_folder import removable_folder
from tests.test_own_folder import variant
tempfile.tempdir = sys.argv[1]
workload = Workload(Path("programs"), Declared.model_construct())
with working_folder(workload, variant("cold")), working_folder(workload, variant(None)), providing_marks(), \
     taking_marks(Path()), removable_folder():
    print("ready", flush=True)
    time.sleep(120)
"""


def variant(caches):
    return Variant.model_construct(tree=None, linked={}, caches=caches, kept_caches=None)


def test_what_a_killed_proof_kept_for_its_runs_goes_with_the_next_process(tmp_path, monkeypatch):
    (disk := tmp_path / "tmp").mkdir()
    with started([sys.executable, "-c", RUNS, str(disk)]) as holder:
        assert holder.stdout.readline() == "ready\n"
        assert len(names(disk)) == 5
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        with removable_folder() as own:
            assert len(names(disk)) == 6  # a living one's stay
            assert list(own.iterdir()) == []
    assert len(names(disk)) == 5
    with removable_folder() as own:
        assert names(disk) == {own.parent.name}
    assert names(disk) == set()


def test_what_a_program_made_read_only_goes_too(tmp_path):
    with own_folder(tmp_path, "run-") as folder:
        (folder / "closed").mkdir()
        (folder / "closed/file").touch()
        (folder / "closed").chmod(0o500)
    assert names(tmp_path) == set()
