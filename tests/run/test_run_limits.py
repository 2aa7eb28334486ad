"""Programs that do not end by themselves, with real processes: how each is ended, and that nothing of it is left."""

import gzip
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from speedproof.config.reading import Reading
from speedproof.profilers.torch_hook import TRACES_VARIABLE
from speedproof.results.run_record import read_epochs, read_run
from speedproof.run import run_limits
from speedproof.run.epoch_reports import MarkedEpoch, Marks, cut_epochs
from speedproof.run.live_epochs import LiveEpochs
from speedproof.run.marks_pipe import MarkArrivals
from speedproof.run.printed_output import PrintedOutput
from speedproof.run.run_limits import RunLimits
from speedproof.run.watched_file import FileWatch
from speedproof.run.working_folder import providing_marks
from speedproof.util.child_processes import Life, run_child
from speedproof.util.errors import TrainingError
from tests.run import test_shell


def end_after(limits, script, tmp_path):
    """Run a shell script until its limit; return its exit status, its life, and what it printed."""
    lives = list[Life]()
    with (tmp_path / "out").open("wb") as output:
        status = run_child(["bash", "-c", script], output.fileno(), dict(os.environ), lives=lives, wait=limits.wait)
    return status, lives, (tmp_path / "out").read_text()


def test_a_program_that_answers_an_interrupt_is_ended_by_it(tmp_path):
    limits = RunLimits(stop_s=0.3)
    script = "trap 'echo saved; exit 7' INT; while true; do sleep 0.05; done"
    status, lives, printed = end_after(limits, script, tmp_path)
    assert (status, printed, limits.reason) == (7, "saved\n", "enough")
    assert lives[0].began_s < limits.ended_s <= lives[0].ended_s


def test_a_tree_that_ignores_signals_is_killed_whole(tmp_path, monkeypatch):
    graces = [(signal.SIGINT, 0.1), (signal.SIGTERM, 0.1)]
    monkeypatch.setattr(run_limits, "SIGNALS", graces)
    script = "trap '' INT TERM; setsid bash -c \"trap '' INT TERM; echo $$; while true; do sleep 0.05; done\" & echo $!; wait"
    status, _, printed = end_after(RunLimits(timeout_s=0.3), script, tmp_path)
    assert status == -signal.SIGKILL
    assert not any(psutil.pid_exists(int(number)) for number in printed.split())


def test_a_profiler_around_a_program_gets_no_signal_and_writes_its_report(tmp_path):
    (tmp_path / "nsys-fake").write_bytes(Path("/bin/bash").read_bytes())
    (tmp_path / "nsys-fake").chmod(0o700)
    script = f"exec {tmp_path}/nsys-fake -c \"trap 'echo lost; exit 1' INT TERM; sleep 60; echo report\""
    assert end_after(RunLimits(stop_s=0.5, spared="nsys"), script, tmp_path)[2] == "report\n"
    assert end_after(RunLimits(stop_s=0.5), script, tmp_path)[2] == "lost\n"


def test_a_program_that_is_interrupted_leaves_the_trace_of_torchs_profiler(tmp_path):
    script = f"import pathlib, time, torch\ntorch.ones(9) + 1\npathlib.Path('{tmp_path}/ran').touch()\ntime.sleep(60)"
    with providing_marks(traced_by_torch=True) as modules, (tmp_path / "out").open("wb") as output:
        environment = {**os.environ, "PYTHONPATH": str(modules), TRACES_VARIABLE: str(tmp_path)}
        limits = RunLimits(are_reached=(tmp_path / "ran").exists)
        run_child([sys.executable, "-c", script], output.fileno(), environment, wait=limits.wait)
    (trace,) = tmp_path.glob("*.json.gz")
    assert b"aten::ones" in gzip.decompress(trace.read_bytes())


def test_a_program_that_ends_before_its_limits_is_left_alone(tmp_path):
    limits = RunLimits(timeout_s=60, stop_s=60, are_reached=lambda: False)
    assert end_after(limits, "exit 3", tmp_path)[0] == 3
    assert (limits.reason, limits.ended_s) == (None, None)


