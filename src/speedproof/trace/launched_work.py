"""The GPU's work in the order in which one process launched it."""

from dataclasses import dataclass

import numpy as np

from speedproof.trace.events import Trace, bounds_of
from speedproof.trace.intervals import Array


@dataclass(frozen=True)
class LaunchedWork:
    """Kernels and copies whose launch is known, in order of their launch."""

    launch_ns: Array
    done_ns: Array  # when all that was launched until then has ended
    summed_ns: Array  # lengths of all that was launched before; one more than there are launches

    def finish(self, moment: Array) -> Array:
        """Return when the host has reached each moment, and the GPU has done all that was launched before."""
        launched = np.searchsorted(self.launch_ns, moment)
        return np.where(launched > 0, np.maximum(moment, np.append(self.done_ns, 0)[launched - 1]), moment)

    def sum_between(self, start: int, end: int) -> int:
        """Return how long the GPU works on what was launched between two moments."""
        first, last = np.searchsorted(self.launch_ns, [start, end])
        return int(self.summed_ns[last] - self.summed_ns[first])


def order_by_launch(trace: Trace, process: int) -> LaunchedWork:
    rows = trace.activity[(trace.activity["process"] == process) & (trace.activity["launch"] >= 0)]
    start_ns, end_ns = bounds_of(rows)
    launch_ns = trace.api["start_ns"].to_numpy()[rows["launch"].to_numpy()]
    order = np.argsort(launch_ns, kind="stable")
    summed_ns = np.append(0, np.cumsum((end_ns - start_ns)[order]))
    return LaunchedWork(launch_ns[order], np.maximum.accumulate(end_ns[order]), summed_ns)
