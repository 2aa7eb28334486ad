"""Critical path's classes, and how launches are queued: each number worked out by hand, in microseconds."""

import pytest

from speedproof.report.trace_phrases import describe_paths
from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import AUTOGRAD, LOADER, MAIN, TraceBuilder
from tests.trace.readings import us

CLASSES = ("host", "loader", "device", "copy", "communication")


def path_of(trace, folder):
    summary = analyze_trace(trace.write(folder))
    paths = summary.critical_paths
    for path, epoch in zip(paths, summary.epochs, strict=True):
        assert us(sum(getattr(path, f"{name}_s") for name in CLASSES)) == us(epoch.duration_s)
    return [(path.largest, {name: us(value) for name in CLASSES if (value := getattr(path, f"{name}_s"))}) for path in paths]


def test_a_host_that_launches_too_slowly_is_the_path(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("forward", 0, 1000)
    for number in range(10):
        trace.call("cudaLaunchKernel", 100 * number, 100 * number + 10, number + 1)
        trace.kernel(100 * number + 15, 100 * number + 75, number + 1)  # 60 % busy, and never waited for
    assert path_of(trace, tmp_path) == [("host", {"host": 1000})]


def test_kernels_that_are_waited_for_are_the_path(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("forward", 0, 1000)
    for number in range(4):
        trace.call("cudaLaunchKernel", 100 + 10 * number, 105 + 10 * number, number + 1)
        trace.kernel(110 + 200 * number, 310 + 200 * number, number + 1)  # one behind the other, from 110 to 910
    trace.call("cudaStreamSynchronize", 150, 920)
    # The host until the first kernel begins and from the last one's end; all kernels in between.
    assert path_of(trace, tmp_path) == [("device", {"host": 110 + 90, "device": 800})]


def test_a_copy_to_pageable_memory_is_awaited_with_the_kernels_before_it(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("forward", 0, 1000)
    trace.call("cudaLaunchKernel", 0, 10, 1)
    trace.kernel(20, 520, 1)
    trace.call("cudaMemcpyAsync", 30, 830, 2)
    trace.copy(520, 820, 2, "DtoH", "device", "pageable")
    assert path_of(trace, tmp_path) == [("device", {"host": 20 + 180, "device": 500, "copy": 300})]


def test_data_and_communication_are_classes_of_their_own(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("dataload", 0, 300)
    trace.range("forward", 300, 1000)
    trace.call("cudaLaunchKernel", 300, 310, 1)
    trace.call("cudaLaunchKernel", 310, 320, 2)
    trace.kernel(320, 420, 1)
    trace.kernel(420, 950, 2, name="ncclDevKernel_AllReduce")
    trace.call("cudaDeviceSynchronize", 330, 960)
    # Data until 300, launches until 320, 100 of a kernel, communication until 950, then the host again.
    expected = {"loader": 300, "host": 20 + 50, "device": 100, "communication": 530}
    assert path_of(trace, tmp_path) == [("communication", expected)]


def test_work_that_outlasts_its_iteration_is_on_the_path(tmp_path):
    trace = TraceBuilder()
    for number in range(2):  # the host is ready after 100 each, the GPU after 1000
        trace.range("epoch", 500 * number, 500 * number + 500)
        trace.range("forward", 500 * number, 500 * number + 500)
        trace.call("cudaLaunchKernel", 500 * number, 500 * number + 10, number + 1)
        trace.kernel(10 + 1000 * number, 1010 + 1000 * number, number + 1)
    assert path_of(trace, tmp_path) == [("device", {"host": 10, "device": 490}), ("device", {"device": 500})]


def skewed_clocks():
    """Four steps, each of a kernel that is waited for and one whose times are 10 us ahead of its launch, at 363."""
    trace = TraceBuilder()
    for start in range(0, 4000, 1000):
        trace.range("epoch", start, start + 1000)
        trace.range("forward", start, start + 1000)
        trace.call("cudaLaunchKernel", start + 50, start + 60, start + 1)
        trace.kernel(start + 60, start + 350, start + 1)
        trace.call("cudaDeviceSynchronize", start + 340, start + 362)
        trace.call("cudaLaunchKernel", start + 363, start + 366, start + 2)
        trace.kernel(start + 353, start + 354, start + 2)
    return trace


@pytest.mark.timeout(60)
def test_work_that_begins_before_its_launch_does_not_hide_what_a_call_awaited(tmp_path):
    # Each wait returned at 362, before the second kernel's launch: so it awaited the first kernel, [60, 350).
    assert path_of(skewed_clocks(), tmp_path) == 4 * [("host", {"host": 710, "device": 290})]


def test_a_skew_of_the_clocks_is_named(tmp_path):
    summary = analyze_trace(skewed_clocks().write(tmp_path))
    assert (summary.clock_skew.events, us(summary.clock_skew.most_s)) == (4, 10)
    assert describe_paths(summary).endswith(
        "Clock skew: 4 GPU events began before the launch, by up to 10.0\xa0µs; the path uses the launch as the start."
    )


def test_without_a_skew_nothing_is_said_of_it(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.call("cudaLaunchKernel", 100, 110, 1)
    trace.kernel(105, 200, 1)  # at work before its launch returned
    summary = analyze_trace(trace.write(tmp_path))
    assert summary.clock_skew is None and "skew" not in describe_paths(summary)


@pytest.mark.timeout(60)
def test_a_copy_that_another_thread_launched_long_after_it_began_ends_no_walk(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 10, 150)
    trace.range("epoch", 150, 280)
    for thread, start, end, name in [
        (AUTOGRAD, 15, 284, "cudaStreamSynchronize"),
        (LOADER, 86, 195, "cudaMemcpyAsync"),
        (AUTOGRAD, 29, 137, "cudaStreamSynchronize"),
        (MAIN, 251, 299, "cudaStreamSynchronize"),
        (MAIN, 267, 299, "cudaMemcpyAsync"),
        (MAIN, 0, 236, "cudaStreamSynchronize"),
    ]:
        trace.call(name, start, end, start, thread=thread)
    trace.copy(0, 236, 267, "HtoD", "pageable", "device")
    trace.copy(1, 171, 86, "HtoD", "pageable", "device")
    # Their launches begin at 267 and 86: no call awaited the former, and the latter cannot have ended before 256.
    path_of(trace, tmp_path)


@pytest.mark.timeout(60)
def test_work_that_takes_no_time_ends_no_walk(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.call("cudaMemcpyAsync", 400, 500, 1)  # returns, waits and ends with its copy
    trace.copy(500, 500, 1, "DtoH", "device", "pageable")
    trace.kernel(10, 20)
    assert path_of(trace, tmp_path) == [("host", {"host": 1000})]


@pytest.mark.timeout(60)
def test_the_walk_takes_steps_in_proportion_to_the_calls(tmp_path):
    trace = TraceBuilder()
    count = 20_000
    trace.range("epoch", 0, 100 * count)
    for start in range(0, 100 * count, 100):
        trace.call("cudaLaunchKernel", start, start + 10, start)
        trace.kernel(start - 5 if start % 200 else start + 10, start + 50, start)  # every other one is early
        trace.call("cudaDeviceSynchronize", start + 10, start + 60)
    summary = analyze_trace(trace.write(tmp_path))
    assert summary.clock_skew.events == count // 2


def test_a_loop_without_a_gpu_has_none(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    assert analyze_trace(trace.write(tmp_path)).critical_paths == []


def test_launches_are_queued(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    for number in range(4):
        trace.call("cudaLaunchKernel", 100 + 10 * number, 105 + 10 * number, number + 1)
        trace.kernel(105 + 200 * number, 305 + 200 * number, number + 1)
    launches = analyze_trace(trace.write(tmp_path)).launches
    # Returned at 105, 115, 125, 135; started at 105, 305, 505, 705.
    assert (launches.calls, us(launches.call_s), us(launches.delay_s)) == (4, 5, (190 + 380) / 2)
    assert launches.queue_mean == pytest.approx((0 + 190 + 380 + 570) / 1000)
    assert (launches.queue_most, launches.short_fraction) == (3, 0.0)


def test_without_launches_nothing_is_said_of_the_queue(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.kernel(10, 20)
    assert analyze_trace(trace.write(tmp_path)).launches is None
