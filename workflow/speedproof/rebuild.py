"""Everything to the right of `blocks/`, made from it again: on a laptop, from a copy, with the same bytes."""

from pathlib import Path

from speedproof.analysis.comparison import compare_blocks, write_comparison
from speedproof.analysis.difference import write_differences
from speedproof.analysis.ranks import summarize_ranks, write_ranks_summary
from speedproof.analysis.summarize import analyze_trace, write_summary
from speedproof.records.comparison import Comparison
from speedproof.records.names import inside
from speedproof.records.results import ANALYSIS_FOLDER, read_results
from speedproof.report.figures.draw import draw_figures
from speedproof.report.html import render_html
from speedproof.report.markdown import write_report

FIGURES_FOLDER, REPORT_FILE, PAGE_FILE = "figures", "report.md", "report.html"


def rebuild_results(results: Path, claims: Path) -> None:
    """Analyse every trace, compare the blocks and write the report, as the workflow does; see there for what can fail."""
    for run in read_results(results, summaries=False).runs:  # an older version's would not be readable
        if run.run.profiler != "none":
            folder = inside(results, Path(ANALYSIS_FOLDER, run.block, run.name))
            write_summary(analyze_trace(run.trace), folder)
            if run.run.ranks > 1:
                write_ranks_summary(summarize_ranks(run.traces), folder)
    compare_results(results, claims)
    rebuild_report(results, results)


def compare_results(results: Path, claims: Path) -> Comparison:
    """Account for the differences between the traces, compare the blocks, judge every claim; write all of it and return it."""
    write_differences(read_results(results))
    comparison = compare_blocks(results, claims)
    write_comparison(comparison, results)
    return comparison


def rebuild_report(results: Path, out: Path) -> None:
    """Draw the figures and write `report.md` and `report.html` into `out`."""
    figures = inside(out, FIGURES_FOLDER)
    draw_figures(results, figures)
    write_report(results, out / REPORT_FILE, figures)
    render_html(out / REPORT_FILE, out / PAGE_FILE)
