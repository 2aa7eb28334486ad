"""What each technique gains: the ablation's stages, one below the other."""

from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.scope import name_place
from speedproof.results.comparison import Stage
from speedproof.util.numbers import format_ratio

_BAR_HEIGHT = 0.55
_ROOM = 0.4  # behind the longest bar, for its numbers: of the bars' own length


_SINGLE = "one pair: no interval"
_FEW = "too few pairs for a verdict"
_EQUIVALENT = "equivalent"
_WITHHELD = "withheld: worse quality"
_COLOURS = {
    "faster": style.FASTER,
    "slower": style.SLOWER,
    "inconclusive": style.GREY,
    _EQUIVALENT: style.GREY,
    _SINGLE: style.PALE,
    _FEW: style.PALE,
    _WITHHELD: style.WITHHELD,
}
_RARE = {_EQUIVALENT, _SINGLE, _FEW, _WITHHELD}  # have a key only if a stage has this outcome


def draw_ablation(evidence: Evidence) -> Figure:
    """Draw each stage's time as a bar from the stage before it, on a scale on which equal factors have equal lengths."""
    comparison, stages = evidence.comparison, evidence.comparison.ablation
    figure = style.new_figure(1.3 + 0.36 * len(stages))
    axes = figure.subplots()
    axes.set_xscale("log")
    steps = [None, *(before if stage.experiment == before.experiment else None for before, stage in pairwise(stages))]
    for row, (before, stage) in enumerate(zip(steps, stages, strict=True)):
        if before:
            _draw_stage(axes, row, before, stage)
        else:  # an experiment's ablation begins
            axes.plot(stage.level, row, "|", markersize=16, markeredgewidth=2, color="black")
    levels = [stage.level for stage in stages]
    # Each bar's numbers follow it; each stage's quality is in the margin.
    axes.set_xlim(0.7 * min(levels), max(levels) * (max(levels) / min(levels)) ** _ROOM)
    for row, stage in enumerate(stages):
        best = f"{comparison.quality.title} {comparison.quality.format(stage.best_quality)}"
        style.annotate(axes, best, (1, row), (7, 0), xycoords=("axes fraction", "data"), va="center")
    style.label_rows(axes, [name_place(style.name_variant(stage.title), stage, comparison) for stage in stages], room=0.6)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else ""))
    axes.set_xlabel(f"seconds per {comparison.title_of(stages[0].metric)} (each factor with its 95 % interval)")
    found = {_judge(stage) for before, stage in zip(steps, stages, strict=True) if before}
    keys = [Patch(facecolor=colour, label=label) for label, colour in _COLOURS.items() if label in found or label not in _RARE]
    style.draw_legend_above(axes, handles=keys, ncols=len(keys))
    return figure


def _draw_stage(axes: Axes, row: int, before: Stage, stage: Stage) -> None:
    left, right = sorted((before.level, stage.level))
    axes.barh(row, right - left, _BAR_HEIGHT, left=left, color=_COLOURS[_judge(stage)])
    axes.plot([before.level] * 2, [row - 1, row + _BAR_HEIGHT / 2], color="black", linewidth=0.6)
    axes.plot(stage.level, row, "|", markersize=14, markeredgewidth=1.6, color="black")
    label = "  ".join(format_ratio(stage.centre, stage.low, stage.high)) if stage.centre else "not comparable"
    style.annotate(axes, label, (right, row), (7, 0), va="center")


def _judge(stage: Stage) -> str:
    if stage.withheld:
        return _WITHHELD
    if stage.centre is not None and stage.low is None:
        return _SINGLE
    if stage.outcome == "no verdict":
        return _FEW
    if stage.outcome == "equivalent":
        return _EQUIVALENT
    if not stage.claimed or stage.centre is None:
        return "inconclusive"
    return "faster" if stage.centre > 1 else "slower"
