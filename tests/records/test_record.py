"""Every record of the checkout proves itself: from its blocks alone come its analyses, comparison, figures and report."""

import csv
import json
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from speedproof.errors import RecordError
from speedproof.rebuild import PAGE_FILE, REPORT_FILE, compare_results, rebuild_results
from speedproof.record import LIMIT_MIB
from speedproof.records.block import BLOCK_FILE
from speedproof.records.comparison import COMPARISON_FILE
from speedproof.records.doctor import DOCTOR_FILE
from speedproof.records.files import sha256_of
from speedproof.records.results import read_results
from speedproof.records.summary import read_summary
from speedproof.records.trace import read_table
from speedproof.report.figures.evidence import read_evidence
from speedproof.report.findings import describe_differences
from speedproof.report.html import render_html
from speedproof.report.markdown import escape_markdown, write_report
from tests.profiling.sums import assert_sums_are_those_of_nsys
from tests.report.example import Example, write_example
from tests.support import require

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "workloads/spleen/claims.yaml"
RECORDS = sorted(path for path in (ROOT / "records").iterdir() if path.is_dir())
# What decides the bytes of a report.
RENDERERS = ["numpy", "pandas", "pyarrow", "matplotlib", "seaborn", "jinja2", "markdown-it-py", "scipy", "pillow"]

# Between them they have what records can have: blocks in and out of a container, traces of one process and of several, their
# difference, scaling, prepared volumes, several blocks of one side. `make records` rebuilds the others.
WHOLE = ["2026-11-21-h200-container", "2026-11-22-h200-turbo-four-gpus", "2026-11-22-h200-quick-start"]

every_record = pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.name)
TRACED = [path for path in RECORDS if list(path.glob("blocks/*/runs/*/trace"))]
# A difference is that of two sides' traces.
DIFFERENT = [path for path in TRACED if len({trace.parent.name[3:] for trace in path.glob("blocks/*/runs/*/trace")}) > 1]
traced_record = pytest.mark.parametrize("record", TRACED, ids=lambda path: path.name)


def traced_runs(record):
    return [run for run in read_results(record).runs if run.summary is not None]


def require_locked_environment():
    lines = (line.split(";")[0].rstrip(" \\").lower() for line in (ROOT / "requirements.lock").read_text().splitlines())
    locked = dict(line.split("==") for line in lines if "==" in line)
    differing = [name for name in RENDERERS if metadata.version(name) != locked[name]]
    require("lock", not differing, f"not as requirements.lock pins them: {', '.join(differing)}")


def assert_made_again(record, made):
    kept = {path.relative_to(record) for path in record.rglob("*") if path.is_file()}
    assert {path.relative_to(made) for path in made.rglob("*") if path.is_file()} == kept
    assert [str(path) for path in sorted(kept) if (record / path).read_bytes() != (made / path).read_bytes()] == []


@pytest.mark.parametrize(
    "record",
    [path if path.name in WHOLE else pytest.param(path, marks=pytest.mark.records) for path in RECORDS],
    ids=lambda path: path.name,
)
def test_it_is_rebuilt_byte_for_byte_from_its_blocks_alone(record, tmp_path):
    require_locked_environment()
    shutil.copytree(record / "blocks", tmp_path / "blocks")
    if (record / DOCTOR_FILE).exists():  # asked before the blocks, and made of nothing
        shutil.copy(record / DOCTOR_FILE, tmp_path)
    rebuild_results(tmp_path, CLAIMS)
    assert_made_again(record, tmp_path)


@pytest.mark.parametrize("record", [path for path in RECORDS if path.name not in WHOLE], ids=lambda path: path.name)
def test_its_numbers_and_words_are_rebuilt_byte_for_byte_from_its_analyses(record, tmp_path):
    """Traces are not analysed again, and figures not drawn: that takes minutes, by the same code for every record."""
    require_locked_environment()
    made = tmp_path / "record"
    shutil.copytree(record, made)
    for path in (COMPARISON_FILE, REPORT_FILE, PAGE_FILE):
        (made / path).unlink()
    compare_results(made, CLAIMS)
    write_report(made, made / REPORT_FILE)
    render_html(made / REPORT_FILE, made / PAGE_FILE)
    assert_made_again(record, made)


@pytest.mark.parametrize("how", ["changed", "missing"])
def test_nothing_is_rebuilt_of_a_file_that_its_block_does_not_vouch_for(tmp_path, how):
    results = write_example(tmp_path / "results", Example(arms=("timed",)))
    table = next(results.glob("blocks/block-2/runs/*/epochs.csv"))
    if how == "missing":
        table.unlink()
    else:
        table.write_text(table.read_text().replace("1", "2", 1))
    with pytest.raises(RecordError, match=rf"{table.relative_to(results)}: (was|is) {how}"):
        rebuild_results(results, CLAIMS)
    assert not (results / "report.md").exists()


