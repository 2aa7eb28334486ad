"""All figures of a results folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from speedproof.report.figures.ablation_figure import draw_ladder
from speedproof.report.figures.convergence import draw_convergence
from speedproof.report.figures.epochs_figure import draw_epoch_times
from speedproof.report.figures.figure_data import (
    Evidence,
    lacks_gpu_traces,
    lacks_ladder,
    lacks_rates,
    lacks_timed_runs,
    lacks_traces,
    lacks_validation,
    read_evidence,
)
from speedproof.report.figures.figure_index import FIGURES_FILE, FigureEntry, FigureIndex
from speedproof.report.figures.kernels_figure import draw_kernels
from speedproof.report.figures.phases_figure import draw_phases
from speedproof.report.figures.roofline_figure import draw_roofline
from speedproof.report.figures.style import figure_style, save_figure
from speedproof.report.figures.timeline_figure import draw_timeline
from speedproof.report.figures.utilisation import draw_utilisation
from speedproof.results.files import write_json
from speedproof.util.progress_bar import SOON_S, report_progress


@dataclass(frozen=True)
class FigureKind:
    """A figure that a report may have. Its caption stands in `workflow/report/<name>.rst`."""

    name: str
    title: str
    draw: Callable[[Evidence], Figure]
    lacks: Callable[[Evidence], str | None]

    @property
    def shows_traces(self) -> bool:
        """Return whether the figure is drawn from profiled runs."""
        return self.lacks in (lacks_traces, lacks_gpu_traces)


FIGURES = (
    FigureKind("epoch_times", "Epoch times", draw_epoch_times, lacks_timed_runs),
    FigureKind("ladder", "The ladder", draw_ladder, lacks_ladder),
    FigureKind("timeline", "Timeline", draw_timeline, lacks_traces),
    FigureKind("phases", "Where the time goes", draw_phases, lacks_traces),
    FigureKind("utilisation", "GPU utilisation", draw_utilisation, lacks_gpu_traces),
    FigureKind("kernels", "Kernels", draw_kernels, lacks_gpu_traces),
    FigureKind("roofline", "How near to the machine's limit", draw_roofline, lacks_rates),
    FigureKind("convergence", "Convergence", draw_convergence, lacks_validation),
)


def draw_figures(results: Path, out: Path) -> FigureIndex:
    """Draw what the evidence in `results` (with its `comparison.json`) allows, as SVG and PNG, into the folder `out`.

    `figures.json`, written last, lists the figures and says why one is missing. Files of a figure that is no longer drawn
    are removed, so that the folder never shows an older measurement.
    """
    evidence = read_evidence(results)
    (out / FIGURES_FILE).unlink(missing_ok=True)
    entries = []
    with report_progress("drawing", len(FIGURES), "figures", after_s=SOON_S) as advance:
        for kind in FIGURES:
            entries.append(_draw_figure(kind, evidence, out))
            advance(1)
    index = FigureIndex(figures=entries)
    write_json(out / FIGURES_FILE, index)
    return index


def _draw_figure(kind: FigureKind, evidence: Evidence, out: Path) -> FigureEntry:
    missing = kind.lacks(evidence)
    if missing is None:
        with figure_style():
            save_figure(kind.draw(evidence), out, kind.name)
    else:
        for suffix in (".svg", ".png"):
            (out / f"{kind.name}{suffix}").unlink(missing_ok=True)
    profilers = sorted({summary.profiler for _, summary in evidence.traces.values()}) if kind.shows_traces else []
    return FigureEntry(name=kind.name, title=kind.title, missing=missing, profilers=profilers)
