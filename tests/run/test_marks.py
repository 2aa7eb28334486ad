"""Marks: what a program writes of its progress, and what is made of it."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedproof import marks
from speedproof.run.read_marks import read_marks
from speedproof.util.errors import RecordError


def written(folder, *lines):
    path = folder / "marks.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def at(at_s, what, **more):
    return {"mark": what, "at_s": at_s, **more}


def test_epochs_qualities_and_samples_are_read(tmp_path):
    path = written(
        tmp_path,
        at(10.0, "epoch-begins"),
        at(12.5, "validation"),
        at(13.0, "quality", value=0.5),
        at(13.5, "epoch-ends"),
        at(14.0, "epoch-begins"),
        at(15.0, "samples", value=128),
        at(16.0, "epoch-ends"),
        at(16.5, "quality", value=0.75),
    )
    found = read_marks(path)
    first, second = found.epochs
    assert (first.train_s, first.validation_s, first.quality, first.samples) == (2.5, 1.0, 0.5, None)
    assert (second.train_s, second.validation_s, second.quality, second.samples) == (2.0, None, 0.75, 128)
    assert found.qualities == [(1, 0.5, 13.0), (2, 0.75, 16.5)]


def test_work_may_be_told_before_the_first_epoch(tmp_path):
    path = written(
        tmp_path,
        at(1.0, "parameters", value=4808917),
        at(2.0, "epoch-begins"),
        at(3.0, "flop", value=1.5e13),
        at(4.0, "epoch-ends"),
    )
    found = read_marks(path)
    assert (found.flop, found.parameters, len(found.epochs)) == (1.5e13, 4808917, 1)
    with pytest.raises(RecordError, match=r"line 1: 0\.5 is not a number of parameters; correct what the program marks$"):
        read_marks(written(tmp_path, at(1.0, "parameters", value=0.5)))


def test_an_epoch_that_never_ended_is_left_out(tmp_path):
    path = written(
        tmp_path,
        at(1, "epoch-begins"),
        at(2, "epoch-ends"),
        at(3, "epoch-begins"),
        at(4, "quality", value=1),
        at(5, "validation"),
    )
    found = read_marks(path)
    assert ([epoch.train_s for epoch in found.epochs], found.qualities) == ([1.0], [])


def test_without_a_file_there_are_none(tmp_path):
    assert read_marks(tmp_path / "marks.jsonl").epochs == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([at(1, "epoch-begins"), at(2, "epoch-begins")], "line 2: epoch-begins, while one has begun"),
        ([at(1, "epoch-ends")], "line 1: epoch-ends, while none has begun"),
        ([at(1, "quality", value=0.1)], "line 1: quality before the first epoch"),
        ([at(5, "epoch-begins"), at(4, "epoch-ends")], "line 2: earlier than the mark before it"),
        ([at(1, "epoch-begins"), at(2, "quality")], "line 2: not a mark"),
        ([at(1, "epoch-begins"), at(2, "quality", value=float("nan"))], "line 2: not a mark"),
        ([at(1, "epoch-begins"), at(2, "samples", value=12.5)], "line 2: 12.5 is not a number of samples"),
        ([at(1, "epoch")], "line 1: not a mark"),
        ([7], "line 1: not a mark"),
    ],
)
def test_marks_that_cannot_be_are_refused_with_their_line(tmp_path, lines, said):
    with pytest.raises(RecordError) as caught:
        read_marks(written(tmp_path, *lines))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(train=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_what_is_marked_is_what_is_read(tmp_path_factory, train):
    """Epochs that train and validate so many seconds each, one after the other."""
    lines, now = [], 100
    for trains, validates in train:
        lines += [at(now, "epoch-begins"), at(now + trains, "validation"), at(now + trains + validates, "epoch-ends")]
        now += trains + validates
    found = read_marks(written(tmp_path_factory.mktemp("marks"), *lines))
    assert [(epoch.train_s, epoch.validation_s) for epoch in found.epochs] == train


def test_a_program_that_nobody_measures_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("SPEEDPROOF_RUN", raising=False)
    monkeypatch.chdir(tmp_path)
    assert list(marks.epochs(2)) == [0, 1]
    marks.quality(0.5)
    assert list(tmp_path.iterdir()) == []


def test_a_program_marks_as_many_epochs_as_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SPEEDPROOF_RUN", str(tmp_path))
    monkeypatch.setenv("SPEEDPROOF_EPOCHS", "2")
    for _ in marks.epochs(range(5)):
        marks.validation()
        marks.quality(0.5)
        marks.samples(3)
    found = read_marks(tmp_path / "marks.jsonl")
    assert [(epoch.quality, epoch.samples) for epoch in found.epochs] == [(0.5, 3), (0.5, 3)]


def test_of_several_ranks_the_first_one_tells(tmp_path, monkeypatch):
    monkeypatch.setenv("SPEEDPROOF_RUN", str(tmp_path))
    for rank in ("0", "1"):  # each would begin an epoch within the other's
        monkeypatch.setenv("RANK", rank)
        next(marks.epochs(1))
    assert len((tmp_path / "marks.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(("words", "status"), [(["epoch-begins"], 0), (["quality", "0.5"], 0), (["quality", "x"], 2), ([], 2)])
def test_any_language_can_mark(tmp_path, words, status):
    """As a copy of that one file, without the package."""
    program = [sys.executable, "-I", marks.__file__, *words]
    ended = subprocess.run(program, env={"SPEEDPROOF_RUN": str(tmp_path)}, capture_output=True, text=True)
    assert ended.returncode == status
    assert ("usage" in ended.stderr, (tmp_path / "marks.jsonl").exists()) == (status == 2, status == 0)
