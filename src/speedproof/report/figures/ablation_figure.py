"""What each technique gains: the ablation's stages, one below the other."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.comparison import Stage
from speedproof.stats.finding import State, judge_row
from speedproof.util.numbers import format_range, format_ratio

_BAR_HEIGHT = 0.6

_INCONCLUSIVE, _EQUIVALENT, _FEW, _WITHHELD = "inconclusive", "equivalent", "no verdict", "withheld: worse quality"
_COLOURS = {
    "faster": style.FASTER,
    "slower": style.SLOWER,
    _INCONCLUSIVE: style.GREY,
    _EQUIVALENT: style.EQUIVALENT,
    _WITHHELD: style.WITHHELD,
}
_LABELS = {
    State.FASTER: "faster",
    State.SLOWER: "slower",
    State.EQUIVALENT: _EQUIVALENT,
    State.TOO_FEW: _FEW,
    State.ONE_PAIR: _FEW,
    State.WORSE_QUALITY: _WITHHELD,
}


@dataclass(frozen=True)
class _Step:
    """One stage in all experiments that measured it, with the median of their levels."""

    stages: list[Stage]

    @property
    def level(self) -> float:
        return median(stage.level for stage in self.stages)

    @property
    def gains(self) -> list[float]:
        return [stage.centre for stage in self.stages if stage.centre is not None]

    @property
    def outcome(self) -> str:
        """Return what all experiments find; inconclusive if they differ."""
        found = {_LABELS.get(judge_row(stage), _INCONCLUSIVE) for stage in self.stages if stage.centre is not None}
        return found.pop() if len(found) == 1 else _INCONCLUSIVE

    @property
    def colour(self) -> str:
        """Return the outcome's colour; without a verdict the direction's, if all experiments have the same."""
        if self.outcome != _FEW:
            return _COLOURS[self.outcome]
        return style.FASTER if min(self.gains) > 1 else style.SLOWER if max(self.gains) < 1 else style.GREY

    def describe_gain(self) -> str:
        """Return the gain with its interval; over several experiments, which are not averaged, the range of their gains."""
        if not self.gains:
            return "not comparable"
        if len(self.stages) > 1:
            return format_range(min(self.gains), max(self.gains), "×")
        (stage,) = self.stages
        ratio, interval = format_ratio(stage.centre, stage.low, stage.high)
        return ratio if stage.low is None else f"{ratio} ({interval})"


def draw_ablation(evidence: Evidence) -> Figure:
    """Draw each stage's time as a bar from the stage before it, on a scale on which equal factors have equal lengths."""
    steps = _merge_experiments(evidence.comparison.ablation)
    title = evidence.comparison.title_of(evidence.comparison.ablation[0].metric)
    figure = style.new_figure(1.7 + 0.3 * len(steps))
    axes = figure.subplots()
    for row, (before, step) in enumerate(pairwise(steps), start=1):
        axes.plot([before.level] * 2, [row - 1, row], color=style.INK, linewidth=0.6, zorder=0.9)
        style.write_beside(axes, row, step.describe_gain())
    _draw_bars(axes, steps)
    levels = pd.DataFrame(
        [(row, stage.level) for row, step in enumerate(steps) for stage in step.stages], columns=["row", "seconds"]
    )
    look: Any = {"marker": "|", "size": 11, "linewidth": 1.2, "color": style.INK, "jitter": False}
    seaborn.stripplot(levels, x="seconds", y="row", order=range(len(steps)), orient="y", ax=axes, **look)
    style.scale_seconds(axes, levels["seconds"].tolist(), log=True)
    style.label_rows(axes, [style.name_variant(step.stages[0].title) for step in steps], room=0.6)
    several = max(len(step.stages) for step in steps) > 1
    axes.set_xlabel(f"seconds per {title}" + ("; a tick is an experiment" if several else ""))
    style.write_beside(axes, -1, "gain by experiment" if several else "gain, 95 % interval", color=style.FOOT_COLOUR)
    style.draw_keys(figure, _list_keys(steps[1:]))
    return figure


def _merge_experiments(stages: list[Stage]) -> list[_Step]:
    """Return each variant's stages of all experiments, in the ablation's order."""
    merged: dict[str, list[Stage]] = {}
    for stage in stages:
        merged.setdefault(stage.variant, []).append(stage)
    return [_Step(found) for found in merged.values()]


def _draw_bars(axes: Axes, steps: list[_Step]) -> None:
    """Draw a bar from each stage's level to the level of the stage before it."""
    bars = pd.DataFrame(
        [(row, *sorted((before.level, step.level))) for row, (before, step) in enumerate(pairwise(steps), start=1)],
        columns=["row", "low", "high"],
    )
    bars["length"] = bars["high"] - bars["low"]
    place: Any = {"x": "length", "y": "row", "order": range(len(steps)), "orient": "y", "errorbar": None, "ax": axes}
    looks = [(step.colour, step.outcome == _FEW) for step in steps[1:]]
    for colour, is_open in dict.fromkeys(looks):
        alike = bars[[look == (colour, is_open) for look in looks]]
        seaborn.barplot(alike, left=alike["low"], width=_BAR_HEIGHT, color=colour, **place, **_look(colour, is_open))


def _look(colour: str, is_open: bool) -> dict[str, Any]:
    """Return a bar's look: filled, or open if it has no verdict."""
    return {"facecolor": "white" if is_open else colour, "edgecolor": colour, "linewidth": 1.4}


def _list_keys(steps: list[_Step]) -> list[Patch]:
    found = {step.outcome for step in steps}
    keys = [Patch(label=label, **_look(colour, is_open=False)) for label, colour in _COLOURS.items() if label in found]
    if _FEW in found:
        undecided = {step.colour for step in steps if step.outcome == _FEW}
        names = {style.FASTER: "faster", style.SLOWER: "slower", style.GREY: "mixed"}
        keys += [
            Patch(label=f"{name}, {_FEW}", **_look(colour, is_open=True))
            for colour, name in names.items()
            if colour in undecided
        ]
    return keys
