"""What people type to learn where the time of a trace went, of any program."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speedproof.cli.exits import say, start_log
from speedproof.cli.options import FoundResults, LogFile, command
from speedproof.profilers.formats import describe_inputs
from speedproof.util.errors import RecordError
from speedproof.util.log_file import log

if TYPE_CHECKING:
    from speedproof.report.timeline.fragment import TracedVariant
    from speedproof.results.summary import Summary
    from speedproof.results.trace_results import Difference
    from speedproof.trace.iterations import Choice

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer(no_args_is_help=True)

INPUT = f"A trace's folder, {describe_inputs()}"
ProcessNumber = Annotated[
    int | None, typer.Option(help="Process to analyze, by its id in the trace. Default: the one that uses the GPU most")
]
EpochPattern = Annotated[str | None, typer.Option(help="Regex for the name of an iteration's range. Default: detected")]
PhasePatterns = Annotated[
    list[str] | None,
    typer.Option("--phase", metavar="NAME=PATTERN", help="Name a phase and the ranges that belong to it (repeatable)"),
]
WithPage = Annotated[bool, typer.Option("--page/--no-page", help="Write report.html with the timeline")]
Perfetto = Annotated[bool, typer.Option("--perfetto", help="Also write trace.pftrace for Perfetto")]
WholeTrace = Annotated[bool, typer.Option("--whole", help="Analyze the whole trace without looking for iterations")]


@command(
    commands,
    "speedproof trace analyze report.nsys-rep --out analysis",
    "speedproof trace analyze report.sqlite --out analysis --epoch 'step.*' --phase forward='fwd.*'",
    "speedproof trace analyze report.sqlite --out analysis --tables tables --parquet",
)
def analyze(
    trace: Annotated[Path, typer.Argument(help=INPUT)],
    out: Annotated[Path, typer.Option(help="Output folder")],
    epoch: EpochPattern = None,
    phase: PhasePatterns = None,
    whole: WholeTrace = False,
    process: ProcessNumber = None,
    tables: Annotated[Path | None, typer.Option(help="Also write every table of summary.json to this folder, as CSV")] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write these tables as Parquet")] = False,
    may_be_empty: Annotated[bool, typer.Option("--may-be-empty", help="Accept a trace without events")] = False,
    page: WithPage = True,
    perfetto: Perfetto = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no tables")] = False,
    log_file: LogFile = None,
) -> None:
    """Analyze where the time of a trace went: iterations, phases, idle gaps and their causes, kernels."""
    from speedproof.report.terminal import print_summary
    from speedproof.trace.iterations import Choice
    from speedproof.trace.summarize import analyze_trace, write_summary

    if parquet and tables is None:
        raise typer.BadParameter("--parquet says how --tables FOLDER writes: give both")
    start_log(log_file)
    with _as_trace(trace, out) as folder:
        phases = _read_phases(phase)
        summary = analyze_trace(folder, epoch, process, phases, whole, may_be_empty)
        write_summary(summary, out)
        if (page or perfetto) and summary.epochs:
            choices = _choose_summarized([Choice(epoch, phases, process, whole)], [summary])
            _write_views(_name_variants([trace], [folder], choices), [summary], None, out, page, perfetto)
    if tables is not None:
        from speedproof.trace.summary_tables import write_tables

        write_tables(summary, tables, parquet)
    log.info("%s: written", out / "summary.json")
    if not quiet:
        print_summary(summary)
    if page and summary.epochs:
        _name_page(out)


@command(
    commands,
    "speedproof trace diff before.sqlite after.sqlite --out difference",
    "speedproof trace diff before.sqlite after.sqlite --out difference --samples-a 32 --samples-b 64",
)
def diff(
    a: Annotated[Path, typer.Argument(help=INPUT)],
    b: Annotated[Path, typer.Argument(help="The trace to compare it with")],
    out: Annotated[Path, typer.Option(help="Output folder")],
    epoch: EpochPattern = None,
    phase: PhasePatterns = None,
    whole: WholeTrace = False,
    samples_a: Annotated[
        float | None, typer.Option(help="Training samples per epoch of A; with --samples-b, compare per sample")
    ] = None,
    samples_b: Annotated[float | None, typer.Option(help="Training samples per epoch of B")] = None,
    process_a: ProcessNumber = None,
    process_b: ProcessNumber = None,
    page: WithPage = True,
    perfetto: Perfetto = False,
) -> None:
    """Explain the difference between two traces, to the nanosecond."""
    from speedproof.report.terminal import print_difference
    from speedproof.trace.diff import analyze_pair, compare_summaries, write_difference
    from speedproof.trace.iterations import Choice
    from speedproof.trace.summarize import analyze_chosen

    if (samples_a is None) != (samples_b is None):
        raise typer.BadParameter("--samples-a and --samples-b: give both or neither")
    samples = None if samples_a is None or samples_b is None else (samples_a, samples_b)
    with _as_trace(a, out) as one, _as_trace(b, out) as other:
        phases = _read_phases(phase)
        choices = (Choice(epoch, phases, process_a, whole), Choice(epoch, phases, process_b, whole))
        names = str(a), str(b)
        summaries, choices = analyze_pair(one, other, analyze_chosen, choices, names)
        difference = compare_summaries(*summaries, names, samples)
        write_difference(difference, out)
        if page or perfetto:
            shown = _choose_summarized(choices, summaries)
            _write_views(_name_variants([a, b], [one, other], shown), summaries, difference, out, page, perfetto)
    print_difference(difference)
    for name, summary in zip("AB", summaries, strict=True):
        for warning in summary.warnings:
            say(f"Note: {name}: {warning}")
    if page:
        _name_page(out)


@command(commands, "speedproof trace ranks rank0/report.sqlite rank1/report.sqlite --out ranks")
def ranks(
    traces: Annotated[list[Path], typer.Argument(help="One trace per rank, in order, or one trace with a process per rank")],
    out: Annotated[Path, typer.Option(help="Output folder")],
    log_file: LogFile = None,
) -> None:
    """Show which rank waits for which, and how much communication is hidden."""
    from speedproof.report.ranks_section import describe_ranks
    from speedproof.trace.rank_waits import summarize_ranks, write_ranks_summary

    start_log(log_file)
    from speedproof.profilers.convert import list_inputs

    if len(traces) == 1 and traces[0].is_dir():
        traces = list_inputs(traces[0]) or traces
    summary = summarize_ranks(traces, partial(_as_trace, out=out))
    write_ranks_summary(summary, out)
    log.info("%s: written: %s", out, describe_ranks("the run", summary, noted=True))


@command(commands, "speedproof trace convert report.sqlite --out trace")
def convert(
    export: Annotated[Path, typer.Argument(help=INPUT)],
    out: Annotated[Path, typer.Option(help="Folder of the trace")],
) -> None:
    """Convert a profiler's file to a trace."""
    from speedproof.profilers.convert import convert_input

    info = convert_input(export, out)
    say(f"{out}: {info.rows['ranges']} ranges, {info.rows['kernels']} kernels, {info.rows['api']} CUDA calls")


