"""Sources of epochs and qualities other than marks: printed lines, files, the process. Values by hand."""

import json
import sys
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedproof.config.reading import ASKED_BY, Reading, ReadingSource
from speedproof.results.run_record import EPOCH_COLUMNS, read_epochs, write_epochs
from speedproof.run.arrivals import judge_arrivals
from speedproof.run.epoch_reports import EpochSource, MarkedEpoch, Marks, Reports
from speedproof.run.printed_output import Line, LineClock
from speedproof.run.proof.plausible_times import note_zero
from speedproof.run.read_files import read_file
from speedproof.run.read_lines import read_lines
from speedproof.run.read_progress import SOURCES, read_progress
from speedproof.util.errors import RecordError
from tests.run.test_shell import read_run, run_once


def printed(*lines):
    """Lines of (moment, text), each of a read of its own."""
    return [Line(text, at_s, read) for read, (at_s, text) in enumerate(lines)]


def lines(**patterns):
    return Reading(source="lines", **patterns)


def test_the_seconds_that_lines_print_are_epochs():
    said = printed(
        (2.5, "time of epoch 1 is: 2.0"), (2.6, "val_acc: 0.5"), (4.7, "time of epoch 2 is: 2.1"), (4.8, "val_acc: 0.75")
    )
    found = read_lines(said, lines(epoch_s=r"is: (\S+)", quality=r"val_acc: (\S+)"))
    assert [round(epoch.train_s, 9) for epoch in found.epochs] == [2.0, 2.1]
    assert [epoch.quality for epoch in found.epochs] == [0.5, 0.75]
    assert found.qualities == [(1, 0.5, 2.6), (2, 0.75, 4.8)]


def test_what_a_program_says_keeps_its_digits_however_long_the_machine_runs(tmp_path):
    said = printed((8.64e6, "took 2.4e-6"), (8.64e6 + 1, "took 3e-12"))  # of a clock after a hundred days
    epochs = read_lines(said, lines(epoch_s=r"took (\S+)")).epochs
    rows = [{"epoch": number, "train_s": epoch.train_s} for number, epoch in enumerate(epochs, start=1)]
    write_epochs(tmp_path, [dict.fromkeys(EPOCH_COLUMNS) | row for row in rows])
    assert read_epochs(tmp_path)["train_s"].tolist() == [2.4e-6, 3e-12]


def test_a_quality_that_is_told_before_its_epochs_line_is_that_epochs():
    said = printed((1, "acc 0.1"), (2, "epoch took 1"), (3, "acc 0.2"), (4, "epoch took 1"))
    found = read_lines(said, lines(epoch_s=r"took (\S+)", quality=r"acc (\S+)"))
    assert [epoch.quality for epoch in found.epochs] == [0.1, 0.2]


def test_an_epoch_lasts_from_one_matching_line_to_the_next():
    said = printed((10, "Epoch 1/3"), (10.5, "loss 3"), (12, "Epoch 2/3"), (15, "Epoch 3/3"))
    assert [epoch.train_s for epoch in read_lines(said, lines(epoch=r"^Epoch \d")).epochs] == [2, 3]


def test_lines_of_one_read_tell_no_times():
    clock = LineClock()
    clock.take(b"Epoch 1\nEpo", 1.0)
    clock.take(b"ch 2\nEpoch 3\n", 5.0)
    with pytest.raises(RecordError, match="arrived together, so no epoch can be timed by them"):
        read_lines(clock.close(6.0), lines(epoch="^Epoch"))


def arriving(late):
    """Return a line per second; those of the seconds `late` come with the next one."""
    return [Line(f"Epoch {second}", float(second + (second in late)), second + (second in late)) for second in range(21)]


@pytest.mark.parametrize("late", [{5}, {5, 12}])
def test_of_lines_that_arrive_together_now_and_then_no_time_is_lost(late):
    assert [epoch.train_s for epoch in read_lines(arriving(late), lines(epoch="^Epoch")).epochs] == [1] * 20


@pytest.mark.parametrize("late", [{0}, {5, 9, 12}])
def test_the_first_line_and_most_others_must_arrive_alone(late):
    with pytest.raises(RecordError, match="arrived together"):
        read_lines(arriving(late), lines(epoch="^Epoch"))


@given(chunks=st.lists(st.binary(max_size=9), max_size=9))
def test_however_output_is_cut_its_lines_are_the_same(chunks):
    """Of `\\n` and `\\r` alone: where a read ends between the two of a pair an empty line comes between, which counts not."""
    clock, whole = LineClock(), LineClock()
    chunks = [chunk.replace(b"\r", b"\n") for chunk in chunks]
    for chunk in chunks:
        clock.take(chunk, 0.0)
    whole.take(b"".join(chunks), 0.0)
    assert [line.text for line in clock.close(0)] == [line.text for line in whole.close(0)]


