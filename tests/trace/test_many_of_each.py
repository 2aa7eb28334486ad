"""Traces of very many iterations, GPUs, processes, streams or names: memory is bounded, and what is left out is said."""

import pytest

from speedproof.results.summary import Epoch, Share
from speedproof.trace import events, iterations, summarize
from speedproof.trace.outliers import list_slowest
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import RecordError
from tests.trace.handmade import TraceBuilder


def make_loop(count, **of_kernel):
    """Iterations of 1000 us, each with a kernel of 500."""
    trace = TraceBuilder()
    for number in range(count):
        at = 1000 * number
        trace.range("epoch", at, at + 1000)
        trace.call("cudaLaunchKernel", at + 10, at + 20, number)
        trace.kernel(at + 30, at + 530, number, **{name: value(number) for name, value in of_kernel.items()})
    return trace


def test_of_too_many_iterations_the_first_are_analyzed(tmp_path, monkeypatch):
    monkeypatch.setattr(iterations, "_MOST_ITERATIONS", 4)
    summary = analyze_trace(make_loop(6).write(tmp_path))
    assert [epoch.index for epoch in summary.epochs] == [1, 2, 3, 4]
    assert summary.found.left_out == 2
    assert "only the first 4 epochs are analyzed: the 2 after them would take too much memory" in summary.warnings


def test_of_several_gpus_fewer_iterations_are_analyzed(tmp_path, monkeypatch):
    monkeypatch.setattr(iterations, "_MOST_ON_GPUS", 9)
    assert len(analyze_trace(make_loop(6, device=lambda number: number % 3).write(tmp_path)).epochs) == 3


@pytest.mark.parametrize(("column", "what"), [("device", "6 GPUs"), ("process", "6 processes that use a GPU")])
def test_a_trace_of_more_than_a_machine_has_is_refused(tmp_path, monkeypatch, column, what):
    monkeypatch.setattr(events, "_MOST_GPUS", 5)
    monkeypatch.setattr(events, "_MOST_GPU_PROCESSES", 5)
    folder = make_loop(6, **{column: lambda number: number}).write(tmp_path)
    with pytest.raises(RecordError, match=f"holds {what}, more than 5; profile one machine"):
        analyze_trace(folder)


def test_of_too_many_streams_the_busiest_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(summarize, "_MOST_STREAMS", 2)
    trace = make_loop(4, stream=lambda number: number % 2)
    trace.kernel(3600, 3700, 9, stream=7)
    summary = analyze_trace(trace.write(tmp_path))
    assert {row.stream for row in summary.streams} == {None, 0, 1}
    assert "only the 2 busiest of 3 streams are listed; GPU times count all" in summary.warnings
    whole = [row.gpu_busy_s for row in summary.streams if row.stream is None]
    assert whole == pytest.approx([5e-4, 5e-4, 5e-4, 6e-4])


def test_epochs_that_share_no_term_take_no_more_memory_than_they_are():
    """A table of epochs and terms would have 900 million cells."""
    count, fields = 30_000, {"training_s": 1.0, "validates": False, "kernel_busy_fraction": 1.0, "gpu_busy_fraction": 1.0}
    epochs = [
        Epoch(index=number, start_ns=0, end_ns=number, duration_s=float(number), **fields) for number in range(1, count + 1)
    ]
    account = [
        Share(epoch=number, part="training", kind="gpu", name=f"phase {number}", total_ns=number)
        for number in range(1, count + 1)
    ]
    slowest = list_slowest(epochs, account, zero_ns=0)
    assert [(one.epoch, one.name) for one in slowest[:2]] == [(30_000, "phase 30000"), (29_999, "phase 29999")]
    assert slowest[0].term_longer_s == pytest.approx(30_000e-9)
