"""GPU work that goes on after a line, by tiny traces: launched before it, and not waited for."""

import pytest

from speedproof.results.files import write_json
from speedproof.results.trace_tables import TRACE_FILE, read_trace_info
from speedproof.trace.attribution import measure_overhang
from tests.trace.handmade import US, TraceBuilder

ZERO_NS = 1_795_666_619_678_515_690  # the trace's zero on the system's clock


def overhang(folder, trace, *lines_us, zero_ns=ZERO_NS):
    """The overhangs in microseconds, of lines that came at these."""
    trace.write(folder)
    write_json(folder / TRACE_FILE, read_trace_info(folder).model_copy(update={"unix_zero_ns": zero_ns}))
    found = measure_overhang(folder, [ZERO_NS + US * line for line in lines_us])
    return [pytest.approx(1e6 * seconds, abs=0.01) for seconds in found]


def epochs(synchronized):
    """Three epochs of two kernels of 5 ms each, launched within 1 ms; the next is launched once the GPU has ended."""
    trace, correlation = TraceBuilder(), 0
    for begin in (0, 11_000, 22_000):
        for number in range(2):
            correlation += 1
            trace.call("cudaLaunchKernel", begin + 500 * number, begin + 500 * number + 10, correlation)
            trace.kernel(begin + 100 + 5000 * number, begin + 5100 + 5000 * number, correlation)
        if synchronized:
            trace.call("cudaDeviceSynchronize", begin + 600, begin + 10_150)
    trace.call("cudaDeviceSynchronize", 32_200, 40_000)
    return trace


def test_a_program_that_waits_for_the_gpu_leaves_it_nothing(tmp_path):
    assert overhang(tmp_path, epochs(synchronized=True), 10_200, 21_200) == [0, 0]


def test_one_that_does_not_leaves_it_what_it_launched(tmp_path):
    # At 1000 us both kernels were launched: 4.1 ms of the first are left, and all of the second.
    assert overhang(tmp_path, epochs(synchronized=False), 1000, 12_000, 23_000) == [9100, 9100, 9100]


def test_what_the_next_epoch_launches_while_a_line_is_on_its_way_is_none_of_its_own(tmp_path):
    # Printed at 10 900 us, when the GPU had ended; 100 us after the next launch the line is here.
    assert overhang(tmp_path, epochs(synchronized=True), 11_100, 22_100) == [0, 0]


def test_a_pause_of_the_gpu_is_no_work(tmp_path):
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 0, 10, 1)
    trace.call("cudaLaunchKernel", 20, 30, 2)
    trace.kernel(100, 3000, 1)
    trace.kernel(5000, 6000, 2)  # on another stream, waiting for something
    assert overhang(tmp_path, trace, 2000) == [2000]


def test_work_whose_launch_was_not_recorded_counts_from_its_start(tmp_path):
    trace = TraceBuilder()
    trace.kernel(0, 3000)
    trace.copy(2900, 4000, None, "DtoH", "device", "pageable")
    assert overhang(tmp_path, trace, 1000) == [2000]


def test_lines_that_came_while_nothing_was_recorded_are_left_out(tmp_path):
    assert overhang(tmp_path, epochs(synchronized=False), -5000, 1000, 50_000) == [9100]


def test_of_a_trace_whose_clock_is_unknown_or_that_has_no_gpu_nothing_is_said(tmp_path):
    assert overhang(tmp_path / "unknown", epochs(synchronized=False), 1000, zero_ns=None) == []
    processor = TraceBuilder()
    processor.range("epoch", 0, 1000)
    assert overhang(tmp_path / "processor", processor, 500) == []
