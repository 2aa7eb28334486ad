"""What `speedproof trace analyze` and `trace diff` print, from traces whose numbers are worked out in tests/trace."""

from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.report.terminal import print_difference, print_summary
from speedproof.trace.diff import compare_summaries
from speedproof.trace.summarize import analyze_trace
from speedproof.util.text import fold
from tests.trace.handmade import TraceBuilder, two_epochs


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    trace = two_epochs()
    trace.kernel(0, 1000, device=1, process=1, name="void at::native::[unnamed]::fill")
    return analyze_trace(trace.write(tmp_path_factory.mktemp("trace")))


def printed(show, *arguments):
    file = StringIO()
    show(*arguments, Console(file=file, width=120, markup=False, highlight=False))
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_a_summary_is_tables_of_its_numbers(summary):
    lines = printed(print_summary, summary)
    assert lines[0] == "2 epochs; mean 10.0 ms; Test GPU busy 16 % of the time, 15 % with kernels."
    assert lines[1].startswith("The largest part of its idle time is ")
    # The kernel of another process on another GPU: 1000 us against 3145.
    assert "0 yes 0 3.14 ms 76 %" in lines
    assert "1 1 1.00 ms 24 %" in lines
    assert "training backward 1 2.00 ms 2.00 ms 2.00 ms 0 s 2.00 ms main thread window" in lines
    assert "transforms on the CPU LoadImage 1 1.50 ms" in lines
    assert "gpu training backward 1.00 ms" in lines
    # Device, stream, busy an epoch: kernels 3045 us, a copy of 100 us.
    assert "0 all 1.57 ms 1.52 ms 50.0 µs 0 s" in lines
    assert "transforms move transforms off the main thread, onto the GPU, or into a cache 1.50 ms" in lines
    assert "A training epoch without idle gaps would take 1.55 ms; if the GPU waited only for data, 2.00 ms." in lines
    assert "No phase accounts for 0.0 % of the GPU's busy time." in lines
    assert [line for line in lines if line.startswith("Of the GPU idle time, ") and "is unknown host time" in line]
    assert lines[2].startswith("Note: 2 processes used a GPU: this is process 0, with 76% of the GPU time")


def printed_at(width, show, *arguments):
    file = StringIO()
    show(*arguments, Console(file=file, width=width, markup=False, highlight=False))
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80])
def test_a_row_that_is_too_wide_has_its_names_above_its_numbers(summary, width):
    lines = [line.strip() for line in printed_at(width, print_summary, summary)]
    named = lines.index("training · backward · main thread window")
    assert " ".join(lines[named + 1].split()) == "1 2.00 ms 2.00 ms 2.00 ms 0 s 2.00 ms"
    assert "part · phase · attributed by" in lines


def test_tables_are_parted_by_one_blank_line(summary):
    lines = printed_at(120, print_summary, summary)
    assert [pair for pair in pairwise(lines) if not any(map(str.strip, pair))] == []


