"""What the GPU and the loop do at the same time, variant above variant."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.folder import MeasuredRun
from speedproof.results.summary import Summary, name_several
from speedproof.results.trace_tables import read_table
from speedproof.trace.intervals import coverage, union
from speedproof.util.units import NS_PER_S

AnyArray = NDArray[Any]


def busy_shares(starts: AnyArray, ends: AnyArray, edges: AnyArray) -> AnyArray:
    """Return the share of each bin that at least one interval covers, 0 to 1.

    `starts` and `ends` (n) need no order and may overlap; `edges` (bins + 1) must rise.
    """
    return coverage(union(starts, ends), edges[:-1], edges[1:]) / np.diff(edges)


def run_lengths(labels: AnyArray) -> list[tuple[int, int, int]]:
    """Return `(label, first, length)` of each run of equal labels."""
    firsts = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1]])
    lengths = np.diff(np.r_[firsts, len(labels)])
    return [(int(labels[first]), int(first), int(length)) for first, length in zip(firsts, lengths, strict=True)]


@dataclass(frozen=True)
class Tracks:
    """One trace. Edges of bins are in seconds since `zero_ns`."""

    folder: Path
    zero_ns: int

    def kernel_shares(self, edges_s: AnyArray) -> AnyArray:
        """Return the share of each bin in which a kernel ran, on any GPU."""
        return busy_shares(*self._kernels, self._edges_ns(edges_s))

    def gpu_shares(self, edges_s: AnyArray) -> AnyArray:
        """Return the share of each bin in which a kernel ran or memory was copied, on any GPU."""
        starts, ends = (np.concatenate(pair) for pair in zip(self._kernels, self._copies, strict=True))
        return busy_shares(starts, ends, self._edges_ns(edges_s))

    def phase_bars(self, names: list[str], edges_s: AnyArray) -> list[tuple[str, float, float]]:
        """Return `(name, start, length)`, in seconds, of what fills most of each bin; bins mostly in no phase are left out."""
        shares = np.array([self._phase_shares(name, edges_s) for name in names])
        none = 1 - shares.sum(axis=0)
        labels = np.vstack([none, shares]).argmax(axis=0) - 1
        return [
            (names[label], float(edges_s[first]), float(edges_s[first + length] - edges_s[first]))
            for label, first, length in run_lengths(labels)
            if label >= 0
        ]

    def _phase_shares(self, name: str, edges_s: AnyArray) -> AnyArray:
        ranges = self._main_ranges
        return busy_shares(*_times(ranges.filter(pc.equal(ranges["name"], name))), self._edges_ns(edges_s))

    def _edges_ns(self, edges_s: AnyArray) -> AnyArray:
        return np.asarray(edges_s) * NS_PER_S + self.zero_ns

    @cached_property
    def _kernels(self) -> tuple[AnyArray, AnyArray]:
        return _times(read_table(self.folder, "kernels", ["start_ns", "end_ns"]))

    @cached_property
    def _copies(self) -> tuple[AnyArray, AnyArray]:
        return _times(read_table(self.folder, "copies", ["start_ns", "end_ns"]))

    @cached_property
    def _main_ranges(self) -> pa.Table:
        """Return the ended ranges of main threads: a loader's own thread is beside the loop, not in it."""
        ranges = read_table(self.folder, "ranges", ["start_ns", "end_ns", "process", "thread", "name"])
        threads = read_table(self.folder, "threads", ["process", "thread", "main"])
        main = threads.filter(threads["main"]).select(["process", "thread"])
        ranges = ranges.filter(pc.is_valid(ranges["end_ns"]))
        ranges = ranges.set_column(ranges.column_names.index("name"), "name", ranges["name"].cast(pa.string()))
        return ranges.join(main, keys=["process", "thread"], join_type="left semi")


def _times(table: pa.Table) -> tuple[AnyArray, AnyArray]:
    return table["start_ns"].to_numpy(), table["end_ns"].to_numpy()


_BINS = 600  # about the pixels of a figure on half a page
_ZOOMED = 1  # the second epoch: the first pays for the warm-up
_APART = 10  # how many times as long a second epoch may be for both variants to be seen on one scale


