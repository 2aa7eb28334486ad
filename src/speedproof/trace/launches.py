"""How the loop's launches reach the GPU: what a call takes, how long its kernel waits, how many wait at a time."""

import numpy as np
import pandas as pd

from speedproof.results.summary import Launches
from speedproof.trace.events import Trace
from speedproof.trace.intervals import Intervals, overlap
from speedproof.trace.loop import Loop
from speedproof.util.units import NS_PER_S


def measure_launches(trace: Trace, loop: Loop, activity: pd.DataFrame, epochs: Intervals) -> Launches | None:
    """Return how the kernels that the loop's process launched in these epochs were queued; None where no launch is known.

    Args:
        trace: the events
        loop: the loop found in them
        activity: what :func:`speedproof.trace.attribution.attribute_activity` returns
        epochs: those that count

    """
    rows = activity[activity["kernel"] & (activity["launch"] >= 0) & (activity["process"] == loop.process)]
    launch = rows["launch"].to_numpy()
    called, returned = (trace.api[name].to_numpy()[launch] for name in ("start_ns", "end_ns"))
    inside = np.isin(np.arange(len(rows)), overlap(called, called + 1, epochs).left)
    if not inside.any():
        return None
    start, end = (rows[name].to_numpy() for name in ("start_ns", "end_ns"))
    waits = np.maximum(start - returned, 0)
    queued = overlap(returned, start, epochs)
    # How many wait changes where one is launched and where one starts; of both at one moment the start comes first.
    moment = np.concatenate([start[waits > 0], returned[waits > 0]])
    change = np.repeat([-1, 1], int((waits > 0).sum()))
    waiting = np.cumsum(change[np.lexsort((change, moment))])
    calls, first = np.unique(launch[inside], return_index=True)  # a graph's kernels share one
    took = (returned - called)[inside]
    return Launches(
        calls=len(calls),
        call_s=float(np.median(took[first])) / NS_PER_S,
        delay_s=float(np.median(waits[inside])) / NS_PER_S,
        delay_p99_s=float(np.percentile(waits[inside], 99)) / NS_PER_S,
        short_fraction=float(np.mean((end - start)[inside] < took)),
        queue_mean=float(queued.length.sum() / epochs.length.sum()),
        queue_most=int(waiting.max(initial=0)),
    )
