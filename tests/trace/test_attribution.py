"""Which phase caused which work of the GPU, and what becomes of work that no phase caused."""

import pytest

from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import TraceBuilder
from tests.trace.readings import account_of, phases_of, us


def test_work_without_a_launch_or_outside_all_phases_stays_unattributed(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("forward", 0, 10)
    trace.call("cudaLaunchKernel", 5, 6, 1)
    trace.kernel(10, 40, 1)
    trace.kernel(50, 60)
    trace.call("cudaLaunchKernel", 70, 71, 2)
    trace.kernel(80, 100, 2)
    summary = analyze_trace(trace.write(tmp_path))
    assert summary.unattributed_fraction == pytest.approx(30 / 60)
    assert account_of(summary)["training", "residual", "in no phase"] == 30


def test_exposed_communication_is_a_term_and_hidden_costs_nothing(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("backward", 0, 10)
    for number, (start, end, name) in enumerate(
        [(10, 40, "ncclDevKernel_AllReduce"), (50, 70, "ncclDevKernel_AllGather"), (80, 85, "add"), (20, 35, "gemm")]
    ):
        called = 7 if name == "gemm" else 5 + 10 * number
        trace.call("cudaLaunchKernel", called, called + 1, number + 1)
        trace.kernel(start, end, number + 1, name=name, stream=7 + (name == "gemm"))
    summary = analyze_trace(trace.write(tmp_path))
    account = account_of(summary)
    # The gemm of `backward` hides 15 of the first 30 us; 20 more are of no phase.
    assert account["training", "gpu", "backward"] == 15
    assert account["training", "gpu", "exposed communication"] == 15 + 20
    assert (us(summary.communication.seconds_per_epoch), us(summary.communication.hidden_s)) == (50, 15)
    assert account["training", "residual", "in no phase"] == 5


def test_each_reason_for_unattributed_work_has_its_share(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("forward", 0, 10)
    trace.call("cudaLaunchKernel", 5, 6, 1)
    trace.kernel(10, 40, 1)  # of `forward`
    trace.kernel(30, 50)  # no correlation id, alone from 40 on
    trace.kernel(50, 54, 99)  # its call was not recorded
    trace.kernel(52, 60, process=1)  # of another process on the same GPU, alone from 54 on
    trace.call("cudaLaunchKernel", 70, 71, 2)
    trace.kernel(80, 120, 2)  # launched in no phase; the epoch ends at 100
    summary = analyze_trace(trace.write(tmp_path))
    # Busy: [10, 60) and [80, 100), 70 us.
    assert {part.reason: us(70e-6 * part.fraction) for part in summary.unattributed} == {
        "launched while the main thread was in no phase": 20,
        "without a correlation id": 10,
        "launched by another process": 6,
        "its launching call is not in the trace": 4,
    }
    assert summary.unattributed_fraction == pytest.approx(40 / 70)


def test_of_kernels_at_once_the_first_owns_the_time(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("forward", 0, 10)
    trace.range("backward", 10, 20)
    trace.call("cudaLaunchKernel", 5, 6, 1)
    trace.call("cudaLaunchKernel", 15, 16, 2)
    trace.kernel(20, 60, 1)
    trace.kernel(40, 90, 2, stream=8)
    summary = analyze_trace(trace.write(tmp_path))
    account = account_of(summary)
    assert (account["training", "gpu", "forward"], account["training", "gpu", "backward"]) == (40, 30)
    # The phase itself is told in full.
    assert us(phases_of(summary)["backward", "training"].gpu_busy_s) == 50
