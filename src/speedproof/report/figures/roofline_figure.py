"""How far each side's training epoch lies below what its GPU could do."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from speedproof.report.figures.figure_data import Evidence
from speedproof.report.figures.style import GREY, name_side, new_figure, side_colours, side_markers
from speedproof.results.comparison import RooflinePoint
from speedproof.util.numbers import format_value

_TERA = 1e12


def draw_roofline(evidence: Evidence) -> Figure:
    """Draw arithmetic a second over arithmetic a byte, both logarithmic, below the roof of the measured rates."""
    points = [point for point in evidence.comparison.roofline if point.variant in evidence.results.variants]  # no rungs
    figure = new_figure(3.4)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    _draw_roof(axes, points)
    colours, markers = side_colours([point.variant for point in points]), side_markers([point.variant for point in points])
    for point in points:
        place = point.flop_per_epoch / point.bytes_per_epoch, point.flop_per_epoch / point.measured_s / _TERA
        label = f"{name_side(point.title)}: {format_value(point.share, '%')} of the bound"
        axes.plot(*place, markers[point.variant], color=colours[point.variant], markersize=7, label=label)
    axes.set_xlabel("FLOP for each byte that must be moved")
    axes.set_ylabel("TFLOP/s")
    slowest = min(point.flop_per_epoch / point.measured_s for point in points)
    axes.set_ylim(0.4 * slowest / _TERA, 2.5 * points[0].flop_per_s / _TERA)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(which="major")
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_roof(axes: Axes, points: list[RooflinePoint]) -> None:
    flop_per_s, bytes_per_s = points[0].flop_per_s, points[0].bytes_per_s
    intensities = [point.flop_per_epoch / point.bytes_per_epoch for point in points]
    ridge = flop_per_s / bytes_per_s
    across = np.geomspace(min([*intensities, ridge]) / 8, max([*intensities, ridge]) * 8, 200)
    axes.plot(across, np.minimum(across * bytes_per_s, flop_per_s) / _TERA, color="black", linewidth=1.4)
    roof = f"{flop_per_s / _TERA:.0f} TFLOP/s, {bytes_per_s / _TERA:.1f} TB/s measured"
    axes.annotate(roof, (across[-1], flop_per_s / _TERA), (0, 4), textcoords="offset points", ha="right", fontsize=8)
    for intensity in sorted(set(intensities)):
        axes.axvline(intensity, color=GREY, linewidth=0.8, linestyle=":")
