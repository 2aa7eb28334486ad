"""What the GPU and the loop do at the same time in an epoch, variant above variant."""

from dataclasses import dataclass
from functools import cached_property
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
from speedproof.results.summary import IterationUnit, Summary
from speedproof.results.trace_tables import read_table
from speedproof.trace.intervals import coverage, union
from speedproof.util.numbers import format_value
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
_APART = 10  # how many times as long an epoch may be for all variants to be seen on one scale


@dataclass(frozen=True)
class _Epoch:
    """The epoch that a variant is shown by: its second, since the first pays for the warm-up, or its only one."""

    title: str
    tracks: Tracks
    length_s: float

    @property
    def edges_s(self) -> AnyArray:
        return np.linspace(0, self.length_s, _BINS + 1)


def draw_timeline(evidence: Evidence) -> Figure:
    """Draw GPU activity above the loop's phases in one epoch of each variant.

    Epochs that differ tenfold have scales of their own, or nothing could be seen of the shorter one.
    A bin is about a pixel wide: the GPU's height is the share of the bin in which it was busy, a phase's colour is what
    filled most of the bin. Without a GPU only the phases are drawn.
    """
    summaries = [summary for _, summary in evidence.traces.values()]
    phases = dict.fromkeys(phase.name for summary in summaries for phase in summary.phases)
    colours = style.colour_phases(phases, style.TRAINING_COLOURS | style.VALIDATION_COLOURS)
    with_gpu = any(summary.has_gpu for summary in summaries)
    epochs = [_choose_epoch(run, summary) for run, summary in evidence.traces.values()]
    lengths_s = [epoch.length_s for epoch in epochs]
    apart = max(lengths_s) > _APART * min(lengths_s)
    heights = [1.0, 0.45] if with_gpu else [0.45]
    keys = {"kernels": style.GPU_COLOURS["kernels"], "copies only": style.GPU_COLOURS["copies"]} if with_gpu else {}
    figure = style.new_figure(1.9 + len(epochs) * (0.5 + 0.6 * sum(heights)))
    ratios = {"height_ratios": heights * len(epochs)}
    rows = figure.subplots(len(ratios["height_ratios"]), 1, squeeze=False, gridspec_kw=ratios).reshape(len(epochs), -1)
    shown: set[str] = set()
    for epoch, lanes in zip(epochs, rows, strict=True):
        lanes[0].set_title(_title(epoch, evidence.unit, with_gpu), loc="left", pad=4, fontsize=11, weight="bold")
        if with_gpu:
            _draw_gpu(lanes[0], epoch)
        shown |= _draw_phases(lanes[-1], epoch, colours)
        for axes in lanes:
            axes.set_xlim(0, epoch.length_s if apart else max(lengths_s))
            axes.tick_params(axis="x", labelbottom=axes is lanes[-1] and (apart or epoch is epochs[-1]))
    own = "; each variant has its own scale" if apart else ""
    rows[-1][-1].set_xlabel(f"seconds since the {evidence.unit} began{own}")
    keys |= {name: colour for name, colour in colours.items() if name in shown} | {"between phases": style.PALE}
    style.draw_keys(figure, [Patch(facecolor=colour, label=name) for name, colour in keys.items()])
    return figure


def _choose_epoch(run: MeasuredRun, summary: Summary) -> _Epoch:
    epoch = summary.epochs[:2][-1]
    return _Epoch(style.name_variant(run.title), Tracks(run.trace, epoch.start_ns), epoch.duration_s)


def _title(epoch: _Epoch, unit: IterationUnit, with_gpu: bool) -> str:
    busy = f", GPU busy {format_value(float(epoch.tracks.gpu_shares(epoch.edges_s).mean()), '%')}" if with_gpu else ""
    return f"{epoch.title}: {unit} of {format_value(epoch.length_s, 's')}{busy}"


def _draw_gpu(axes: Axes, epoch: _Epoch) -> None:
    edges_s, tracks = epoch.edges_s, epoch.tracks
    for lane, shares in (("copies", tracks.gpu_shares(edges_s)), ("kernels", tracks.kernel_shares(edges_s))):
        axes.stairs(100 * shares, edges_s, fill=True, color=style.GPU_COLOURS[lane], linewidth=0)
    axes.set(ylim=(0, 100), yticks=[])
    axes.set_ylabel("GPU", rotation=0, ha="right", va="center")
    axes.tick_params(axis="x", length=0)


def _draw_phases(axes: Axes, epoch: _Epoch, colours: dict[str, str]) -> set[str]:
    """Draw the phases, and return the names of those that can be seen."""
    edges_s = epoch.edges_s
    axes.axvspan(0, edges_s[-1], color=style.PALE, linewidth=0)
    bars = epoch.tracks.phase_bars(list(colours), edges_s)
    for name, colour in colours.items():
        spans = [(start, length) for bar, start, length in bars if bar == name]
        axes.broken_barh(spans, (0, 1), facecolors=colour, linewidth=0)
    axes.set(ylim=(0, 1), yticks=[])
    axes.set_ylabel("phase", rotation=0, ha="right", va="center")
    return {name for name, _, _ in bars}
