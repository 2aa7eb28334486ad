"""Which kernels the GPU spends its time in."""

from collections import Counter

from matplotlib.figure import Figure

from speedproof.report.figures.figure_data import Evidence
from speedproof.report.figures.style import name_side, new_figure, side_colours
from speedproof.results.summary import Summary, name_one
from speedproof.util.numbers import format_value

_SHOWN = 10
_OTHER = "all others"


def draw_kernels(evidence: Evidence) -> Figure:
    """Draw the time of the largest groups of kernels, in seconds an epoch or iteration, side beside side."""
    sides = {variant: kernel_groups(summary) for variant, (_, summary) in evidence.traces.items() if summary.has_gpu}
    groups = _largest_groups(list(sides.values()))
    colours = side_colours(evidence.results.variants)
    height = 0.8 / len(sides)
    figure = new_figure(1.0 + len(groups) * (0.16 + 0.17 * len(sides)))
    axes = figure.subplots()
    for number, (variant, seconds) in enumerate(sides.items()):
        others = sum(value for group, value in seconds.items() if group not in groups)
        values = [others if group == _OTHER else seconds[group] for group in groups]
        rows = [row + (number - (len(sides) - 1) / 2) * height for row in range(len(groups))]
        bars = axes.barh(
            rows, values, 0.92 * height, color=colours[variant], label=name_side(evidence.results.variants[variant])
        )
        axes.bar_label(bars, [format_value(value, "s") for value in values], padding=3, fontsize=8)
    axes.set_yticks(range(len(groups)), groups)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.set_xlabel(f"seconds of kernel time {name_one(evidence.unit)}")
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="lower right")
    return figure


def kernel_groups(summary: Summary) -> Counter[str]:
    """Return the kernel time of each group in seconds an epoch; kernels that overlap count each."""
    groups: Counter[str] = Counter()
    for kernel in summary.kernels:
        groups[kernel.group] += kernel.seconds_per_epoch  # type: ignore[assignment]
    return groups


def _largest_groups(sides: list[Counter[str]]) -> list[str]:
    """Return the groups that are largest on any side, and one name for the rest where there is one."""
    largest: Counter[str] = Counter()
    for side in sides:
        for group, seconds in side.items():
            largest[group] = max(largest[group], seconds)
    groups = [group for group, _ in largest.most_common(_SHOWN)]
    return groups if len(largest) <= _SHOWN else [*groups, _OTHER]
