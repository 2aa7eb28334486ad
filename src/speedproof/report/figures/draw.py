"""All figures of a results folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from speedproof.report.figures import figure_data
from speedproof.report.figures.figure_data import FIGURES, FIGURES_FILE, FigureEntry, FigureIndex, FigureKind
from speedproof.results.files import write_json
from speedproof.util.progress_bar import SOON_S, report_progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Earlier versions drew these: in their results folders nothing else would remove them.
_RETIRED = ("phases", "utilisation", "kernels", "roofline")


def draw_figures(results: figure_data.Evidence | Path, out: Path) -> FigureIndex:
    """Draw what the evidence in `results` (with its `comparison.json`) allows, as SVG and PNG, into the folder `out`.

    `figures.json`, written last, lists the figures and says why one is missing. Files of a figure that is no longer drawn
    are removed, so that the folder never shows an older measurement.
    """
    evidence = results if isinstance(results, figure_data.Evidence) else figure_data.read_evidence(results)
    (out / FIGURES_FILE).unlink(missing_ok=True)
    for name in _RETIRED:
        _remove_figure(out, name)
    entries = []
    with report_progress("drawing", len(FIGURES), "figures", after_s=SOON_S) as advance:
        for kind in FIGURES:
            entries.append(_draw_figure(kind, evidence, out))
            advance(1)
    index = FigureIndex(figures=entries)
    write_json(out / FIGURES_FILE, index)
    return index


def _draw_figure(kind: FigureKind, evidence: figure_data.Evidence, out: Path) -> FigureEntry:
    missing = kind.lacks(evidence)
    if missing is None:
        from speedproof.report.figures import style

        with style.figure_style():
            figure = compose_figure(kind.name, evidence)
            style.write_foot(figure, figure_data.read_origin(evidence))
            style.save_figure(figure, out, kind.name)
    else:
        _remove_figure(out, kind.name)
    traced = kind.lacks is figure_data.lacks_traces
    profilers = sorted({summary.profiler for _, summary in evidence.traces.values()}) if traced else []
    return FigureEntry(name=kind.name, title=kind.title, missing=missing, profilers=profilers)


def compose_figure(name: str, evidence: figure_data.Evidence) -> "Figure":
    """Return a figure that the evidence allows, without its foot."""
    # seaborn and matplotlib take a second to load: only if something is drawn.
    from speedproof.report.figures.ablation_figure import draw_ablation
    from speedproof.report.figures.convergence_figure import draw_convergence
    from speedproof.report.figures.epochs_figure import draw_epoch_times
    from speedproof.report.figures.timeline_figure import draw_timeline

    drawn_by = {
        "epoch_times": draw_epoch_times,
        "ablation": draw_ablation,
        "timeline": draw_timeline,
        "convergence": draw_convergence,
    }
    return drawn_by[name](evidence)


def _remove_figure(out: Path, name: str) -> None:
    for suffix in (".svg", ".png"):
        (out / f"{name}{suffix}").unlink(missing_ok=True)