def test_a_first_time_of_zero_is_skipped_and_noted():
    marks = read_lines(printed((1, "dt 0.00ms"), (2, "dt 30ms"), (3, "dt 31ms")), lines(epoch_s=r"dt (\S+)"))
    assert [epoch.reported_s for epoch in marks.epochs] == [0.03, 0.031]
    assert note_zero(marks) == ["its first printed time is 0, so it is skipped"]
    assert note_zero(read_lines(printed((1, "dt 30ms"), (2, "dt 31ms")), lines(epoch_s=r"dt (\S+)"))) == []


@pytest.mark.parametrize(
    ("said", "patterns", "why"),
    [
        (["nothing"], {"epoch_s": r"is: (\S+)"}, "no printed line matches"),
        (["is: soon"], {"epoch_s": r"is: (\S+)"}, "'soon' is not a number"),
        (["is: nan"], {"epoch_s": r"is: (\S+)"}, "is not finite"),
        (["is: -1"], {"epoch_s": r"is: (\S+)"}, "an epoch of -1 s"),
        (
            ["is: 0.01", "is: 0.00"],
            {"epoch_s": r"is: (\S+)"},
            "an epoch of 0 s; have the program write more digits, or let our clock time its lines (--epoch)",
        ),
        (["is: 0.00", "is: 0.00"], {"epoch_s": r"is: (\S+)"}, "an epoch of 0 s"),
        (["is: 0.00"], {"epoch_s": r"is: (\S+)"}, "an epoch of 0 s"),
        (["is: 1e308"], {"epoch_s": r"is: (\S+)"}, "an epoch of 1e+308 s"),
        (["is: 1_5"], {"epoch_s": r"is: (\S+)"}, "'1_5' is not a number"),
        (["is: 1"], {"epoch_s": r"is: (\S+)", "quality": r"acc (\S+)"}, "quality: no printed line matches"),
        (["epoch 1"], {"epoch": "epoch"}, "1 of the printed lines match"),
    ],
)
def test_a_source_that_was_named_and_gave_nothing_is_an_error(said, patterns, why):
    with pytest.raises(RecordError) as caught:
        read_lines(printed(*((second, text) for second, text in enumerate(said))), lines(**patterns))
    assert why in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        ({"source": "lines"}, "needs `epoch`, `epoch_s` or `rate`"),
        ({"source": "lines", "epoch": "a", "epoch_s": "(a)"}, "give one of them"),
        ({"source": "lines", "epoch": "("}, "not a valid regular expression"),
        ({"source": "process", "quality": "acc"}, r"must have one \(group\)"),
        ({"source": "file"}, "`file` belongs to source `file`"),
    ],
)
def test_a_reading_that_cannot_be_is_refused(reading, why):
    with pytest.raises(ValueError, match=why):
        Reading(**reading)


FILES = {
    "log.csv": "epoch,seconds,acc\n1,2.0,0.5\n2,3.0,0.7\n",
    "log.jsonl": '{"seconds": 2.0, "acc": 0.5}\n{"note": 1}\n{"seconds": 3.0, "acc": 0.7}\n',
    "trainer_state.json": json.dumps({"log_history": [{"seconds": 2.0, "acc": 0.5}, {"seconds": 3.0, "acc": 0.7}]}),
}


