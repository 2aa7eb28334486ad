"""Every record of the checkout proves itself: from its evidence alone come its analyses, comparison, report and page."""

import csv
import io
import shutil
import subprocess
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from speedproof.cli import main
from speedproof.cli.application import app
from speedproof.report.figures.figure_data import read_evidence
from speedproof.report.findings import describe_differences
from speedproof.report.markdown import escape_markdown, write_report
from speedproof.results.comparison import COMPARISON_FILE
from speedproof.results.evidence_archive import EVIDENCE_FILE, find_files
from speedproof.results.experiment import experiment_file, read_experiment
from speedproof.results.files import read_json, read_text, sha256_of
from speedproof.results.folder import list_experiments, read_results
from speedproof.results.trace_tables import read_table
from speedproof.run.archive.rebuild import MARKDOWN_FILE, rebuild_numbers, rebuild_results
from speedproof.run.archive.record import PLAIN_FILES, RECORD_LIMIT_MIB
from speedproof.trace.causes import HOST, NO_RANGE, UNEXPLAINED
from speedproof.util.errors import RecordError
from tests.profilers.sums import assert_sums_are_those_of_nsys
from tests.report.example import Example, write_example
from tests.results.numbers import compare_numbers
from tests.support import require

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "workloads/spleen/claims.yaml"
RECORDS = sorted(path for path in (ROOT / "records").iterdir() if path.is_dir())
GOLDEN = Path(__file__).parent / "golden"
# What decides the last digit of a number, and the bytes of a report.
RENDERERS = ["numpy", "pandas", "pyarrow", "matplotlib", "seaborn", "jinja2", "markdown-it-py", "scipy", "pillow"]

# Between them they have what records can have: experiments in and out of a container, traces of one process and of several,
# their difference, scaling, prepared volumes, several experiments of one variant, runs left out.
# `make records` rebuilds the others.
ALWAYS = ["2026-11-21-h200-container", "2026-11-22-h200-turbo-four-gpus", "2026-11-22-h200-quick-start"]
DERIVED = {"analysis", "figures", "report.html"}  # made of a record, and not kept


def is_cheap(record):
    return record.name in ALWAYS or record not in TRACED


def parametrized(records):
    """Take the records that are always rebuilt, with `make records` the others; without traces it is a matter of seconds."""
    return pytest.mark.parametrize(
        "record",
        [
            pytest.param(path, marks=[pytest.mark.xdist_group(path.name), *([] if is_cheap(path) else [pytest.mark.records])])
            for path in records
        ],
        ids=lambda path: path.name,
    )


def traced_folders(record):
    """The folders of runs that have a trace of their own."""
    return [path.parents[1] for path in find_files(record, "*/*/runs/*/trace/trace.json")]


TRACED = [path for path in RECORDS if traced_folders(path)]
# Those of which all is kept, as nsys' own statistics have it.
WHOLE = [
    path for path in TRACED if not any(read_json(run / "trace/trace.json").get("left_out") for run in traced_folders(path))
]
# A difference is that of two variants' traces.
DIFFERENT = [path for path in TRACED if len({read_json(run / "run.json")["variant"] for run in traced_folders(path)}) > 1]
every_record = pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.name)
rebuilt_record = parametrized(RECORDS)
traced_record = parametrized(TRACED)


@pytest.fixture(scope="module")
def rebuild(tmp_path_factory):
    """Return a function that makes a record's analyses and numbers again, once, from its evidence alone."""

    @cache
    def again(record):
        made = tmp_path_factory.mktemp("made") / record.name
        made.mkdir()
        shutil.copy(record / EVIDENCE_FILE, made)
        rebuild_numbers(read_results(made, summaries=False), claims_of(record))
        write_report(made, made / MARKDOWN_FILE)
        return made

    return again


# In an epoch, whatever the batch: 32 volumes of 4 patches, regions, pairs, crops. Programs of others do not tell.
SAMPLES = {
    "spleen": 128,
    "pathology": 384,
    "polyp": 120,
    "brain_tumour": 8,
    "spleen/published": 128,
    "brain_tumour/published": 32,
    "programs": None,
}


def case_of(record):
    """The record's workload."""
    return read_json(find_files(record, "*/*/runs/*/run.json")[0])["case"]


