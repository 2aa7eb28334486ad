"""How busy the GPU is over time, by the trace and by NVML."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from speedproof.report.figures.figure_data import Evidence
from speedproof.report.figures.style import name_side, new_figure, side_colours
from speedproof.report.figures.tracks import Tracks
from speedproof.results.folder import MeasuredRun
from speedproof.results.summary import Summary
from speedproof.stats.metrics import gpu_busy_fraction
from speedproof.util.numbers import format_value
from speedproof.util.units import NS_PER_S

_BINS = 200
_FEWEST_SAMPLES = 20  # of NVML; a line through fewer says nothing of when the GPU was busy


def draw_utilisation(evidence: Evidence) -> Figure:
    """Draw the share of time in which the GPU was busy, from the trace, with NVML's own number as a thin line."""
    traces = {variant: pair for variant, pair in evidence.traces.items() if pair[1].has_gpu}
    colours = side_colours(evidence.results.variants)
    figure = new_figure(0.9 + 1.35 * len(traces))
    rows = figure.subplots(len(traces), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (variant, (run, summary)) in zip(rows, traces.items(), strict=True):
        _draw_side(axes, run, summary, colours[variant])
    rows[-1].set_xlabel(f"seconds since the first {evidence.unit} began")
    rows[-1].set_xlim(0, max(_length_s(summary) for _, summary in traces.values()))
    return figure


def _draw_side(axes: Axes, run: MeasuredRun, summary: Summary, colour: str) -> None:
    tracks = Tracks(run.trace, summary.epochs[0].start_ns)
    edges_s = np.linspace(0, _length_s(summary), _BINS + 1)
    axes.stairs(100 * tracks.gpu_shares(edges_s), edges_s, fill=True, color=colour, alpha=0.55, label="trace")
    samples = run.gpu_samples[0]
    # A sample's time counts from the start of the process; the first epoch began when the start-up was over.
    times_s = samples["time_s"] - run.run.start_up_s
    shown = (times_s >= 0) & (times_s <= edges_s[-1])
    if shown.sum() >= _FEWEST_SAMPLES:
        axes.plot(times_s[shown], samples["gpu_busy_percent"][shown], color="black", linewidth=0.8, label="NVML")
    mean = format_value(gpu_busy_fraction(summary), "%")
    axes.set(ylim=(0, 100), yticks=[0, 50, 100], ylabel="GPU busy, %", title=f"{name_side(run.title)}: {mean} by the trace")
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=2)


def _length_s(summary: Summary) -> float:
    return (summary.epochs[-1].end_ns - summary.epochs[0].start_ns) / NS_PER_S