@command(
    commands,
    "speedproof trace open",
    "speedproof trace open before.sqlite after.sqlite",
    "speedproof trace open analysis/trace.pftrace --page http://localhost:10000",
    name="open",
)
def open_in_perfetto(
    shown: Annotated[
        list[Path] | None, typer.Argument(help="A trace.pftrace, or one or two traces. Default: those of the results")
    ] = None,
    results: FoundResults = None,
    page: Annotated[str, typer.Option(help="Address of a Perfetto page")] = "https://ui.perfetto.dev",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; the public page accepts only 9001")] = 9001,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser, or only print the link")] = True,
) -> None:
    """Open one trace or two in Perfetto; the file is served only to this machine."""
    import tempfile
    import webbrowser

    from speedproof.report.timeline.serve import Offer, check_page

    if shown and results:
        raise typer.BadParameter("give traces or --from RESULTS, not both")
    if len(shown or []) > 2:
        raise typer.BadParameter(f"give one trace or two, not {len(shown or [])}")
    check_page(page)
    with (
        tempfile.TemporaryDirectory() as scratch,
        Offer(_make_perfetto(shown or [], results, Path(scratch)), page, port) as offer,
    ):
        say(f"{offer.link}: waiting for this page to fetch the trace; Ctrl-C stops")
        if browser and (sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)):
            webbrowser.open(offer.link)  # without a screen it may start a text browser in this terminal, and wait
        offer.serve_until_fetched()
    say("done: the page has fetched the trace")


