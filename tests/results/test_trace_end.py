"""A record may keep the end of each trace: its last iterations."""

import pytest

from speedproof.results.trace_tables import TABLES, read_table, read_trace_info
from speedproof.run.archive.record import write_record
from speedproof.run.archive.trace_end import keep_last_iterations
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import RecordError
from tests.report.example import CLAIMS, CPU_EXAMPLE, write_example
from tests.trace.handmade import TraceBuilder
from tests.trace.loops import MadeLoop, make_loop


def cut(tmp_path, trace, iterations):
    source = trace.write(tmp_path / "whole")
    keep_last_iterations(source, tmp_path / "end", iterations)
    return source, tmp_path / "end"


@pytest.mark.parametrize(
    "loop",
    [
        MadeLoop(steps=8),
        MadeLoop(steps=5, waits=False, start=5000),
        MadeLoop(steps=12, waits=False, host=300, queue=4),  # the host runs ahead
        MadeLoop(steps=6, copy=50, name=None),  # found by what repeats
    ],
)
def test_each_step_keeps_its_work(tmp_path, loop):
    source, end = cut(tmp_path, make_loop(loop)[0], 3)
    steps = analyze_trace(end).epochs
    busy_s = [step.duration_s * step.kernel_busy_fraction for step in steps]
    assert busy_s == pytest.approx([loop.busy * 1e-6] * 3)
    for name in TABLES:
        assert set(map(str, read_table(end, name).to_pylist())) <= set(map(str, read_table(source, name).to_pylist()))


def test_a_trace_of_no_more_iterations_stays_whole(tmp_path):
    trace, _ = make_loop(MadeLoop(steps=5))
    source, end = cut(tmp_path, trace, 5)
    assert all(read_table(source, name).equals(read_table(end, name)) for name in TABLES)
    assert read_trace_info(source) == read_trace_info(end)


def test_what_was_launched_before_is_not_kept(tmp_path):
    """The kernel of each step starts after the host has begun the next one."""
    trace = TraceBuilder()
    for step in range(6):
        begun = 1000 * step
        trace.range("step", begun, begun + 1000)
        trace.call("cudaLaunchKernel", begun + 100, begun + 110, step)
        trace.kernel(begun + 1200, begun + 1900, step)
    _, end = cut(tmp_path, trace, 3)
    assert read_table(end, "kernels")["correlation"].to_pylist() == [3, 4, 5]
    assert read_table(end, "api")["correlation"].to_pylist() == [3, 4, 5]


def test_a_trace_without_iterations_is_refused(tmp_path):
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 0, 10, 1)
    trace.kernel(20, 900, 1)
    with pytest.raises(RecordError, match=r"has no iterations of which the last could be kept; leave --iterations out"):
        cut(tmp_path, trace, 2)


def test_the_report_says_what_a_record_keeps(tmp_path):
    results = write_example(tmp_path / "results", CPU_EXAMPLE)
    write_record([results], CLAIMS, tmp_path / "record", iterations=2)
    assert (
        "trace: this record keeps only the last 2 epochs; 4 before them are left out"
        in (tmp_path / "record" / "report.md").read_text()
    )
