"""Everything that follows from `experiments/`, made from it again: on a laptop, from a copy, with the same bytes."""

from pathlib import Path

from speedproof.profilers.formats import find_profiler
from speedproof.report.compose import compose_document, find_timeline_variants
from speedproof.report.document import PAGE_FILE, Markup, Picture
from speedproof.report.figures.draw import draw_figures
from speedproof.report.figures.figure_data import Evidence, FigureIndex
from speedproof.report.html import load_picture, render_html
from speedproof.report.markdown import write_report
from speedproof.report.timeline.fragment import render_timeline
from speedproof.results.folder import (
    ANALYSIS_FOLDER,
    MeasuredRun,
    Results,
    read_analyses,
    read_current_comparison,
    read_results,
)
from speedproof.results.names import inside
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.trace.attribution import measure_overhang
from speedproof.trace.diff import compare_stages, write_differences
from speedproof.trace.rank_waits import summarize_ranks, write_ranks_summary
from speedproof.trace.summarize import analyze_trace, write_summary
from speedproof.util.progress_bar import SOON_S, report_progress
from speedproof.util.sources import BASE

# Captions belong to the workflow, which shows them in Snakemake's own report, too.
CAPTIONS_FOLDER = BASE / "workflow/report"
FIGURES_FOLDER, MARKDOWN_FILE = "figures", "report.md"


def rebuild_results(results: Path, claims: Path) -> None:
    """Analyse every trace, compare the experiments and write the report, as the workflow does; see there for what can fail."""
    read = read_results(results, summaries=False)  # an older version's would not be readable
    rebuild_report(rebuild_numbers(read, claims), results)


def rebuild_numbers(read: Results, claims: Path) -> Evidence:
    """Analyse every trace and compare the experiments; write analyses and `comparison.json`, and return all."""
    _analyze_runs([run for run in read.runs if run.run.profiler != "none"])
    return compare_results(read_analyses(read), claims)


def compare_results(read: Results, claims: Path) -> Evidence:
    """Account for the differences between traces, compare the experiments, judge every claim; write and return all."""
    write_differences(read)
    comparison = compare_experiments(read, claims, compare_stages(read))
    write_comparison(comparison, read.folder)
    return Evidence(read, comparison)


def rebuild_report(evidence: Evidence, out: Path) -> None:
    """Write `report.md` with its forest plot, and `report.html` with all figures and the timeline, into `out`.

    Traces without an analysis, as a record's, are analysed first, into the results folder.
    """
    evidence = _complete_analyses(evidence)
    figures = inside(out, FIGURES_FOLDER)
    drawn = draw_figures(evidence, figures)
    write_report(evidence, out / MARKDOWN_FILE)
    render_html(compose_document(evidence, _load_pictures(drawn, figures), _make_timeline(evidence)), out / PAGE_FILE)


def _load_pictures(drawn: FigureIndex, folder: Path) -> dict[str, Picture]:
    """Return the figures that were drawn, with their captions, which are the workflow's, too."""
    pictures = {}
    for entry in drawn.figures:
        if not entry.missing:
            caption = (CAPTIONS_FOLDER / f"{entry.name}.rst").read_text(encoding="utf-8").strip()
            recorded = " and ".join(find_profiler(name).title for name in entry.profilers)
            caption = f"{caption} Recorded by {recorded}." if recorded else caption
            pictures[entry.name] = load_picture(entry.title, caption, folder / f"{entry.name}.svg")
    return pictures


def _make_timeline(evidence: Evidence) -> Markup | None:
    """Return the timeline of the variants that the main ratio is of; None where no run was profiled."""
    variants = find_timeline_variants(evidence)
    return Markup(render_timeline(variants), instead="") if variants else None


def _complete_analyses(evidence: Evidence) -> Evidence:
    lacking = [
        run
        for run in evidence.results.runs
        if run.run.profiler != "none" and (run.summary is None or (run.run.ranks > 1 and run.ranks is None))
    ]
    if not lacking:
        return evidence
    _analyze_runs(lacking)
    completed = read_analyses(evidence.results)
    write_differences(completed)
    return Evidence(completed, read_current_comparison(completed.folder))  # which may be of other analyses


def _analyze_runs(runs: list[MeasuredRun]) -> None:
    with report_progress("analysing", len(runs), "traced runs", after_s=SOON_S) as advance:
        for run in runs:
            folder = inside(run.results, Path(ANALYSIS_FOLDER, run.experiment, run.name))
            ended_ns = run.run.observed.epochs_ended_unix_ns if run.run.observed else []
            overhang = {"gpu_overhang_s": measure_overhang(run.trace, ended_ns)}
            write_summary(analyze_trace(run.trace, may_be_empty=True).model_copy(update=overhang), folder)
            if run.run.ranks > 1:
                write_ranks_summary(summarize_ranks(run.traces), folder)
            advance(1)
