"""How long an epoch of each variant takes."""

from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.scope import name_place
from speedproof.results.comparison import Measured, NoiseFloor
from speedproof.stats.metrics import TRAINING_EPOCH, VALIDATED_EPOCH
from speedproof.util.numbers import format_value

_BAR_HEIGHT = 0.5
_VALIDATION: Any = {"alpha": 0.35, "hatch": "///"}
_TITLE_WIDTH = 34  # characters of a line; a longer title would leave the bars no room


def draw_epoch_times(evidence: Evidence) -> Figure:
    """Draw the training epoch of each variant, the validation that every few epochs adds to it, and every run.

    Experiments that are not merged have a bar each. The noise floor, if a control ran, is a band
    around the variant that was run against itself.
    """
    comparison = evidence.comparison
    levels = {(m.variant, m.metric, m.experiment): m for m in comparison.measured if m.mode == "timed"}
    measured = [
        (levels[variant, TRAINING_EPOCH, experiment], levels.get((variant, VALIDATED_EPOCH, experiment)))
        for variant in evidence.results.variants
        for name, metric, experiment in levels
        if (name, metric) == (variant, TRAINING_EPOCH)
    ]
    colours = style.variant_colours(evidence.results.variants)
    figure = style.new_figure(1.1 + 0.75 * len(measured))
    axes = figure.subplots()
    for row, (training, whole) in enumerate(measured):
        _draw_variant(axes, row, colours[training.variant], training, whole)
    keys = [
        Patch(facecolor=style.GREY, label="training"),
        Patch(facecolor=style.GREY, alpha=0.35, hatch="///", label="validation"),
    ]
    rows = {(training.variant, training.experiment): row for row, (training, _) in enumerate(measured)}
    for noise in comparison.noise_floor:
        if noise.metric == TRAINING_EPOCH and (noise.variant, noise.experiment) in rows:
            row = rows[noise.variant, noise.experiment]
            keys.append(_draw_noise(axes, row, noise, measured[row][0]))
    titles = [name_place(style.name_variant(training.title), training, comparison) for training, _ in measured]
    style.label_rows(axes, [fill(title, _TITLE_WIDTH) for title in titles], room=0.55)
    axes.set_xlim(0, 1.03 * axes.dataLim.x1)
    axes.set_xlabel("seconds per epoch (geometric mean over runs; each dot is one run)")
    style.draw_legend_above(axes, handles=list({key.get_label(): key for key in keys}.values()), ncols=3)
    return figure


def _draw_noise(axes: Axes, row: int, noise: NoiseFloor, training: Measured) -> Patch:
    """Draw the noise floor as a band behind a variant's bar, and return its key."""
    low, high = training.centre / (1 + noise.largest), training.centre * (1 + noise.largest)
    axes.barh(row, high - low, 0.95, left=low, color=style.PALE, zorder=0)
    return Patch(facecolor=style.PALE, label=f"noise floor: {style.name_variant(noise.title)} against itself")


def _draw_variant(axes: Axes, row: int, colour: str, training: Measured, whole: Measured | None) -> None:
    """Draw a variant's bar; its numbers are in the margin, away from the dots."""
    axes.barh(row, training.centre, _BAR_HEIGHT, color=colour)
    _draw_runs(axes, row, training)
    text = format_value(training.centre, "s")
    if whole is not None:
        added = whole.centre - training.centre
        axes.barh(row, added, _BAR_HEIGHT, left=training.centre, color=colour, edgecolor="white", **_VALIDATION)
        _draw_runs(axes, row, whole)
        text = f"{text}\nwith validation {format_value(whole.centre, 's')}"
    style.annotate(axes, text, (1, row), (8, 0), xycoords=("axes fraction", "data"), va="center", weight="bold", fontsize=9)


def _draw_runs(axes: Axes, row: int, measured: Measured) -> None:
    """Draw each run as a dot, spread over the bar's height so that equal ones stay apart."""
    count = len(measured.values)
    rows = [row + 0.6 * _BAR_HEIGHT * ((number + 0.5) / count - 0.5) for number in range(count)]
    axes.plot(measured.values, rows, "o", markersize=4, color="black", markeredgecolor="white", markeredgewidth=0.6)
