"""What a GPU waited for."""

import pytest

from speedproof.analysis.summarize import analyze_trace
from tests.analysis.handmade import AUTOGRAD, LOADER, MAIN, TraceBuilder
from tests.analysis.readings import bubbles_of, us


def test_loading_thread_is_not_the_loop(tmp_path):
    # The loader's thread waits for the GPU during `forward`: that does not make the loop wait.
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("forward", 0, 1000)
    trace.range("RandCrop", 100, 900, thread=LOADER)
    trace.call("cudaLaunchKernel", 110, 111, 1, thread=LOADER)
    trace.call("cudaStreamSynchronize", 120, 890, thread=LOADER)
    trace.kernel(112, 118, 1)
    causes = {cause for cause, _ in bubbles_of(analyze_trace(trace.write(tmp_path)))}
    assert causes == {"host code in a phase"}


def test_autograd_thread_is_the_loop(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("backward", 0, 1000)
    trace.call("cudaLaunchKernel", 10, 11, 1, thread=AUTOGRAD)
    trace.kernel(20, 30, 1)
    trace.call("cudaFree", 40, 990, thread=AUTOGRAD)
    assert ("synchronising call", "cudaFree") in bubbles_of(analyze_trace(trace.write(tmp_path)))


@pytest.mark.parametrize("call", ["cuLibraryLoadData", "cuModuleLoadDataEx", "cudaLibraryLoadData"])
def test_the_first_use_of_a_kernel_loads_it(tmp_path, call):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("sliding window", 0, 1000)
    trace.call("cudaLaunchKernel", 10, 11, 1)
    trace.kernel(12, 100, 1)
    trace.call(call, 150, 500)
    trace.call("cudaLaunchKernel", 550, 935, 2)  # soon after, and long: the driver makes it ready
    trace.kernel(940, 1000, 2)
    summary = analyze_trace(trace.write(tmp_path))
    assert bubbles_of(summary)["loading kernels", "sliding window"] == (1, 840, 93.45)  # 785 of 840 us
    assert {advice.rule: us(advice.seconds_per_epoch) for advice in summary.advice}["first use"] == 840


def test_less_than_half_covered_is_unexplained(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("dataload", 0, 300)
    trace.range("forward", 300, 600)
    trace.kernel(999, 1000)
    trace.add("osrt", 600, 900, thread=MAIN, name="read")
    # [0, 999): data 300, host code in forward 300, the system's read 300, no range 99.
    assert bubbles_of(analyze_trace(trace.write(tmp_path))) == {("unexplained", ""): (1, 999, round(100 * 300 / 999, 2))}


def test_profiler_and_operating_system_are_blamed_where_they_are_seen(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 300)
    trace.range("forward", 0, 300)
    trace.add("overhead", 0, 80, thread=MAIN, name="CUPTI")
    trace.add("osrt", 110, 200, thread=MAIN, name="pthread_cond_wait")
    trace.kernel(100, 110)
    trace.kernel(200, 300)
    found = bubbles_of(analyze_trace(trace.write(tmp_path)))
    assert found == {("profiler overhead", ""): (1, 100, 80), ("operating system call", "pthread_cond_wait"): (1, 90, 100)}