@pytest.mark.parametrize("name", FILES)
def test_epochs_and_qualities_of_files(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    found = read_file(tmp_path, Reading(source="file", file=name, epoch_s="seconds", quality="acc"))
    assert [(round(epoch.train_s, 6), epoch.quality) for epoch in found.epochs] == [(2.0, 0.5), (3.0, 0.7)]
    assert found.epochs[0].ends_s == pytest.approx(found.epochs[1].begins_s)


def test_epochs_of_mlperfs_log(tmp_path):
    events = [("epoch_start", 1000), ("epoch_stop", 3500), ("eval_accuracy", 3600), ("epoch_start", 4000), ("epoch_stop", 5000)]
    text = "".join(f":::MLLOG {json.dumps({'key': key, 'time_ms': at, 'value': 0.9})}\n" for key, at in events)
    (tmp_path / "mlperf.log").write_text("starting\n" + text)
    found = read_file(tmp_path, Reading(source="file", file="*.log"))
    assert [round(epoch.train_s, 6) for epoch in found.epochs] == [2.5, 1.0]
    assert [value for _, value, _ in found.qualities] == [0.9]


@pytest.mark.parametrize(
    ("text", "reading", "why"),
    [
        (None, {}, "left no log.csv"),
        ("a,b\n1,2\n", {"epoch_s": "seconds"}, "no value in 'seconds'; it has a, b"),
        ("{", {}, "is neither CSV nor JSON"),
        ("a\nx\n", {"quality": "a"}, "'x' is not a number"),
        ("a,s\n1,12.5\n", {"epoch_s": "a", "samples": "s"}, "samples: 12.5 is not a number of samples"),
        ("a,s\n1,-3\n", {"epoch_s": "a", "samples": "s"}, "samples: -3 is not a number of samples"),
        ("epoch,time\n0,1,234\n", {"epoch_s": "time"}, "log.csv: line 2 has more cells than the header; write decimal points"),
        ("t,t\n1,2\n", {"epoch_s": "t"}, "log.csv: 2 columns are called 't'; rename the others"),
        ('{"r": 1e-320}\n', {"rate": "r"}, "--rate: 1e-320 is out of range"),
        ("[" * 100_000, {}, "nested too deeply"),
        (':::MLLOG {"key": "epoch_start"}\n', {}, "is not a line of an MLPerf log"),
        (':::MLLOG {"key": "epoch_start", "time_ms": "soon"}\n', {}, "is not a line of an MLPerf log"),
        (':::MLLOG {"key": "epoch_start", "time_ms": 1e999}\n', {}, "is not a line of an MLPerf log"),
        (":::MLLOG [1]\n", {}, "is not a line of an MLPerf log"),
        (":::MLLOG 7\n", {}, "is not a line of an MLPerf log"),
    ],
)
def test_a_file_that_gives_nothing_is_an_error(tmp_path, text, reading, why):
    if text is not None:
        (tmp_path / "log.csv").write_text(text)
    with pytest.raises(RecordError) as caught:
        read_file(tmp_path, Reading(source="file", file="log.csv", **reading))
    assert why in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (
            [("epoch_start", 1400), ("epoch_stop", 1000)],
            "log.csv: an epoch of -0.4 s; correct time_ms of epoch_start and epoch_stop",
        ),
        ([("epoch_start", 1000), ("epoch_stop", 1000)], "log.csv: an epoch of 0 s"),
        (
            [("epoch_start", 1000), ("epoch_start", 1200), ("epoch_stop", 1500)],
            "log.csv: a second epoch_start before epoch_stop",
        ),
        ([("block_start", 1000), ("epoch_start", 1200), ("epoch_stop", 1500), ("block_stop", 1700)], [0.3]),
        ([("block_start", 1000), ("block_stop", 1700), ("block_start", 1800)], [0.7]),
    ],
)
def test_an_epoch_of_mlperfs_log_ends_once_after_it_began(tmp_path, events, why):
    text = "".join(f":::MLLOG {json.dumps({'key': key, 'time_ms': at})}\n" for key, at in events)
    (tmp_path / "log.csv").write_text(text)
    if isinstance(why, list):
        found = read_file(tmp_path, Reading(source="file", file="log.csv"))
        assert [round(epoch.train_s, 6) for epoch in found.epochs] == why
        return
    with pytest.raises(RecordError) as caught:
        read_file(tmp_path, Reading(source="file", file="log.csv"))
    assert why in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["t,a\n2.5,1\n", '{"t": 2.5}\n{"t": 2.5}\n', '[{"t": 2.5}]', "t,a\n2.5,1,\n"])
def test_a_mark_of_the_byte_order_and_a_last_comma_are_ignored(tmp_path, text):
    (tmp_path / "log").write_text(text, encoding="utf-8-sig")
    found = read_file(tmp_path, Reading(source="file", file="log", epoch_s="t"))
    assert {epoch.train_s for epoch in found.epochs} == {2.5}


def test_a_mark_of_the_byte_order_before_the_first_line_is_ignored():
    clock = LineClock()
    clock.take("\ufeffEpoch 1\nEpoch 2\n".encode(), 1.0)
    assert [line.text for line in clock.close(2.0)] == ["Epoch 1", "Epoch 2"]


def test_of_the_process_alone_there_are_qualities(tmp_path):
    said = printed((1, "acc 0.1"), (2, "acc 0.2"))
    found = read_progress(Reports(tmp_path, tmp_path, said), Reading(source="process", quality=r"acc (\S+)"))
    assert (found.epochs, [value for _, value, _ in found.qualities]) == ([], [0.1, 0.2])