def test_a_program_ends_once_enough_epochs_have(tmp_path):
    seen = iter([False, False, True])
    limits = RunLimits(timeout_s=60, are_reached=lambda: next(seen))
    begun_s = time.monotonic()
    end_after(limits, "sleep 60", tmp_path)
    assert limits.reason == "enough" and time.monotonic() - begun_s < 30


def live(tmp_path, wanted, **reading):
    return LiveEpochs(
        Reading(**reading), wanted, tmp_path, PrintedOutput(tmp_path, live=True), MarkArrivals(), FileWatch(tmp_path, "log.*")
    )


def test_printed_epochs_are_counted_while_a_program_runs(tmp_path):
    epochs = live(tmp_path, 2, source="lines", epoch_s=r"took (\S+) s", cumulative=True)
    for text, enough in (("took 0.0 s\n", False), ("took 1.0 s\nother\n", False), ("took 2.0", False), (" s\n", True)):
        epochs.printed.keep(text.encode(), 1.0)
        assert epochs.are_enough() == enough, text


def test_lines_around_epochs_are_one_more_than_these(tmp_path):
    epochs = live(tmp_path, 1, source="lines", epoch="^Epoch")
    for at_s, enough in ((1.0, False), (2.0, True)):
        epochs.printed.keep(b"Epoch\n", at_s)
        assert epochs.are_enough() == enough


def test_marks_and_rows_are_counted_while_a_program_runs(tmp_path, monkeypatch):
    epochs = live(tmp_path, 2, source="marks")
    for enough in (False, True):
        epochs.marks.chunks.append(b'{"mark": "epoch-begins", "at_s": 1}\n{"mark": "epoch-ends", "at_s": 2}\n')
        assert epochs.are_enough() == enough
    monkeypatch.setattr("speedproof.run.live_epochs._READ_EVERY_S", 0.0)
    epochs = live(tmp_path, 2, source="file", file="log.*", epoch_s="took")
    assert not epochs.are_enough()
    (tmp_path / "log.csv").write_text("epoch,took\n1,0.5\n")
    assert not epochs.are_enough()
    (tmp_path / "log.csv").write_text("epoch,took\n1,0.5\n2,0.4\n")
    epochs._next_s = 0.0
    assert epochs.are_enough()


def test_epochs_beyond_a_limit_are_left_out_with_their_qualities():
    epochs = [MarkedEpoch(n, None, n + 1, end_seen_s=n + 1.0) for n in range(4)]
    marks = Marks(epochs, qualities=[(1, 0.1, 1.0), (4, 0.4, 4.0)])
    assert cut_epochs(marks, 2) == Marks(epochs[:2], qualities=[(1, 0.1, 1.0)])
    assert cut_epochs(marks, None, 3.5).epochs == epochs[:3]
    assert cut_epochs(marks, 9, 9.0) is marks


def test_a_run_that_takes_too_long_keeps_the_epochs_that_it_finished(tmp_path, monkeypatch):
    monkeypatch.setitem(test_shell.MEASURED, "timeout_s", 1)
    reads = {"source": "lines", "epoch_s": r"took (\S+) s"}
    script = "echo took 0.25 s; sleep 0.3; echo took 0.5 s; trap 'echo took 9 s; exit' INT; while true; do sleep 0.05; done"
    with pytest.raises(
        TrainingError, match=r"did not end within 1 s .* had finished 2 epochs: --stop-after 2 measures as many"
    ):
        test_shell.run_once(tmp_path, script, reads=reads)
    assert read_epochs(tmp_path / "01-one-timed")["train_s"].tolist() == [0.25, 0.5]
    assert read_run(tmp_path / "01-one-timed").outcome == "failed"


def test_a_run_of_a_variant_with_a_limit_is_complete_after_its_epochs(tmp_path):
    reads = {"source": "lines", "epoch_s": r"took (\S+) s", "quality": r"acc (\S+)"}
    script = "n=0; while true; do n=$((n+1)); sleep 0.1; echo took 0.1 s acc 0.$n; done"
    test_shell.run_once(tmp_path, script, reads=reads, stop_after=2)
    run = read_run(tmp_path / "01-one-timed")
    assert (run.outcome, run.epochs, run.best_quality) == ("completed", 2, 0.2)
    assert (run.observed.left_processes, run.observed.after_s) == (0, 0.0)
    assert 0.2 <= run.process_s < 60
