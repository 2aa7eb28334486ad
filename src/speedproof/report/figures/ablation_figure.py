"""What each technique gains: the ablation's stages, one below the other."""

from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from speedproof.report.figures.figure_data import Evidence
from speedproof.report.figures.style import FASTER, GREY, PALE, SLOWER, WITHHELD, name_variant, new_figure
from speedproof.report.scope import name_place
from speedproof.results.comparison import Stage
from speedproof.util.numbers import format_ratio

_BAR_HEIGHT = 0.55
_ROOM = 0.4  # behind the longest bar, for its numbers: of the bars' own length


def draw_ablation(evidence: Evidence) -> Figure:
    """Draw each stage's time as a bar from the stage before it, on a scale on which equal factors have equal lengths."""
    stages = evidence.comparison.ablation
    figure = new_figure(1.3 + 0.36 * len(stages))
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.plot(stages[0].level, 0, "|", markersize=16, markeredgewidth=2, color="black")
    for row, (before, stage) in enumerate(pairwise(stages), start=1):
        if stage.experiment == before.experiment:
            _draw_stage(axes, row, before, stage)
        else:  # another experiment's ablation begins
            axes.plot(stage.level, row, "|", markersize=16, markeredgewidth=2, color="black")
    levels = [stage.level for stage in stages]
    # Each bar's numbers stand behind it, each stage's quality in the margin.
    axes.set_xlim(0.7 * min(levels), max(levels) * (max(levels) / min(levels)) ** _ROOM)
    quality = evidence.comparison.quality
    for row, stage in enumerate(stages):
        _note(axes, f"{quality.title} {quality.format(stage.best_quality)}", (1, row), ("axes fraction", "data"))
    axes.set_ylim(len(stages) - 0.4, -0.6)
    axes.set_yticks(range(len(stages)), [name_place(name_variant(stage.title), stage, evidence.comparison) for stage in stages])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else ""))
    axes.set_xlabel(f"seconds a {evidence.comparison.title_of(stages[0].metric)} (each factor with its 95 % interval)")
    axes.grid(axis="x", which="both")
    axes.set_axisbelow(True)
    found = {_judge(stage) for before, stage in pairwise(stages) if stage.experiment == before.experiment}
    keys = [Patch(facecolor=colour, label=label) for label, colour in _COLOURS.items() if label in found or label not in _RARE]
    axes.legend(handles=keys, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(keys))
    return figure


_SINGLE = "one pair: no interval"
_FEW = "too few pairs for a verdict"
_EQUIVALENT = "equivalent"
_WITHHELD = "withheld: a worse quality"
_COLOURS = {
    "faster": FASTER,
    "slower": SLOWER,
    "inconclusive": GREY,
    _EQUIVALENT: GREY,
    _SINGLE: PALE,
    _FEW: PALE,
    _WITHHELD: WITHHELD,
}
_RARE = {_EQUIVALENT, _SINGLE, _FEW, _WITHHELD}  # have a key only if a stage is so


def _draw_stage(axes: Axes, row: int, before: Stage, stage: Stage) -> None:
    left, right = sorted((before.level, stage.level))
    axes.barh(row, right - left, _BAR_HEIGHT, left=left, color=_COLOURS[_judge(stage)])
    axes.plot([before.level] * 2, [row - 1, row + _BAR_HEIGHT / 2], color="black", linewidth=0.6)
    axes.plot(stage.level, row, "|", markersize=14, markeredgewidth=1.6, color="black")
    label = "  ".join(format_ratio(stage.centre, stage.low, stage.high)) if stage.centre else "not comparable"
    _note(axes, label, (right, row), "data")


def _note(axes: Axes, text: str, place: tuple[float, float], coordinates: str | tuple[str, str]) -> None:
    axes.annotate(text, place, (7, 0), xycoords=coordinates, textcoords="offset points", va="center", fontsize=8)


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
