"""What a killed process left on a scratch disk goes when the next one begins; nothing else does."""

import os
import sys
from pathlib import Path

import pytest

from speedproof.util.temporary_folder import OWNER_FILE, own_folder
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
