"""What a GPU waited for."""

import pytest

from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import AUTOGRAD, LOADER, MAIN, TraceBuilder
from tests.trace.readings import idle_gaps_of, us


def test_loading_thread_is_not_the_loop(tmp_path):
    # The loader's thread waits for the GPU during `forward`: that does not make the loop wait.
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("forward", 0, 1000)
    trace.range("RandCrop", 100, 900, thread=LOADER)
    trace.call("cudaLaunchKernel", 110, 111, 1, thread=LOADER)
    trace.call("cudaStreamSynchronize", 120, 890, thread=LOADER)
    trace.kernel(112, 118, 1)
    # While it works, and does not wait, [100, 112), [118, 120) and [890, 900), it may hold Python's lock.
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("unknown host time in a phase", "forward"): (2, 100 + 770 + 100),
        ("while a loader thread is active", "RandCrop"): (2, 11 + 2 + 10),
        ("queued, not started", "forward"): (1, 1),
    }


def test_autograd_thread_is_the_loop(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("backward", 0, 1000)
    trace.call("cudaLaunchKernel", 10, 11, 1, thread=AUTOGRAD)
    trace.kernel(20, 30, 1)
    trace.call("cudaFree", 40, 990, thread=AUTOGRAD)
    assert ("synchronising call", "cudaFree") in idle_gaps_of(analyze_trace(trace.write(tmp_path)))


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
    assert idle_gaps_of(summary) == {
        ("loading kernels", "sliding window"): (1, 785),  # [150, 935)
        ("unknown host time in a phase", "sliding window"): (2, 10 + 50),  # [0, 10) and [100, 150)
        ("launch-bound", "sliding window"): (1, 1),  # [10, 11)
        ("queued, not started", "sliding window"): (2, 1 + 5),  # [11, 12) and [935, 940)
    }
    assert {advice.rule: us(advice.seconds_per_epoch) for advice in summary.advice}["first use"] == 785


def test_a_stretch_is_split_among_what_was_at_work(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("dataload", 0, 300)
    trace.range("RandCrop", 20, 120)
    trace.range("EnsureType", 130, 150)
    trace.range("forward", 300, 600)
    trace.kernel(999, 1000)
    trace.add("osrt", 600, 900, thread=MAIN, name="read")
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("transforms on the CPU", "RandCrop"): (1, 100),
        ("transforms on the CPU", "EnsureType"): (1, 20),
        ("batches made on the CPU", "dataload"): (1, 300 - 120),
        ("unknown host time in a phase", "forward"): (1, 300),
        ("operating system call", "read"): (1, 300),
        ("unknown host time in no range", ""): (1, 99),
    }


def test_a_library_is_blamed_for_what_its_calls_do_themselves(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("forward", 0, 1000)
    trace.add("library", 0, 600, thread=MAIN, name="cudnnFindConvolutionForwardAlgorithm")
    trace.add("library", 100, 200, thread=MAIN, name="cublasSgemm_v2")  # called by the other
    trace.add("library", 0, 1000, thread=MAIN + 1, name="cublasCreate_v2")  # of a thread that launches nothing
    trace.call("cudaMalloc", 300, 350)
    trace.kernel(990, 1000)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("synchronising call", "cudaMalloc"): (1, 50),
        ("library call", "cudnnFindConvolutionForwardAlgorithm"): (1, 600 - 50),
        ("unknown host time in a phase", "forward"): (1, 390),
    }


def test_unknown_time_names_the_innermost_range(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("forward", 0, 90)
    trace.range("encode", 10, 40)
    trace.range("print loss", 50, 80)
    trace.kernel(90, 100)
    summary = analyze_trace(trace.write(tmp_path))
    assert idle_gaps_of(summary) == {
        ("unknown host time in a phase", "forward"): (1, 30),
        ("unknown host time in a phase", "encode"): (1, 30),
        ("unknown host time in a phase", "print loss"): (1, 30),
    }
    # Only of what prints is it said that printing could go.
    advice = {one.rule: (us(one.seconds_per_epoch), one.text) for one in summary.advice}
    assert advice["output"] == (30, "move printing and logging out of the step")
    assert advice["host code"][0] == 90


def test_data_are_waited_for_inside_of_a_phase_too(tmp_path):
    # As where a step is the phase, and getting its batch a range in it.
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("Step", 0, 80)
    trace.range("Data Loading", 10, 60)
    trace.kernel(80, 100)
    assert idle_gaps_of(analyze_trace(trace.write(tmp_path))) == {
        ("waiting for data", ""): (1, 50),
        ("unknown host time in a phase", "Step"): (1, 10 + 20),
    }


def test_a_copy_hides_behind_no_more_kernels_than_there_are(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.copy(0, 940, None, "HtoD", "pinned", "device")
    trace.kernel(930, 970)
    # 930 us of copying without a kernel, but kernels run only 30 us without a copy beside.
    advice = {one.rule: us(one.seconds_per_epoch) for one in analyze_trace(trace.write(tmp_path)).advice}
    assert advice["exposed copies"] == 30


def test_profiler_and_operating_system_are_blamed_where_they_are_seen(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 300)
    trace.range("forward", 0, 300)
    trace.add("overhead", 0, 80, thread=MAIN, name="CUPTI")
    trace.add("osrt", 110, 200, thread=MAIN, name="pthread_cond_wait")
    trace.kernel(100, 110)
    trace.kernel(200, 300)
    found = idle_gaps_of(analyze_trace(trace.write(tmp_path)))
    assert found == {
        ("profiler overhead", ""): (1, 80),
        ("unknown host time in a phase", "forward"): (1, 20),
        ("operating system call", "pthread_cond_wait"): (1, 90),
    }
