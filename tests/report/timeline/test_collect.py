"""A trace as rows: worked out by hand for `two_epochs`, in microseconds."""

import pytest

from speedproof.report.timeline.collect import read_timeline
from speedproof.report.timeline.fragment import TracedVariant, describe_time, list_shown_gaps, render_timeline
from speedproof.util.errors import RecordError
from tests.report.timeline.unpack import list_events
from tests.trace.handmade import AUTOGRAD, US, TraceBuilder, many_pieces, two_epochs


@pytest.fixture(scope="module")
def timeline(tmp_path_factory):
    return read_timeline("two epochs", two_epochs().write(tmp_path_factory.mktemp("trace")))


def of_row(timeline, label):
    return [(start // US, end // US, name[0], note) for row, _, start, end, name, note in list_events(timeline) if row == label]


def test_the_rows_begin_with_what_matters(timeline):
    assert [row.label for row in timeline.rows] == [
        "epochs",
        "no kernel runs",
        "GPU 0, stream 7",
        "loop's thread: ranges",
        "loop's thread: CUDA calls",
        "a thread: ranges",  # of a process of which no threads were recorded
        "a thread: CUDA calls",
    ]
    assert of_row(timeline, "epochs") == [(0, 10_000, "epoch 1", ""), (10_000, 20_000, "epoch 2", "")]
    assert (timeline.start_ns, timeline.end_ns) == (0, 20_000 * US)


def test_a_kernel_tells_the_phase_that_caused_it_and_what_it_computes(timeline):
    work = of_row(timeline, "GPU 0, stream 7")
    assert work[:3] == [
        (4200, 5200, "sm80_xmma_fprop_implicit_gemm_f16", "forward"),
        (5600, 7600, "cudnn::cnn::wgrad_alg0_engine", "backward"),  # launched by another thread, in the loop's `backward`
        (7700, 7800, "DtoH, pageable", "update"),
    ]
    groups = dict(zip(timeline.names, timeline.groups, strict=True))
    assert groups["sm80_xmma_fprop_implicit_gemm_f16"] == "convolution forward"
    assert groups["DtoH, pageable"] == "copy or fill"
    assert groups["cudaMemcpyAsync"] == "call"


def test_idle_stretches_cover_what_kernels_do_not(timeline):
    idle = of_row(timeline, "no kernel runs")
    assert idle[0] == (0, 500, "batches made on the CPU", "dataload")
    assert idle[1] == (500, 3500, "transforms on the CPU", "LoadImage")
    kernels = 1000 + 2000 + 3 * 15
    assert sum(end - start for start, end, _, _ in idle) == 20_000 - kernels


def test_the_longest_gaps_are_told_in_words(timeline):
    first, second, third, *_ = list_shown_gaps(timeline, 10)
    assert (first.length, first.start) == ("7.42\N{NO-BREAK SPACE}ms", "7.60\N{NO-BREAK SPACE}ms")  # 7600 to 15,025
    assert (second.length, second.start) == ("4.86\N{NO-BREAK SPACE}ms", "15.1\N{NO-BREAK SPACE}ms")  # 15,140 to 20,000
    assert (third.length, third.start, third.cause, third.share) == (
        "4.20\N{NO-BREAK SPACE}ms", "0\N{NO-BREAK SPACE}ns", "transforms on the CPU: LoadImage", "71\N{NO-BREAK SPACE}%",
    )  # fmt: skip


def test_the_cause_of_a_gap_is_that_of_most_of_its_time_not_of_its_longest_piece(tmp_path):
    # Of 1000 us without a kernel `forward` fills three pieces of 200, `update` 250 and 50, `backward` 100.
    gap = read_timeline("x", many_pieces().write(tmp_path))
    (first, *_) = list_shown_gaps(gap, 1)
    assert (first.length, first.cause, first.share) == (
        "1.00\N{NO-BREAK SPACE}ms", "unknown host time in a phase: forward", "60\N{NO-BREAK SPACE}%",
    )  # fmt: skip


def test_operators_are_there_under_names_that_repeat(tmp_path):
    trace = two_epochs()
    for number in range(3):
        trace.range(f"aten::add, seq = {number}, op_id = 1{number}", 5000 + 10 * number, 5005 + 10 * number, thread=AUTOGRAD)
    timeline = read_timeline("x", trace.write(tmp_path))
    assert of_row(timeline, "a thread: operators") == [(5000 + 10 * n, 5005 + 10 * n, "aten::add", "") for n in range(3)]


def test_a_trace_without_a_gpu_has_neither_idle_time_nor_gaps(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 10)
    trace.range("epoch", 10, None)
    timeline = read_timeline("x", trace.write(tmp_path))
    assert [row.kind for row in timeline.rows] == ["iterations", "ranges"]
    assert timeline.remarks == ["1 range never ended and is not drawn"]
    assert list_shown_gaps(timeline, 10) == []


def test_an_empty_trace_is_refused(tmp_path):
    with pytest.raises(RecordError, match="holds no ranges, kernels or calls"):
        render_timeline([TracedVariant("x", TraceBuilder().write(tmp_path))])


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.00 µs"),
        (42_000_000, "42.0 ms"),
        (999_700, "1.00 ms"),
        (120_000_000_000, "120 s"),
    ],
)
def test_times_have_the_unit_that_fits(time_ns, text):
    assert describe_time(time_ns).replace("\N{NO-BREAK SPACE}", " ") == text
