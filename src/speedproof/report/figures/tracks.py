"""A trace as tracks on a time axis: how busy the GPU was, which phase the main thread was in."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