def test_a_program_that_holds_its_output_back_is_timed_line_by_line(tmp_path, monkeypatch):
    """To a pipe Python writes all three at its end; here each comes when it is printed. The log has them, too."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    script = "import time\nfor n in range(3):\n    time.sleep(0.2)\n    print('Epoch', n, 'acc', n / 10)\n"
    (tmp_path / "slow.py").write_text(script)
    reads = {"source": "lines", "epoch": "^Epoch", "quality": r"acc (\S+)"}
    run_once(tmp_path, "", command=f"{sys.executable} {tmp_path}/slow.py", reads=reads, epochs=2)
    run = read_run(tmp_path / "01-one-timed")
    assert 0.35 < run.training_s < 0.9
    assert run.best_quality == 0.2
    assert (tmp_path / "01-one-timed/log.txt").read_text().count("Epoch") == 3


def test_the_digits_of_printed_epochs_are_recorded(tmp_path):
    run_once(tmp_path, "echo took 0.25s; echo took 0.5s\n", reads={"source": "lines", "epoch_s": r"took (\S+)"}, epochs=2)
    assert read_run(tmp_path / "01-one-timed").resolution_s == 0.005


def test_of_arrivals_no_digits_are_recorded(tmp_path):
    run_once(
        tmp_path, "for n in 1 2 3; do echo Epoch; sleep 0.05; done\n", reads={"source": "lines", "epoch": "Epoch"}, epochs=2
    )
    assert read_run(tmp_path / "01-one-timed").resolution_s is None


def test_each_run_has_a_copy_of_the_tree_and_what_it_changes_of_linked_data_is_named(tmp_path):
    tree, data = tmp_path / "tree", tmp_path / "data"
    tree.mkdir()
    data.mkdir()
    (tree / "helper.py").write_text("print('acc', 0.5)\n")
    (tree / "out").symlink_to(tmp_path / "counter")  # which is as much another run's as what is linked
    (tree / "in").symlink_to("helper.py")
    (tree / "main.py").write_text("import helper\nfor name in 'helper.py', 'data/new', 'out', 'in': open(name, 'w')\n")
    reads = {"source": "process", "quality": r"acc (\S+)"}
    run_once(tmp_path, "", command=f"{sys.executable} main.py", reads=reads, tree=str(tree), linked={"data": str(data)})
    run = read_run(tmp_path / "01-one-timed")
    assert (run.outcome, run.epochs, run.best_quality) == ("completed", 0, 0.5)
    assert run.warnings == [f"it changed {name}, which later runs see" for name in ("data/new", "out")]
    assert (tree / "helper.py").read_text() == "print('acc', 0.5)\n"


def test_tensorboards_scalars_are_epochs_and_qualities(tmp_path):
    """Written by torch's own writer, as programs do it."""
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    event = pytest.importorskip("tensorboard.compat.proto.event_pb2").Event
    summary = pytest.importorskip("tensorboard.compat.proto.summary_pb2").Summary
    files = writer.EventFileWriter(str(tmp_path / "runs"))
    for step, (seconds, accuracy) in enumerate([(2.0, 0.5), (2.5, 0.75)]):
        values = [summary.Value(tag="time/epoch", simple_value=seconds), summary.Value(tag="val/acc", simple_value=accuracy)]
        files.add_event(event(wall_time=float(step), step=step, summary=summary(value=values)))
    files.close()
    reading = Reading(source="file", file="runs/*.tfevents.*", epoch_s="time/epoch", quality="val/acc")
    found = read_file(tmp_path, reading)
    assert [(epoch.train_s, epoch.quality) for epoch in found.epochs] == [(pytest.approx(2.0), 0.5), (pytest.approx(2.5), 0.75)]
    with pytest.raises(RecordError, match=r"no value in 'lr'; it has time/epoch, val/acc"):
        read_file(tmp_path, Reading(source="file", file="runs/*.tfevents.*", epoch_s="lr"))


def test_without_tensorboard_its_files_are_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("speedproof.run.read_files._PACKAGE", "no_such_package")
    (tmp_path / "events.out.tfevents.1").write_bytes(b"")
    with pytest.raises(
        RecordError, match=r"requires TensorBoard; name a CSV file, or, in .+ -m pip install '\.\[tensorboard\]'"
    ):
        read_file(tmp_path, Reading(source="file", file="*.tfevents.*", epoch_s="lr"))


def test_every_source_of_the_configuration_has_a_reader_and_is_called_by_its_name():
    assert SOURCES.keys() == set(get_args(ReadingSource))
    assert all(source.name == name for name, source in SOURCES.items())
    assert ASKED_BY.keys() < SOURCES.keys()


def test_one_entry_is_enough_for_a_source(tmp_path, monkeypatch):
    """A trial: epochs of a list of seconds, which a program leaves in its folder."""

    def read_list(reports, reading):
        ends_s = json.loads((reports.place / "ends.json").read_text())
        return Marks([MarkedEpoch(begin, None, end) for begin, end in pairwise(ends_s)])

    monkeypatch.setitem(SOURCES, "process", EpochSource("process", "list", read_list))
    (tmp_path / "ends.json").write_text("[1, 3, 6]")
    found = read_progress(Reports(tmp_path, tmp_path), Reading(source="process"))
    assert [epoch.train_s for epoch in found.epochs] == [2, 3]
    assert judge_arrivals(found) == "none"
