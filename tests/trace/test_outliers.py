"""Longest gaps and the slowest iterations, with the times that the profiler's own window shows."""

import pandas as pd
import pytest

from speedproof.results.files import write_json
from speedproof.results.trace_tables import TRACE_FILE, TraceInfo, read_trace_info
from speedproof.trace.summarize import analyze_trace
from speedproof.trace.summary_tables import write_tables
from tests.trace.handmade import TraceBuilder
from tests.trace.readings import us

BEGAN_S = 5.0  # the trace's first event on the profiler's clock


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    """Five epochs of 1 ms, the fourth 0.5 ms longer since it waits for its data."""
    trace, start, correlation = TraceBuilder(), 0, 0
    for number in range(5):
        waited = 700 if number == 3 else 200
        trace.range("epoch", start, start + waited + 800)
        trace.range("dataload", start, start + waited)
        trace.range("forward", start + waited, start + waited + 800)
        for begin, end, name in ((0, 300, "first"), (310, 700, "second")):
            correlation += 1
            trace.call("cudaLaunchKernel", start + waited + begin, start + waited + begin + 5, correlation)
            trace.kernel(start + waited + begin + 5, start + waited + end, correlation, name=name)
        start += waited + 800
    folder = trace.write(tmp_path_factory.mktemp("trace"))
    info = read_trace_info(folder).model_copy(update={"zero_ns": int(BEGAN_S * 1e9)})
    write_json(folder / TRACE_FILE, info)
    return analyze_trace(folder)


def test_the_longest_gap_comes_first_with_its_cause(summary):
    gap = summary.gaps[0]
    # Epoch 4 begins at 3000 us; its kernel at 3705.
    assert (gap.epoch, gap.part, us(gap.start_s - BEGAN_S), us(gap.duration_s)) == (4, "training", 3000, 705)
    assert (gap.cause, gap.detail, round(gap.share, 6)) == ("waiting for data", "", round(700 / 705, 6))
    assert (gap.before, gap.after) == ("second", "first")
    assert summary.gaps[-1].before in ("first", "second")
    # Three gaps an epoch: before, between and behind its kernels.
    assert [us(gap.duration_s) for gap in summary.gaps] == [705] + 4 * [205] + 5 * [100] + 5 * [15]


def test_nothing_ran_before_the_first_gap(summary):
    first = min(summary.gaps, key=lambda gap: gap.start_s)
    assert (us(first.start_s - BEGAN_S), first.before, first.after) == (0, "", "first")


def test_a_slow_iteration_says_which_term_grew(summary):
    (slow,) = summary.slowest
    assert (slow.epoch, us(slow.start_s - BEGAN_S), us(slow.duration_s), us(slow.longer_s)) == (4, 3000, 1500, 500)
    assert (slow.kind, slow.name, us(slow.term_longer_s)) == ("idle", "waiting for data", 500)


def test_a_gap_goes_on_while_memory_is_copied(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.kernel(0, 100)
    trace.copy(300, 700, None, "HtoD", "pageable", "device")
    trace.kernel(800, 1000)
    (gap,) = analyze_trace(trace.write(tmp_path)).gaps
    assert (us(gap.duration_s), gap.cause, gap.detail) == (700, "copying", "HtoD, pageable")


def test_few_iterations_have_no_slowest(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("epoch", 1000, 3000)
    trace.kernel(0, 100)
    assert analyze_trace(trace.write(tmp_path)).slowest == []


def test_the_zero_of_earlier_traces_is_unknown():
    assert TraceInfo(profiler="nsys", profiler_version="", source_schema="", rows={}, warnings=[]).zero_ns is None


@pytest.mark.parametrize("parquet", [False, True])
def test_every_table_is_written_with_all_its_digits(summary, tmp_path, parquet):
    files = {path.stem: path for path in write_tables(summary, tmp_path / "tables", parquet)}
    read = {name: pd.read_parquet(path) if parquet else pd.read_csv(path) for name, path in files.items()}
    lists = {
        name for name, value in summary if isinstance(value, list) and name not in ("devices", "warnings", "gpu_overhang_s")
    }
    assert set(files) == lists
    assert {name: len(table) for name, table in read.items()} == {name: len(getattr(summary, name)) for name in lists}
    assert read["gaps"]["start_s"].tolist() == [gap.start_s for gap in summary.gaps]
    assert read["streams"]["stream"].isna().tolist() == [stream.stream is None for stream in summary.streams]


def test_a_list_in_a_cell_is_parted_by_spaces(summary, tmp_path):
    two = summary.model_copy(update={"processes": [summary.processes[0].model_copy(update={"devices": [0, 3]})]})
    write_tables(two, tmp_path)
    assert pd.read_csv(tmp_path / "processes.csv")["devices"].tolist() == ["0 3"]
