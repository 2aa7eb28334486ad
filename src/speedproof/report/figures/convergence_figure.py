"""What quality each variant reaches, and when."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.comparison import Comparison
from speedproof.results.folder import MeasuredRun


def draw_convergence(evidence: Evidence) -> Figure:
    """Draw the quality of every timed run, over epochs and over the time since its process started."""
    variants, quality = evidence.results.variants, evidence.comparison.quality
    colours, markers = style.variant_colours(variants), style.variant_markers(variants)
    figure = style.new_figure(3.9)
    by_epoch, by_time = figure.subplots(1, 2, sharey=True)
    found: list[float] = []
    ends_s: list[float] = []
    keys = []
    for variant, title in variants.items():
        look: Any = {"color": colours[variant], "marker": markers[variant], "markersize": 5, "linewidth": 1.3, "alpha": 0.8}
        for run in evidence.results.select(variant, "timed"):
            epochs, seconds, values = _read_qualities(run)
            by_epoch.plot(epochs, values, **look)
            found += values
            if not run.run.continued:  # no single process covers the whole run
                by_time.plot(seconds, values, **look)
                ends_s += seconds
        keys.append(Line2D([], [], label=style.name_variant(title), **look))
    by_epoch.set(xlabel="epoch", ylabel=f"{quality.title}, {quality.unit}" if quality.unit else quality.title)
    by_epoch.set_xlim(left=0)
    by_epoch.xaxis.get_major_locator().set_params(integer=True)
    by_time.set_xlabel("seconds since the process started")
    style.scale_seconds(by_time, ends_s)
    keys += _draw_target(figure, evidence.comparison, found)
    for axes in (by_epoch, by_time):
        axes.grid()
    style.draw_keys(figure, keys)
    return figure


def _draw_target(figure: Figure, comparison: Comparison, found: list[float]) -> list[Line2D]:
    """Draw the highest target that any run reached, and return its key."""
    quality = comparison.quality
    best = max(found) if quality.better == "higher" else min(found)
    reached = [target for target in quality.targets if quality.reaches(best, target)][-1:]
    look: Any = {"color": style.GREY, "linewidth": 1.2, "linestyle": ":"}
    for axes in figure.axes:
        for target in reached:
            axes.axhline(target, **look)
    return [Line2D([], [], label=f"{quality.title} {target:g}", **look) for target in reached]


def _read_qualities(run: MeasuredRun) -> tuple[list[int], list[float], list[float]]:
    """Return the epochs that validated, the seconds from the start of the process to their ends, and their quality."""
    totals_s = run.epochs["train_s"] + run.epochs["validation_s"].fillna(0.0)
    ends_s = run.run.start_up_s + totals_s.cumsum()
    validated = run.epochs["quality"].notna()
    table = run.epochs[validated]
    return table["epoch"].tolist(), ends_s[validated].tolist(), table["quality"].tolist()
