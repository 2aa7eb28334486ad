"""A published program's epochs are marked by what it prints."""

import io
import sys

import pytest

from speedproof import marks
from speedproof_common.marked_output import EnoughEpochs, MarkedOutput
from tests.instrument import read_marks


class Ranges:
    """Stands for nvtx: what a profiler would see."""

    def __init__(self):
        self.seen = []

    def push_range(self, name, color=None):
        self.seen.append(name)

    def pop_range(self):
        self.seen.append("end")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Print three epochs of a program that would train four; return what its marks say, and what was passed on."""
    monkeypatch.setenv(marks.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(marks, "capture", marks.Capture())

    def write_epochs(wanted, ended=lambda: None, **options):
        output = MarkedOutput(io.StringIO(), 2, wanted, 8, ended, **options)
        for epoch in range(1, 4):
            for line in (f"epoch {epoch}/4", f"epoch {epoch} average loss: 0.5", f"time consuming of epoch {epoch} is: 0.1"):
                for part in (line, "\n"):  # as print writes them
                    output.write(part)
        return read_marks(tmp_path / marks.MARKS_FILE), output.stream.getvalue()

    return write_epochs


def test_each_line_passes_on_and_marks_its_epoch(write):
    told, printed = write(4)
    assert [epoch.validates_s is not None for epoch in told.epochs] == [False, True, False]
    assert printed.count("\n") == 9 and {epoch.samples for epoch in told.epochs} == {8}


def test_a_program_ends_after_enough_epochs(write):
    ended = []
    with pytest.raises(EnoughEpochs):
        write(3, lambda: ended.append(True))
    assert ended


@pytest.fixture
def ranges(monkeypatch):
    made = Ranges()
    monkeypatch.setitem(sys.modules, "nvtx", made)
    return made


def test_a_profiler_that_waits_for_an_epoch_sees_it(write, ranges, monkeypatch):
    monkeypatch.setenv(marks.CAPTURE_VARIABLE, "2-2")
    write(4)
    assert ranges.seen == [marks.CAPTURE_RANGE, "end"]


def test_epochs_have_ranges_within_what_is_captured(write, ranges, monkeypatch):
    monkeypatch.setenv(marks.CAPTURE_VARIABLE, "3-3")
    write(4, names_epochs=True)
    assert ranges.seen == ["epoch", "end"] * 2 + [marks.CAPTURE_RANGE, "epoch", "end", "end"]
