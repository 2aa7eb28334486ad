"""How long an epoch of each variant takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.comparison import Comparison, Measured
from speedproof.stats.metrics import TRAINING_EPOCH, VALIDATED_EPOCH
from speedproof.util.numbers import format_range, format_value

_SPREAD = 0.22  # of a row: how far apart runs of equal length are drawn
_METRICS = {TRAINING_EPOCH: "training epoch", VALIDATED_EPOCH: "with validation"}
_OFFSETS = {TRAINING_EPOCH: -0.2, VALIDATED_EPOCH: 0.2}  # of a row, from its middle


@dataclass(frozen=True)
class _Row:
    """One variant's epochs: of each metric its levels, one per experiment unless they are merged."""

    title: str
    levels: dict[str, list[Measured]]


def draw_epoch_times(evidence: Evidence) -> Figure:
    """Draw each variant's runs as dots: training epochs filled, epochs with validation open; their means are ticks.

    Experiments share a row. The noise floor, if a control ran, is a band around the variant that was run against itself.
    """
    comparison = evidence.comparison
    rows = [
        _Row(style.name_variant(title), levels)
        for variant, title in evidence.results.variants.items()
        if (levels := _list_levels(comparison, variant))[TRAINING_EPOCH]
    ]
    figure = style.new_figure(1.6 + 0.62 * len(rows))
    axes = figure.subplots()
    every = [value for row in rows for own in row.levels.values() for level in own for value in level.values]
    style.scale_seconds(axes, every)
    colours = style.variant_colours(range(len(rows)))
    for number, row in enumerate(rows):
        for metric, own in row.levels.items():
            _draw_levels(axes, number, metric, own, colours[number])
    style.label_rows(axes, [row.title for row in rows], room=0.55)
    axes.set_xlabel("seconds per epoch; a dot is a run, a tick the mean")
    keys: list[Line2D | Patch] = [
        Line2D([], [], linestyle="", color=style.GREY, label=label, **_look(metric, style.GREY))
        for metric, label in _METRICS.items()
        if any(row.levels[metric] for row in rows)
    ]
    if _draw_noise(axes, comparison, list(evidence.results.variants)):
        keys.append(Patch(facecolor=style.PALE, label="noise floor"))
    style.draw_keys(figure, keys)
    return figure


def _list_levels(comparison: Comparison, variant: str) -> dict[str, list[Measured]]:
    timed = [level for level in comparison.measured if (level.variant, level.mode) == (variant, "timed")]
    return {metric: [level for level in timed if level.metric == metric] for metric in _METRICS}


def _look(metric: str, colour: str) -> dict[str, Any]:
    face = colour if metric == TRAINING_EPOCH else "white"
    return {"marker": "o", "markersize": 6, "markerfacecolor": face, "markeredgecolor": colour, "markeredgewidth": 1.3}


def _draw_levels(axes: Axes, row: int, metric: str, levels: Sequence[Measured], colour: str) -> None:
    """Draw the runs of a row and the mean of each experiment; the numbers are in the margin, away from the dots."""
    if not levels:
        return
    middle, values = row + _OFFSETS[metric], [value for level in levels for value in level.values]
    places = [middle + _SPREAD * ((number + 0.5) / len(values) - 0.5) for number in range(len(values))]
    axes.plot(values, places, linestyle="", **_look(metric, colour))
    centres = [level.centre for level in levels]
    axes.vlines(centres, middle - 0.18, middle + 0.18, colors="black", linewidth=1.4, zorder=3)
    text = format_value(centres[0], "s") if len(centres) == 1 else format_range(min(centres), max(centres), "s")
    style.write_beside(axes, middle, text, weight="bold" if metric == TRAINING_EPOCH else "normal")


def _draw_noise(axes: Axes, comparison: Comparison, variants: list[str]) -> bool:
    """Draw the noise floor of training epochs as a band behind a variant's dots, and return whether there is one."""
    found = [noise for noise in comparison.noise_floor if noise.metric == TRAINING_EPOCH and noise.variant in variants]
    for noise in found:
        levels = _list_levels(comparison, noise.variant)[TRAINING_EPOCH]
        for level in levels:
            if level.experiment == noise.experiment:
                low, high = level.centre / (1 + noise.largest), level.centre * (1 + noise.largest)
                row = variants.index(noise.variant) + _OFFSETS[TRAINING_EPOCH]
                axes.barh(row, high - low, 2 * _SPREAD, left=low, color=style.PALE, zorder=0)
    return bool(found)
