"""All figures of a results folder."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from speedproof.report.figures import figure_data, style
from speedproof.report.figures.ablation_figure import draw_ablation
from speedproof.report.figures.epochs_figure import draw_epoch_times
from speedproof.report.figures.figure_data import FIGURES_FILE, FigureEntry, FigureIndex
from speedproof.report.figures.phases_figure import draw_phases
from speedproof.report.figures.timeline_figure import Tracks, draw_timeline
from speedproof.results.comparison import RooflinePoint
from speedproof.results.files import write_json
from speedproof.results.folder import MeasuredRun
from speedproof.results.summary import Summary
from speedproof.stats.run_values import gpu_busy_fraction
from speedproof.util.numbers import format_value
from speedproof.util.progress_bar import SOON_S, report_progress
from speedproof.util.units import NS_PER_S

_BINS = 200
_FEWEST_SAMPLES = 20  # of NVML; a line through fewer says nothing of when the GPU was busy


def draw_utilisation(evidence: figure_data.Evidence) -> Figure:
    """Draw the share of time in which the GPU was busy, from the trace, with NVML's own number as a thin line."""
    traces = {variant: pair for variant, pair in evidence.traces.items() if pair[1].has_gpu}
    colours = style.variant_colours(evidence.results.variants)
    figure = style.new_figure(0.9 + 1.35 * len(traces))
    rows = figure.subplots(len(traces), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (variant, (run, summary)) in zip(rows, traces.items(), strict=True):
        _draw_variant(axes, run, summary, colours[variant])
    rows[-1].set_xlabel(f"seconds since the first {evidence.unit} began")
    rows[-1].set_xlim(0, max(_length_s(summary) for _, summary in traces.values()))
    return figure


def _draw_variant(axes: Axes, run: MeasuredRun, summary: Summary, colour: str) -> None:
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
    axes.set(
        ylim=(0, 100), yticks=[0, 50, 100], ylabel="GPU busy, %", title=f"{style.name_variant(run.title)}: {mean} in the trace"
    )
    axes.grid(axis="y")
    style.draw_legend_above(axes, 0.97, ncols=2)


def _length_s(summary: Summary) -> float:
    return (summary.epochs[-1].end_ns - summary.epochs[0].start_ns) / NS_PER_S


_TERA = 1e12


def draw_roofline(evidence: figure_data.Evidence) -> Figure:
    """Draw FLOP per second over FLOP per byte, both logarithmic, below the roof of the measured rates."""
    points = [point for point in evidence.comparison.roofline if point.variant in evidence.results.variants]  # no stages
    figure = style.new_figure(3.4)
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="FLOP per byte that must be moved", ylabel="TFLOP/s")
    _draw_roof(axes, points)
    names = [point.variant for point in points]
    colours, markers = style.variant_colours(names), style.variant_markers(names)
    for point in points:
        place = point.flop_per_epoch / point.bytes_per_epoch, point.flop_per_epoch / point.measured_s / _TERA
        label = f"{style.name_variant(point.title)}: {format_value(point.share, '%')} of the bound"
        axes.plot(*place, markers[point.variant], color=colours[point.variant], markersize=7, label=label)
    slowest = min(point.flop_per_epoch / point.measured_s for point in points)
    axes.set_ylim(0.4 * slowest / _TERA, 2.5 * points[0].flop_per_s / _TERA)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.grid()
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_roof(axes: Axes, points: list[RooflinePoint]) -> None:
    flop_per_s, bytes_per_s = points[0].flop_per_s, points[0].bytes_per_s
    intensities = [point.flop_per_epoch / point.bytes_per_epoch for point in points]
    ridge = flop_per_s / bytes_per_s
    across = np.geomspace(min([*intensities, ridge]) / 8, max([*intensities, ridge]) * 8, 200)
    axes.plot(across, np.minimum(across * bytes_per_s, flop_per_s) / _TERA, color="black", linewidth=1.4)
    roof = f"{flop_per_s / _TERA:.0f} TFLOP/s, {bytes_per_s / _TERA:.1f} TB/s measured"
    style.annotate(axes, roof, (across[-1], flop_per_s / _TERA), (0, 4), ha="right")
    for intensity in sorted(set(intensities)):
        axes.axvline(intensity, color=style.GREY, linewidth=0.8, linestyle=":")