def claims_of(record):
    """The claims of the record's workload; a proof of two commands has none."""
    case = case_of(record)
    return Path(__file__).parent / "no_claims.yaml" if case == "programs" else ROOT / "workloads" / case / "claims.yaml"


def traced_runs(results):
    return [run for run in read_results(results).runs if run.summary is not None]


def require_locked_environment():
    lines = (line.split(";")[0].rstrip(" \\").lower() for line in (ROOT / "requirements.lock").read_text().splitlines())
    locked = dict(line.split("==") for line in lines if "==" in line)
    differing = [name for name in RENDERERS if metadata.version(name) != locked[name]]
    require("lock", not differing, f"not as requirements.lock pins them: {', '.join(differing)}")


def kept_files(record):
    return {path.name for path in record.iterdir()} - DERIVED


def differing_numbers(record, made):
    return compare_numbers(*(read_json(folder / COMPARISON_FILE) for folder in (record, made)))


@rebuilt_record
def test_every_number_is_made_again_from_its_evidence_alone(record, rebuild):
    require_locked_environment()
    made = rebuild(record)
    assert kept_files(made) == kept_files(record)
    assert differing_numbers(record, made) == []


def assert_golden(text, name):
    """Compare a text with the one of that name; where a change is meant, write it there."""
    assert text == (GOLDEN / name).read_text(encoding="utf-8"), f"is the change meant? Then write the text to {GOLDEN / name}"


def test_a_report_with_traces_reads_as_it_should(rebuild):
    require_locked_environment()
    made = rebuild(ROOT / "records/2026-11-21-h200-container")
    assert_golden((made / MARKDOWN_FILE).read_text(encoding="utf-8"), "container.md")


