"""A checkpoint is continued only if each of its files is what was written; a damaged one is named."""

import pytest

from speedproof.results.checkpoint import Checkpoint, find_checkpoint, seal_checkpoint

FILES = ["best.pt", "checkpoint.json", "epochs.csv", "state.pt"]


def make_checkpoint(run, epoch):
    folder = run / "checkpoints" / str(epoch)
    folder.mkdir(parents=True)
    for name in FILES:
        if name != "checkpoint.json":
            (folder / name).write_bytes(name.encode() * 50)
    seal_checkpoint(folder, Checkpoint(fingerprint="0123", epoch=epoch, at_s=12.5, best=None, parts=[]))
    return folder


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_is_found_and_the_file_is_named(tmp_path, caplog, name):
    folder = make_checkpoint(tmp_path, 4)
    assert find_checkpoint(tmp_path, "0123") == folder
    whole = (folder / name).read_bytes()
    for bit in range(0, 8 * len(whole), 8 * len(whole) // 60 + 1):
        flip(folder / name, bit)
        caplog.clear()
        assert find_checkpoint(tmp_path, "0123") is None, f"bit {bit}: {(folder / name).read_bytes()}"
        # One that is in a digest leaves open which of the two files it is in.
        assert f"checkpoints/4/{name}: " in caplog.text or (name == "checkpoint.json" and "checkpoints/4/" in caplog.text)
        assert "starts again" in caplog.text
        (folder / name).write_bytes(whole)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_file_that_is_cut_or_missing_is_named_and_an_older_checkpoint_is_taken(tmp_path, caplog, name, damage):
    older, newer = make_checkpoint(tmp_path, 2), make_checkpoint(tmp_path, 4)
    if damage == "cut":
        (newer / name).write_bytes((newer / name).read_bytes()[:-2])
    else:
        (newer / name).unlink()
    assert find_checkpoint(tmp_path, "0123") == older
    assert f"checkpoints/4/{name}: " in caplog.text