_SHOWN = 10
_OTHER = "all others"


def draw_kernels(evidence: figure_data.Evidence) -> Figure:
    """Draw the time of the largest groups of kernels, in seconds per epoch or iteration, variant beside variant."""
    variants = {variant: kernel_groups(summary) for variant, (_, summary) in evidence.traces.items() if summary.has_gpu}
    groups = _largest_groups(list(variants.values()))
    colours = style.variant_colours(evidence.results.variants)
    height = 0.8 / len(variants)
    figure = style.new_figure(1.0 + len(groups) * (0.16 + 0.17 * len(variants)))
    axes = figure.subplots()
    for number, (variant, seconds) in enumerate(variants.items()):
        others = sum(value for group, value in seconds.items() if group not in groups)
        values = [others if group == _OTHER else seconds[group] for group in groups]
        rows = [row + (number - (len(variants) - 1) / 2) * height for row in range(len(groups))]
        title = style.name_variant(evidence.results.variants[variant])
        bars = axes.barh(rows, values, 0.92 * height, color=colours[variant], label=title)
        axes.bar_label(bars, [format_value(value, "s") for value in values], padding=3, fontsize=8)
    style.label_rows(axes, groups)
    axes.margins(x=0.12)
    axes.set_xlabel(f"seconds of kernel time per {evidence.unit}")
    axes.legend(loc="lower right")
    return figure


def kernel_groups(summary: Summary) -> Counter[str]:
    """Return the kernel time of each group in seconds per epoch; each of several overlapping kernels counts."""
    groups: Counter[str] = Counter()
    for kernel in summary.kernels:
        groups[kernel.group] += kernel.seconds_per_epoch  # type: ignore[assignment]
    return groups


def _largest_groups(variants: list[Counter[str]]) -> list[str]:
    """Return the groups that are largest on any variant, and one name for the rest, if any."""
    largest: Counter[str] = Counter()
    for variant in variants:
        largest |= variant
    groups = [group for group, _ in largest.most_common(_SHOWN)]
    return groups if len(largest) <= _SHOWN else [*groups, _OTHER]


def draw_convergence(evidence: figure_data.Evidence) -> Figure:
    """Draw the quality of every timed run over its epochs and over its wall-clock time, start-up included."""
    variants, quality = evidence.results.variants, evidence.comparison.quality
    colours, markers = style.variant_colours(variants), style.variant_markers(variants)
    figure = style.new_figure(2.9)
    by_epoch, by_time = figure.subplots(1, 2, sharey=True)
    for variant, title in variants.items():
        look = {"color": colours[variant], "marker": markers[variant], "markersize": 4, "linewidth": 1.1, "alpha": 0.8}
        for number, run in enumerate(evidence.results.select(variant, "timed")):
            epochs, seconds, values = _qualities_of(run)
            by_epoch.plot(epochs, values, label=style.name_variant(title) if number == 0 else None, **look)
            if not run.run.continued:  # no single process covers the whole run
                by_time.plot(seconds, values, **look)
    low, high = by_epoch.dataLim.y0, by_epoch.dataLim.y1
    label = f"{quality.title}, {quality.unit}" if quality.unit else quality.title
    by_epoch.set(xlabel="epoch", ylabel=label, title="over epochs")
    by_time.set(xlabel="seconds since the process started", title="over wall-clock time")
    if quality.within:
        middle = sum(quality.within) / 2
        by_epoch.set_ylim(middle if low > middle else quality.within[0], quality.within[1])
    by_epoch.xaxis.get_major_locator().set_params(integer=True)
    best = high if quality.better == "higher" else low
    reached = [target for target in quality.targets if quality.reaches(best, target)][-1:]
    for axes in (by_epoch, by_time):
        for target in reached:
            named = f"{quality.title} {target:g}" if axes is by_epoch else None
            axes.axhline(target, color=style.GREY, linewidth=1.0, linestyle=":", label=named)
        if axes.has_data():
            axes.set_xlim(0, 1.04 * axes.dataLim.x1)
        axes.grid()
    figure.legend(loc="outside lower center", ncols=min(4, len(variants) + len(reached)))
    return figure