def test_a_verdict_in_the_terminal_reads_as_it_should(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "records/2026-11-23-h200-classifier", tmp_path / "classifier", ignore=lambda *_: DERIVED)
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["results", "show", "--from", "classifier"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0
    assert_golden(shown.output, "classifier.txt")


def test_a_fresh_clone_shows_verdict_and_page_and_keeps_its_evidence(tmp_path, monkeypatch, capsys):
    """Without analyses, figures and page: the traces are analysed for it, and nothing is unpacked or rewritten."""
    require_locked_environment()
    record = ROOT / "records/2026-11-27-h100-published-turbo"
    clone = tmp_path / record.name
    clone.mkdir()
    for name in kept_files(record):
        shutil.copy(record / name, clone)
    for command in ("show", "report", "show"):
        monkeypatch.setattr("sys.argv", ["speedproof", "results", command, "--from", str(clone)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    said = capsys.readouterr().out
    assert "`speedproof results report --from" in said and str(clone / "report.html") in said
    assert {path.name for path in clone.iterdir()} >= DERIVED
    assert kept_files(clone) == kept_files(record)
    for name in (EVIDENCE_FILE, COMPARISON_FILE):
        assert (clone / name).read_bytes() == (record / name).read_bytes()
    shown = {path.stem for path in (clone / "figures").glob("*.svg")} - {"timeline"}  # which the page draws itself
    assert (clone / "report.html").read_text().count('<figure class="picture">') == len(shown) > 0
    assert list(clone.glob("analysis/differences/*/difference.json"))


def test_what_is_tracked_stays_small():
    """Evidence and numbers of workloads and of the ledger: no page, no picture but the forest plot, in all at most 60 MiB."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    paths = [Path(name) for name in listed if name and (ROOT / name).is_file()]
    sizes = {path: (ROOT / path).stat().st_size for path in paths}
    assert sum(sizes.values()) <= 60 * 2**20
    assert sum(size for path, size in sizes.items() if path.parts[0] == "records") <= 40 * 2**20
    assert {path.name for path in paths if path.parts[0] == "records"} == {*PLAIN_FILES, EVIDENCE_FILE}


@pytest.mark.parametrize("how", ["changed", "missing"])
def test_nothing_is_rebuilt_of_a_file_that_its_experiment_does_not_vouch_for(tmp_path, how):
    results = write_example(tmp_path / "results", Example(modes=("timed",)))
    table = next(results.glob("experiments/experiment-1/runs/*/epochs.csv"))
    if how == "missing":
        table.unlink()
    else:
        table.write_text(table.read_text().replace("1", "2", 1))
    with pytest.raises(RecordError, match=rf"{table.relative_to(results)}: (was|is) {how}"):
        rebuild_results(results, CLAIMS)
    assert not (results / "report.md").exists()


@every_record
def test_it_is_small_and_vouched_for(record):
    assert kept_files(record) <= {*PLAIN_FILES, EVIDENCE_FILE}
    assert sum((record / name).stat().st_size for name in kept_files(record)) < RECORD_LIMIT_MIB * 2**20
    with zipfile.ZipFile(record / EVIDENCE_FILE) as archive:
        assert {Path(name).suffix for name in archive.namelist()} <= {".json", ".csv", ".txt", ".parquet"}
    for folder in list_experiments(record):
        experiment = read_experiment(folder)
        assert read_json(experiment_file(folder))["seal"]
        assert experiment.digests
        for name, digest in experiment.digests.items():
            assert sha256_of(folder / name) == digest, name


@parametrized(WHOLE)
def test_phase_totals_equal_nsys_own_statistics(record, rebuild):
    """`nsys stats nvtx_sum` sums every range of a name, inside epochs and outside; so do the phases of all parts."""
    compared = 0
    for run in traced_runs(rebuild(record)):
        if run.run.profiler != "nsys":
            continue
        table = io.StringIO(read_text(run.trace.parent / "stats/nvtx_sum.csv"))
        official = {row["Range"].lstrip(":"): row for row in csv.DictReader(table)}
        for name in {phase.name for phase in run.summary.phases}:
            if "#" in name and name not in official:
                continue  # numbered by autograd: such rows are not kept in a record
            mine = [phase for phase in run.summary.phases if phase.name == name]
            assert sum(phase.calls for phase in mine) == int(official[name]["Instances"])
            assert round(1e9 * sum(phase.wall_s for phase in mine)) == int(official[name]["Total Time (ns)"])
            compared += 1
    assert compared


@parametrized(WHOLE)
def test_every_sum_of_a_trace_is_that_of_nsys(record, rebuild):
    """Kernels, calls, copies and ranges by name, to the nanosecond."""
    official = [run for run in traced_runs(rebuild(record)) if run.run.profiler == "nsys"]
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
def test_busy_shares_equal_plain_interval_arithmetic(record, rebuild):
    run = next(run for run in traced_runs(rebuild(record)) if run.summary.has_gpu)
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
def test_idle_time_has_causes_and_the_difference_adds_up(record, rebuild):
    """Four fifths of idle time in the spleen's `baseline` have a cause; each nanosecond has one term; at most 2 % has no rule.

    The last holds for what differences are made of: all epochs together but the first, which warms up. One short epoch alone
    may have 2.5 %.
    """
    results = read_results(rebuild(record))
    first = next(iter(results.variants))
    if case_of(record) == "spleen" and first.startswith("baseline") and (run := results.trace_of(first)):
        idle = sum(idle_gap.total_s for idle_gap in run.summary.idle_gaps)
        unknown = {HOST, NO_RANGE, UNEXPLAINED}
        assert idle > 0
        assert sum(idle_gap.total_s for idle_gap in run.summary.idle_gaps if idle_gap.cause not in unknown) >= 0.8 * idle
    for one in traced_runs(rebuild(record)):
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


@parametrized(DIFFERENT)
def test_differences_have_a_small_residual_and_a_generated_paragraph(record, rebuild):
    """No more than 2 % of a difference is of no rule; samples an epoch are the record's; the report says it in words."""
    report = (record / "report.md").read_text()
    evidence = read_evidence(rebuild(record))
    assert evidence.differences
    for difference in evidence.differences.values():
        assert abs(difference.residual_s) <= 0.02 * abs(difference.total_s)
        explained = sum(term.seconds_per_epoch for term in difference.terms)
        assert explained + difference.residual_s == pytest.approx(difference.total_s, abs=1e-9)
        assert {difference.samples_a, difference.samples_b} == {SAMPLES[case_of(record)]}
    paragraphs = describe_differences(evidence)
    assert len(paragraphs) == len(evidence.differences)
    assert all(f"- {escape_markdown(paragraph)}\n" in report for paragraph in paragraphs)
