"""What `speedproof analyze` and `compare` print, from traces whose numbers are worked out in tests/trace."""

from io import StringIO

import pytest
from rich.console import Console

from speedproof.report.terminal import print_difference, print_summary
from speedproof.trace.diff import compare_summaries
from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import TraceBuilder, two_epochs


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    trace = two_epochs()
    trace.kernel(0, 1000, device=1, process=1, name="void at::native::[unnamed]::fill")
    return analyze_trace(trace.write(tmp_path_factory.mktemp("trace")))


def printed(show, *arguments):
    file = StringIO()
    show(*arguments, Console(file=file, width=120, markup=False, highlight=False))
    return [" ".join(line.split()) for line in file.getvalue().replace("\N{NO-BREAK SPACE}", " ").splitlines()]


def test_a_summary_is_tables_of_its_numbers(summary):
    lines = printed(print_summary, summary)
    assert lines[0] == "2 epochs; mean 10.0 ms; Test GPU busy 16 % of it, 15 % with kernels."
    # The kernel of another process on another GPU: 1000 us against 3145.
    assert "0 yes 0 0.00314 76 %" in lines
    assert "1 1 0.00100 24 %" in lines
    assert "training backward 1 0.00200 0.00200 0.00200 0 0.00200 main thread window" in lines
    assert "transforms on the CPU LoadImage 1 0.00150" in lines
    assert "gpu training backward 0.00100" in lines
    # Device, stream, busy an epoch: kernels 3045 us, a copy of 100 us.
    assert "0 all 0.00157 0.00152 0.0000500 0" in lines
    assert "transforms move transforms off the main thread, onto the GPU, or into a cache 0.00150" in lines
    assert "A training epoch without bubbles would take 1.55 ms; max(GPU busy, data time) is 2.00 ms." in lines
    assert "No phase claims 0.0 % of the GPU's busy time." in lines
    assert [line for line in lines if line.startswith("Of the time without a kernel ") and "is unknown host time" in line]
    assert lines[1].startswith("Note: 2 processes used a GPU: this is process 0, with 76% of the GPU time")


def test_a_cpu_trace_is_summarised_without_its_gpu(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("forward", 0, 750)
    lines = printed(print_summary, analyze_trace(trace.write(tmp_path)))
    assert lines[0] == "1 epoch; mean 1.00 ms; no GPU was used."
    assert "cpu forward 0.000750" in lines
    assert not [line for line in lines if "busy" in line or "bubbles" in line]


def test_long_tables_say_what_they_leave_off(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    for number in range(15):
        trace.range("dataload", 10 * number, 10 * number + 5)
        trace.range(f"Transform{'ABCDEFGHIJKLMNO'[number]}", 10 * number, 10 * number + 5)
    assert "and 3 more" in printed(print_summary, analyze_trace(trace.write(tmp_path)))


def test_a_difference_is_a_table_that_sums(summary):
    twice = summary.model_copy(
        update={"account": [share.model_copy(update={"total_ns": 2 * share.total_ns}) for share in summary.account]}
    )
    lines = printed(print_difference, compare_summaries(summary, twice, ("one [a]", "two"), (100, 400)))
    assert lines[0] == "An epoch of two takes 20.0 ms against 10.0 ms of one [a]: +0.010000 s"
    # 0.010 s for 100 samples are 0.1 ms each; 0.020 s for 400 are 0.05.
    assert "total +0.010000 -0.050000" in lines
    assert "gpu training backward +0.001000 -0.005000" in lines
    assert "residual no rule tells +0.000000 +0.000000" in lines


def test_without_samples_there_is_no_number_by_sample(summary):
    lines = printed(print_difference, compare_summaries(summary, summary, ("one", "two")))
    assert "total +0.000000 –" in lines


def test_the_known_share_of_idle_time_is_said(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("dataload", 0, 300)
    trace.range("forward", 300, 500)
    trace.kernel(900, 1000)
    # 300 of 900 us wait for data; 200 in `forward` and 400 in no range are unknown.
    lines = printed(print_summary, analyze_trace(trace.write(tmp_path)))
    assert (
        "Of the time without a kernel 33 % has a known cause; 67 % is unknown host time, and of 0.0 % nothing is known."
        in lines
    )