def _qualities_of(run: MeasuredRun) -> tuple[list[int], list[float], list[float]]:
    """Return the epochs that validated, the seconds from the start of the process to their ends, and their quality."""
    totals_s = run.epochs["train_s"] + run.epochs["validation_s"].fillna(0.0)
    ends_s = run.run.start_up_s + totals_s.cumsum()
    validated = run.epochs["quality"].notna()
    table = run.epochs[validated]
    return table["epoch"].tolist(), ends_s[validated].tolist(), table["quality"].tolist()


@dataclass(frozen=True)
class FigureKind:
    """A figure that a report may have. Its caption stands in `workflow/report/<name>.rst`."""

    name: str
    title: str
    draw: Callable[[figure_data.Evidence], Figure]
    lacks: Callable[[figure_data.Evidence], str | None]

    @property
    def shows_traces(self) -> bool:
        """Return whether the figure is drawn from profiled runs."""
        return self.lacks in (figure_data.lacks_traces, figure_data.lacks_gpu_traces)


FIGURES = (
    FigureKind("epoch_times", "Epoch times", draw_epoch_times, figure_data.lacks_timed_runs),
    FigureKind("ablation", "Ablation", draw_ablation, figure_data.lacks_ablation),
    FigureKind("timeline", "Timeline", draw_timeline, figure_data.lacks_traces),
    FigureKind("phases", "Where the time goes", draw_phases, figure_data.lacks_traces),
    FigureKind("utilisation", "GPU utilisation", draw_utilisation, figure_data.lacks_gpu_traces),
    FigureKind("kernels", "Kernels", draw_kernels, figure_data.lacks_gpu_traces),
    FigureKind("roofline", "Distance to the hardware limit", draw_roofline, figure_data.lacks_rates),
    FigureKind("convergence", "Convergence", draw_convergence, figure_data.lacks_validation),
)


def draw_figures(results: figure_data.Evidence | Path, out: Path) -> FigureIndex:
    """Draw what the evidence in `results` (with its `comparison.json`) allows, as SVG and PNG, into the folder `out`.

    `figures.json`, written last, lists the figures and says why one is missing. Files of a figure that is no longer drawn
    are removed, so that the folder never shows an older measurement.
    """
    evidence = results if isinstance(results, figure_data.Evidence) else figure_data.read_evidence(results)
    (out / FIGURES_FILE).unlink(missing_ok=True)
    entries = []
    with report_progress("drawing", len(FIGURES), "figures", after_s=SOON_S) as advance:
        for kind in FIGURES:
            entries.append(_draw_figure(kind, evidence, out))
            advance(1)
    index = FigureIndex(figures=entries)
    write_json(out / FIGURES_FILE, index)
    return index


def _draw_figure(kind: FigureKind, evidence: figure_data.Evidence, out: Path) -> FigureEntry:
    missing = kind.lacks(evidence)
    if missing is None:
        with style.figure_style():
            style.save_figure(kind.draw(evidence), out, kind.name)
    else:
        for suffix in (".svg", ".png"):
            (out / f"{kind.name}{suffix}").unlink(missing_ok=True)
    profilers = sorted({summary.profiler for _, summary in evidence.traces.values()}) if kind.shows_traces else []
    return FigureEntry(name=kind.name, title=kind.title, missing=missing, profilers=profilers)
