"""How long an epoch of each variant takes."""

from typing import Any

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.comparison import Comparison, Measured
from speedproof.stats.metrics import TRAINING_EPOCH, VALIDATED_EPOCH
from speedproof.util.numbers import format_range, format_value

_METRICS = {TRAINING_EPOCH: "training epoch", VALIDATED_EPOCH: "with validation"}
_COLOURS = {"training epoch": style.TRAINING, "with validation": style.VALIDATED}
_OFFSETS = {TRAINING_EPOCH: -0.2, VALIDATED_EPOCH: 0.2}  # of a row, from its middle, as seaborn dodges two hues


def draw_epoch_times(evidence: Evidence) -> Figure:
    """Draw each variant's runs as dots and their means as ticks, epochs with validation below training epochs.

    Experiments share a row. The noise floor, if a control ran, is a band around the variant that was run against itself.
    """
    timed = [level for level in evidence.comparison.measured if level.mode == "timed" and level.metric in _METRICS]
    trained = {level.variant for level in timed if level.metric == TRAINING_EPOCH}
    variants = [variant for variant in evidence.results.variants if variant in trained]
    levels = [level for level in timed if level.variant in trained]
    figure = style.new_figure(1.6 + 0.62 * len(variants))
    axes = figure.subplots()
    _draw_strips(axes, levels, variants)
    _write_means(axes, levels, variants)
    style.scale_seconds(axes, [value for level in levels for value in level.values])
    style.label_rows(axes, [style.name_variant(evidence.results.variants[variant]) for variant in variants], room=0.55)
    axes.set_xlabel("seconds per epoch; a dot is a run, a tick the mean")
    shown = {_METRICS[level.metric] for level in levels}
    keys = [key for key in style.take_keys(axes) if key.get_label() in shown]
    if _draw_noise(axes, levels, variants, evidence.comparison):
        keys.append(Patch(facecolor=style.PALE, label="noise floor"))
    style.draw_keys(figure, keys)
    return figure


def _draw_strips(axes: Axes, levels: list[Measured], variants: list[str]) -> None:
    look: Any = {"x": "seconds", "y": "row", "hue": "metric", "order": range(len(variants)), "hue_order": list(_COLOURS)}
    look |= {"orient": "y", "dodge": True, "jitter": False, "ax": axes}
    rows = [(variants.index(level.variant), _METRICS[level.metric], level) for level in levels]
    runs = [(row, metric, value) for row, metric, level in rows for value in level.values]
    means = [(row, metric, level.centre) for row, metric, level in rows]
    seaborn.stripplot(_tabulate(runs), palette=_COLOURS, size=7.5, edgecolor="white", linewidth=0.8, **look)
    ink = dict.fromkeys(_COLOURS, style.INK)
    seaborn.stripplot(_tabulate(means), palette=ink, marker="|", size=15, linewidth=1.4, legend=False, **look)


def _tabulate(rows: list[tuple[int, str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["row", "metric", "seconds"])


def _write_means(axes: Axes, levels: list[Measured], variants: list[str]) -> None:
    """Write the means in the margin, away from the dots; of several experiments their range."""
    centres: dict[tuple[str, str], list[float]] = {}
    for level in levels:
        centres.setdefault((level.variant, level.metric), []).append(level.centre)
    for (variant, metric), found in centres.items():
        text = format_value(found[0], "s") if len(found) == 1 else format_range(min(found), max(found), "s")
        row = variants.index(variant) + _OFFSETS[metric]
        style.write_beside(axes, row, text, weight="bold" if metric == TRAINING_EPOCH else "normal")


def _draw_noise(axes: Axes, levels: list[Measured], variants: list[str], comparison: Comparison) -> bool:
    """Draw the noise floor of training epochs as a band behind a variant's dots, and return whether there is one."""
    found = [noise for noise in comparison.noise_floor if noise.metric == TRAINING_EPOCH and noise.variant in variants]
    for noise in found:
        for level in levels:
            if (level.variant, level.metric, level.experiment) == (noise.variant, noise.metric, noise.experiment):
                low, high = level.centre / (1 + noise.largest), level.centre * (1 + noise.largest)
                row = variants.index(noise.variant) + _OFFSETS[TRAINING_EPOCH]
                axes.barh(row, high - low, 0.4, left=low, color=style.PALE, linewidth=0, zorder=0.5)
    return bool(found)
