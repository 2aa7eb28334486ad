"""Files that are read while something runs, with the access times that the system keeps."""

import os
import time

import pytest

from speedproof.run.noted_reads import noting_reads


@pytest.fixture
def files(tmp_path):
    for name in ("read", "other"):
        (tmp_path / name).write_text(name)
    os.utime(tmp_path / "read", ns=(1, 5))
    (tmp_path / "read").read_text()
    if (tmp_path / "read").stat().st_atime_ns == 1:
        pytest.skip("this file system keeps no access times")
    return tmp_path


def test_a_file_that_is_read_is_told_from_one_that_is_not(files):
    accessed_ns = (files / "other").stat().st_atime_ns
    with noting_reads([files / "read", files / "other", files / "gone"]) as read:
        (files / "read").read_text()
    assert read == [files / "read"]
    assert (files / "other").stat().st_atime_ns == accessed_ns


def test_one_that_its_writer_read_before_is_noted_again(files):
    (files / "read").write_text("changed")
    time.sleep(0.01)
    (files / "read").read_text()
    with noting_reads([files / "read"]) as read:
        (files / "read").read_text()
    assert read == [files / "read"]