def _make_perfetto(shown: list[Path], results: Path | None, scratch: Path) -> Path:
    """Return a file for Perfetto: the given one, or one made of the given traces or of those on the results' page."""
    from speedproof.report.timeline.pftrace import PERFETTO_FILE
    from speedproof.results.files import opened

    if len(shown) == 1 and shown[0].suffix == Path(PERFETTO_FILE).suffix:
        with opened(shown[0]):
            return shown[0]
    with ExitStack() as stack:
        if shown:
            from speedproof.trace.loop import CHOOSES_NOTHING

            folders = [stack.enter_context(_as_trace(path, scratch)) for path in shown]
            variants = _name_variants(shown, folders, [CHOOSES_NOTHING] * len(shown))
        else:
            from speedproof.report.compose import find_timeline_variants
            from speedproof.report.figures.figure_data import lacks_traces, read_evidence
            from speedproof.run.proof.find import take_results

            taken = take_results(results)
            evidence = read_evidence(taken)
            if lacking := lacks_traces(evidence):
                raise RecordError(f"{taken}: {lacking}; name a trace, or run `speedproof results report --from {taken}`")
            variants = find_timeline_variants(evidence)
        _write_perfetto(variants, scratch)
    return scratch / PERFETTO_FILE


def _name_variants(named: Sequence[Path], folders: Sequence[Path], choices: Sequence["Choice"]) -> list["TracedVariant"]:
    """Return traces named after their files; if names are equal, with the folders that differ."""
    from speedproof.report.timeline.fragment import TracedVariant

    titles = [path.name for path in named]
    if len(set(titles)) < len(set(named)):
        common = os.path.commonpath([path.absolute().parent for path in named])
        titles = [str(path.absolute().relative_to(common)) for path in named]
    return [TracedVariant(*variant) for variant in zip(titles, folders, choices, strict=True)]


def _choose_summarized(choices: Sequence["Choice"], summaries: Sequence["Summary"]) -> list["Choice"]:
    """Return the user's choices for each trace, with the process that was summarised."""
    found = ([one.process for one in summary.processes if one.summarized] for summary in summaries)
    return [replace(choice, process=process[0]) if process else choice for choice, process in zip(choices, found, strict=True)]


def _write_views(
    variants: Sequence["TracedVariant"],
    summaries: Sequence["Summary"],
    difference: "Difference | None",
    out: Path,
    page: bool,
    perfetto: bool,
) -> None:
    """Write what shows a trace, or a pair with its difference: the page, the file for Perfetto."""
    from speedproof.report.document import PAGE_FILE, Markup
    from speedproof.report.html import render_html
    from speedproof.report.timeline.collect import read_timeline
    from speedproof.report.timeline.fragment import render_timelines
    from speedproof.report.timeline.pftrace import PERFETTO_FILE, write_perfetto
    from speedproof.report.trace_page import Traced, compose_pair, compose_trace

    timelines = [read_timeline(variant.title, variant.trace, variant.choice) for variant in variants]
    if perfetto:
        write_perfetto(timelines, out / PERFETTO_FILE)
    if page:
        traced = [Traced(variant.title, summary) for variant, summary in zip(variants, summaries, strict=True)]
        drawn = Markup(render_timelines(timelines), instead="")
        made = compose_trace(traced[0], drawn) if difference is None else compose_pair(traced[0], traced[1], difference, drawn)
        render_html(made, out / PAGE_FILE)


def _name_page(out: Path) -> None:
    from speedproof.report.document import PAGE_FILE

    say(f"Report: {out / PAGE_FILE}")


def _write_perfetto(variants: Sequence["TracedVariant"], out: Path) -> None:
    """Write `trace.pftrace` of a trace, or of a pair."""
    from speedproof.report.timeline.collect import read_timeline
    from speedproof.report.timeline.pftrace import PERFETTO_FILE, write_perfetto

    write_perfetto([read_timeline(variant.title, variant.trace, variant.choice) for variant in variants], out / PERFETTO_FILE)


def _read_phases(given: list[str] | None) -> dict[str, str]:
    """Read NAME=PATTERN, as often as it was given."""
    phases = {}
    for text in given or []:
        name, sign, pattern = text.partition("=")
        if not (name and sign and pattern):
            raise typer.BadParameter(f"--phase {text}: give NAME=PATTERN, such as forward='fwd.*'")
        phases[name] = pattern
    return phases


def _as_trace(path: Path, out: Path) -> AbstractContextManager[Path]:
    """Return the folder of a trace; what nsys exports of a report is kept in `out`."""
    from speedproof.profilers.convert import EXPORTS_FOLDER, trace_folder

    return trace_folder(path, out / EXPORTS_FOLDER)
