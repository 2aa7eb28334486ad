"""How long an epoch of each variant takes."""

from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from speedproof.report.figures.figure_data import Evidence
from speedproof.report.figures.style import GREY, PALE, name_variant, new_figure, variant_colours
from speedproof.report.scope import name_place
from speedproof.results.comparison import Measured, NoiseFloor
from speedproof.stats.metrics import TRAINING_EPOCH, VALIDATED_EPOCH
from speedproof.util.numbers import format_value

_BAR_HEIGHT = 0.5
_TITLE_WIDTH = 34  # characters of a line; a longer title would leave the bars no room


def draw_epoch_times(evidence: Evidence) -> Figure:
    """Draw the training epoch of each variant, the validation that every few epochs adds to it, and every run.

    Experiments that speak for themselves have a bar each.

    The noise floor, where a control ran, is a band around the variant that was run against itself.
    """
    levels = {(m.variant, m.metric, m.experiment): m for m in evidence.comparison.measured if m.mode == "timed"}
    bars = [
        (variant, experiment)
        for variant in evidence.results.variants
        for name, metric, experiment in levels
        if (name, metric) == (variant, TRAINING_EPOCH)
    ]
    colours = variant_colours(evidence.results.variants)
    figure = new_figure(1.1 + 0.75 * len(bars))
    axes = figure.subplots()
    variants = [
        (levels[name, TRAINING_EPOCH, experiment], levels.get((name, VALIDATED_EPOCH, experiment))) for name, experiment in bars
    ]
    for row, ((variant, _), (training, whole)) in enumerate(zip(bars, variants, strict=True)):
        _draw_variant(axes, row, colours[variant], training, whole)
    keys = [Patch(facecolor=GREY, label="training"), Patch(facecolor=GREY, alpha=0.35, hatch="///", label="validation")]
    keys += [
        _draw_noise(
            axes, bars.index((noise.variant, noise.experiment)), noise, levels[noise.variant, noise.metric, noise.experiment]
        )
        for noise in evidence.comparison.noise_floor
        if noise.metric == TRAINING_EPOCH and (noise.variant, noise.experiment) in bars
    ]
    keys = list({key.get_label(): key for key in keys}.values())
    titles = [name_place(name_variant(training.title), training, evidence.comparison) for training, _ in variants]
    axes.set_yticks(range(len(bars)), [fill(title, _TITLE_WIDTH) for title in titles])
    axes.set_ylim(len(bars) - 0.45, -0.55)
    axes.set_xlim(0, 1.03 * axes.dataLim.x1)
    axes.set_xlabel("seconds an epoch (geometric mean over runs; each dot is one run)")
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.legend(handles=keys, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    return figure


def _draw_noise(axes: Axes, row: int, noise: NoiseFloor, training: Measured) -> Patch:
    """Draw what a variant differs from itself as a band behind its bar, and return its key."""
    low, high = training.centre / (1 + noise.largest), training.centre * (1 + noise.largest)
    axes.barh(row, high - low, 0.95, left=low, color=PALE, zorder=0)
    return Patch(facecolor=PALE, label=f"noise floor: {name_variant(noise.title)} against itself")


def _draw_variant(axes: Axes, row: int, colour: str, training: Measured, whole: Measured | None) -> None:
    """Draw a variant's bar; its numbers stand in the margin, where they are no dot's."""
    axes.barh(row, training.centre, _BAR_HEIGHT, color=colour)
    _draw_runs(axes, row, training)
    text = format_value(training.centre, "s")
    if whole is not None:
        added = whole.centre - training.centre
        axes.barh(row, added, _BAR_HEIGHT, left=training.centre, color=colour, alpha=0.35, hatch="///", edgecolor="white")
        _draw_runs(axes, row, whole)
        text = f"{text}\nwith validation {format_value(whole.centre, 's')}"
    margin = ("axes fraction", "data")
    axes.annotate(text, (1, row), (8, 0), xycoords=margin, textcoords="offset points", va="center", weight="bold")


def _draw_runs(axes: Axes, row: int, measured: Measured) -> None:
    """Draw each run as a dot, spread over the bar's height so that equal ones stay apart."""
    count = len(measured.values)
    rows = [row + 0.6 * _BAR_HEIGHT * ((number + 0.5) / count - 0.5) for number in range(count)]
    axes.plot(measured.values, rows, "o", markersize=4, color="black", markeredgecolor="white", markeredgewidth=0.6)