@every_record
def test_it_is_small_and_vouched_for(record):
    files = [path for path in record.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LIMIT_MIB * 2**20
    assert {path.suffix for path in files} <= {".json", ".csv", ".txt", ".parquet", ".svg", ".png", ".md", ".html"}
    for block in read_results(record).blocks:
        assert json.loads((record / "blocks" / block.block / BLOCK_FILE).read_text())["seal"]
        assert block.digests
        for name, digest in block.digests.items():
            assert sha256_of(record / "blocks" / block.block / name) == digest, name


@traced_record
def test_phase_totals_equal_nsys_own_statistics(record):
    """`nsys stats nvtx_sum` sums every range of a name, inside epochs and outside; so do the phases of all parts."""
    compared = 0
    for run in traced_runs(record):
        if run.run.profiler != "nsys":
            continue
        with (run.trace.parent / "stats/nvtx_sum.csv").open() as file:
            official = {row["Range"].lstrip(":"): row for row in csv.DictReader(file)}
        for name in {phase.name for phase in run.summary.phases}:
            mine = [phase for phase in run.summary.phases if phase.name == name]
            assert sum(phase.calls for phase in mine) == int(official[name]["Instances"])
            assert round(1e9 * sum(phase.wall_s for phase in mine)) == int(official[name]["Total Time (ns)"])
            compared += 1
    assert compared


@traced_record
def test_every_sum_of_a_trace_is_that_of_nsys(record):
    """Kernels, calls, copies and ranges by name, to the nanosecond."""
    official = [run for run in traced_runs(record) if run.run.profiler == "nsys"]
    assert official
    for run in official:
        compared = assert_sums_are_those_of_nsys(run.trace, run.trace.parent / "stats", ("CCCL", "NCCL"))
        assert compared == ["kernels", "api", "copies", "sizes", "ranges"]


def merged_length(intervals, start, end):
    """Return how much of [start, end) the intervals cover, by walking along them."""
    covered, reached = 0, start
    for low, high in sorted(intervals):
        low, high = max(low, reached), min(high, end)
        if high > low:
            covered += high - low
            reached = high
    return covered


@traced_record
def test_busy_shares_equal_plain_interval_arithmetic(record):
    run = next(run for run in traced_runs(record) if run.summary.has_gpu)
    kernels, copies = (
        list(zip(*(read_table(run.trace, table)[column].to_pylist() for column in ("start_ns", "end_ns")), strict=True))
        for table in ("kernels", "copies")
    )
    for epoch in run.summary.epochs:
        length = epoch.end_ns - epoch.start_ns
        busy = merged_length(kernels + copies, epoch.start_ns, epoch.end_ns)
        assert epoch.gpu_busy_fraction == pytest.approx(busy / length, abs=1e-12)
        assert epoch.kernel_busy_fraction == pytest.approx(
            merged_length(kernels, epoch.start_ns, epoch.end_ns) / length, abs=1e-12
        )


@traced_record
def test_idle_time_has_causes_and_the_difference_adds_up(record):
    """Four fifths of the baseline's idle time have a cause; every nanosecond has one term; at most 2 % belong to no rule.

    The last holds for what differences are made of: all epochs together but the first, which warms up. One short epoch alone
    may have 2.5 %.
    """
    results = read_results(record)
    if run := results.trace_of(next(iter(results.variants))):  # the baseline's, where it was traced
        summary = read_summary(record / "analysis" / run.block / run.name)
        idle = sum(bubble.total_s for bubble in summary.bubbles)
        assert sum(bubble.total_s for bubble in summary.bubbles if bubble.cause != "unexplained") >= 0.8 * idle
    for one in traced_runs(record):
        for epoch in one.summary.epochs:
            shares = [share for share in one.summary.account if share.epoch == epoch.index]
            assert sum(share.total_ns for share in shares) == epoch.end_ns - epoch.start_ns
        steady = {epoch.index for epoch in one.summary.steady_epochs}
        counted = [share for share in one.summary.account if share.epoch in steady]
        residual = sum(share.total_ns for share in counted if share.kind == "residual")
        assert residual <= 0.02 * sum(share.total_ns for share in counted)
        for epoch in one.summary.steady_epochs:
            own = sum(share.total_ns for share in counted if share.kind == "residual" and share.epoch == epoch.index)
            assert own <= 0.025 * (epoch.end_ns - epoch.start_ns)


@pytest.mark.parametrize("record", DIFFERENT, ids=lambda path: path.name)
def test_differences_have_a_small_residual_and_a_generated_paragraph(record):
    """No more than 2 % of a difference is of no rule; samples an epoch are the record's; the report says it in words."""
    report = (record / "report.md").read_text()
    evidence = read_evidence(record)
    assert evidence.differences
    for difference in evidence.differences.values():
        assert abs(difference.residual_s) <= 0.02 * abs(difference.total_s)
        explained = sum(term.seconds_per_epoch for term in difference.terms)
        assert explained + difference.residual_s == pytest.approx(difference.total_s, abs=1e-9)
        # 32 volumes of 4 patches, whatever the batch.
        assert (difference.samples_a, difference.samples_b) == (128, 128)
    paragraphs = describe_differences(evidence)
    assert len(paragraphs) == len(evidence.differences)
    assert all(f"- {escape_markdown(paragraph)}\n" in report for paragraph in paragraphs)