def test_a_cpu_trace_is_summarised_without_its_gpu(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("forward", 0, 750)
    lines = printed(print_summary, analyze_trace(trace.write(tmp_path)))
    assert lines[0] == "1 epoch; mean 1.00 ms; no GPU was used."
    assert "cpu forward 750 µs" in lines
    assert not [line for line in lines if "busy" in line or "idle_gaps" in line]


@pytest.mark.parametrize(
    ("untraced", "said"),
    [
        ("off", "GPU work was not traced (record it: `nsys profile --trace=cuda,nvtx`)."),
        ("failed", "whether a GPU was used is unknown, because tracing it may have failed."),
        ("unseen", "the profiler saw no GPU that it can trace."),
        ("called", "CUDA was called, but no GPU work followed."),
        ("unread", "the work of its accelerator is not read."),
        ("unknown", "the trace does not show whether a GPU was used."),
    ],
)
def test_why_there_is_no_gpu_work_is_said_in_its_own_words(tmp_path, untraced, said):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    summary = analyze_trace(trace.write(tmp_path)).model_copy(update={"gpu_untraced": untraced})
    assert printed_at(120, print_summary, summary)[0].strip() == f"1 epoch; mean 1.00 ms; {said}"


def test_a_number_stays_whole_however_narrow_the_terminal(summary):
    file = StringIO()
    print_summary(summary, Console(file=file, width=60, markup=False, highlight=False))
    assert max(map(len, file.getvalue().splitlines())) <= 60
    assert "3.14 ms" in file.getvalue() and "50.0 µs" in file.getvalue()


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
    assert lines[:3] == ["B takes 10.0 ms more per epoch than A: 20.0 ms against 10.0 ms.", "A: one [a]", "B: two"]
    # 0.010 s for 100 samples are 0.1 ms each; 0.020 s for 400 are 0.05.
    assert "total 10.000 20.000 +10.000 -0.050000" in lines
    assert "gpu training backward 1.000 2.000 +1.000 -0.005000" in lines
    assert "residual unexplained 0.000 0.000 0.000 0.000000" in lines


def test_without_samples_there_is_no_number_by_sample(summary):
    lines = printed(print_difference, compare_summaries(summary, summary, ("one", "two")))
    assert "total 10.000 10.000 0.000" in lines


def test_what_rounds_to_nothing_has_no_sign(summary):
    less = [share.model_copy(update={"total_ns": share.total_ns - (share.name == "backward")}) for share in summary.account]
    difference = compare_summaries(summary, summary.model_copy(update={"account": less}), ("one", "two"))
    assert -1e-8 < difference.total_s < 0
    assert [line for line in printed(print_difference, difference) if "-0.000" in line or "+0.000" in line] == []


def test_the_known_share_of_idle_time_is_said(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 1000)
    trace.range("dataload", 0, 300)
    trace.range("forward", 300, 500)
    trace.kernel(900, 1000)
    # 300 of 900 us wait for data; 200 in `forward` and 400 in no range are unknown.
    lines = printed(print_summary, analyze_trace(trace.write(tmp_path)))
    assert "Of the GPU idle time, 33 % has a known cause, 67 % is unknown host time, and 0.0 % is unexplained." in lines


def test_the_known_share_of_idle_time_is_that_of_the_epochs_that_count(tmp_path):
    """The first of three epochs warms up: its 900 µs in no range are in no table by epoch, and in no share."""
    trace = TraceBuilder()
    for begin in (0, 1000, 2000):
        trace.range("epoch", begin, begin + 1000)
        trace.range("dataload", begin, begin + (900 if begin else 1))
        trace.kernel(begin + 900, begin + 1000)
    lines = printed(print_summary, analyze_trace(trace.write(tmp_path)))
    assert "Of the GPU idle time, 100 % has a known cause, 0.0 % is unknown host time, and 0.0 % is unexplained." in lines


def test_of_several_gpus_it_is_said_that_the_busy_time_is_of_any(tmp_path):
    trace = TraceBuilder()
    for begin in (0, 1000):
        trace.range("epoch", begin, begin + 1000)
        trace.kernel(begin, begin + 500, device=0)
        trace.kernel(begin + 500, begin + 900, device=1)
    first = printed(print_summary, analyze_trace(trace.write(tmp_path)))
    said = "at least one of 2 GPUs (Test GPU) busy 90 % of the time, 90 % with kernels."
    assert f"2 epochs; mean 1.00 ms; {said}" in first


PAIR = Path(__file__).parents[2] / "records/2026-11-23-h200-profiling-pair"
PAIR_LENGTHS = {"before": 10_000, "after": 9_000}  # µs of each of two epochs; a kernel runs through half of each


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    made = {}
    for name, length in PAIR_LENGTHS.items():
        trace = TraceBuilder()
        for begin in (0, length):
            trace.range("epoch", begin, begin + length)
            trace.range("forward", begin, begin + length - 100)
            trace.kernel(begin + 100, begin + 100 + length // 2, name=f"void at::native::{'elementwise_' * 12}kernel")
        made[name] = str(trace.write(tmp_path_factory.mktemp("pair") / name))
    return made


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("verdict --metrics --from {pair}", "MONAI fast script trains an epoch 2.05× as fast as MONAI 2021 baseline script."),
        (
            "analyze {before} --no-page --out {out}",
            "2 epochs; mean 10.0 ms; Test GPU busy 50 % of the time, 50 % with kernels.",
        ),
        (
            "compare {before} {after} --no-page --out {out}",
            "B takes 1.00 ms less per epoch than A: 9.00 ms against 10.0 ms. A: {before} B: {after}",
        ),
    ],
)
def test_the_answer_comes_first_and_no_line_is_wider_than_the_terminal(command, first, width, traces, tmp_path):
    known = {"pair": PAIR, "out": tmp_path, **traces}
    told = CliRunner().invoke(app, command.format(**known).split(), env={"COLUMNS": str(width)})
    assert told.exit_code == 0, told.output
    said = told.stdout
    assert " ".join(said.split()).startswith(first.format(**known))
    # A path is one word, however long: it can be copied.
    assert [line for line in said.splitlines() if len(line) > width and len(line.split()) > 1] == []
    assert [mark for mark in "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}\x1b" if mark in said] == []


@pytest.mark.parametrize(
    "command", ["analyze {before} --out {out}", "analyze {before} --quiet --out {out}", "diff {before} {after} --out {out}"]
)
def test_the_page_is_named_last(command, traces, tmp_path):
    told = CliRunner().invoke(app, ["trace", *command.format(out=tmp_path, **traces).split()], env={"COLUMNS": "120"})
    assert told.exit_code == 0, told.output
    assert told.stdout.splitlines()[-1] == f"Report: {tmp_path / 'report.html'}"
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("it takes 14\N{NARROW NO-BREAK SPACE}907\N{NO-BREAK SPACE}us", 12, ["it takes", "14 907 us"]),
        ("a pair (95 % interval)", 10, ["a pair", "(95 %", "interval)"]),
        ("see records/2026-11-27-h100-published-turbo", 20, ["see", "records/2026-11-27-h100-published-turbo"]),
        ("  as long as it is wide", None, ["  as long as it is wide"]),
        ("one\n\ntwo", 60, ["one", "", "two"]),
    ],
)
def test_lines_break_between_words_and_never_within_a_number_or_a_path(text, width, lines):
    assert fold(text, width).split("\n") == lines