def draw_timeline(evidence: Evidence) -> Figure:
    """Draw GPU activity above the loop's phases for each variant, all epochs on one scale, and the second epoch below.

    Second epochs that differ much have scales of their own, or nothing could be seen of the shorter one.
    A bin is about a pixel wide: the GPU's height is the share of the bin in which it was busy, a phase's colour is what
    filled most of the bin. Without a GPU only the phases are drawn.
    """
    traces = evidence.traces
    phases = dict.fromkeys(phase.name for _, summary in traces.values() for phase in summary.phases)
    colours = style.colour_phases(phases, style.TRAINING_COLOURS | style.VALIDATION_COLOURS)
    with_gpu = any(summary.has_gpu for _, summary in traces.values())
    lanes = ["gpu", "phases"] if with_gpu else ["phases"]
    heights = [1.0 if lane == "gpu" else 0.45 for _, lane in product(traces, lanes)]
    figure = style.new_figure(1.3 + 2 * (0.25 + 0.62 * sum(heights)))
    unit = evidence.unit
    views = ((f"all {name_several(unit)}", "first"), (f"second {unit}", "second"))
    for view, (subfigure, (title, since)) in enumerate(zip(figure.subfigures(2, 1, squeeze=False)[:, 0], views, strict=True)):
        windows = {variant: _window(summary, zoomed=view == 1) for variant, (_, summary) in traces.items()}
        lengths_s = {variant: (end - start) / NS_PER_S for variant, (start, end) in windows.items()}
        longest_s = max(lengths_s.values())
        apart = view == 1 and longest_s > _APART * min(lengths_s.values())
        rows = subfigure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
        for axes, (variant, lane) in zip(rows, product(traces, lanes), strict=True):
            run, summary = traces[variant]
            _draw_lane(axes, lane, run, summary, windows[variant], colours)
            if lane == lanes[0]:
                axes.set_title(f"{style.name_variant(run.title)}, {title}{', on its own scale' if apart else ''}", pad=3)
            axes.set_xlim(0, lengths_s[variant] if apart else longest_s)
            axes.tick_params(axis="x", labelbottom=axes is rows[-1] or (apart and lane == lanes[-1]))
        rows[-1].set_xlabel(f"seconds since the {since} {unit} began")
    keys = {"kernels": style.GPU_COLOURS["kernels"], "copies only": style.GPU_COLOURS["copies"]} if with_gpu else {}
    handles = [
        Patch(facecolor=colour, label=name) for name, colour in (keys | colours | {"between phases": style.PALE}).items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, handlelength=1.2, columnspacing=1.2)
    return figure


def _window(summary: Summary, zoomed: bool) -> tuple[int, int]:
    """Return start and end, in nanoseconds of the trace, of all epochs or of the second one (the first if alone)."""
    epochs = summary.epochs
    if zoomed:
        epoch = epochs[min(_ZOOMED, len(epochs) - 1)]
        return epoch.start_ns, epoch.end_ns
    return epochs[0].start_ns, epochs[-1].end_ns


def _draw_lane(
    axes: Axes, lane: str, run: MeasuredRun, summary: Summary, window: tuple[int, int], colours: dict[str, str]
) -> None:
    start_ns, end_ns = window
    tracks = Tracks(run.trace, start_ns)
    edges_s = np.linspace(0, (end_ns - start_ns) / NS_PER_S, _BINS + 1)
    if lane == "gpu":
        _draw_gpu(axes, tracks, edges_s)
    else:
        _draw_phases(axes, tracks, edges_s, colours)
    starts_s = [(epoch.start_ns - start_ns) / NS_PER_S for epoch in summary.epochs[1:]]
    for start_s in starts_s:
        if 0 < start_s < edges_s[-1]:
            axes.axvline(start_s, color=style.EPOCH_COLOUR, linewidth=1.0, linestyle="--", zorder=5)


def _draw_gpu(axes: Axes, tracks: Tracks, edges_s: np.ndarray) -> None:
    axes.axvspan(0, edges_s[-1], color="#F4F4F4", linewidth=0)
    for lane, shares in (("copies", tracks.gpu_shares(edges_s)), ("kernels", tracks.kernel_shares(edges_s))):
        axes.stairs(100 * shares, edges_s, fill=True, color=style.GPU_COLOURS[lane], linewidth=0)
    axes.set(ylim=(0, 100), yticks=[0, 100], yticklabels=["0", "100 %"])
    axes.set_ylabel("GPU busy", rotation=0, ha="right", va="center", labelpad=-4)
    axes.tick_params(axis="x", length=0)


def _draw_phases(axes: Axes, tracks: Tracks, edges_s: np.ndarray, colours: dict[str, str]) -> None:
    axes.axvspan(0, edges_s[-1], color=style.PALE, linewidth=0)
    bars = tracks.phase_bars(list(colours), edges_s)
    for name, colour in colours.items():
        spans = [(start, length) for bar, start, length in bars if bar == name]
        axes.broken_barh(spans, (0, 1), facecolors=colour, linewidth=0)
    axes.set(ylim=(0, 1), yticks=[])
    axes.set_ylabel("phase", rotation=0, ha="right", va="center")
