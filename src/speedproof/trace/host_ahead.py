"""Iterations of a host that runs ahead of its GPU: each ends when the GPU has done what was launched until then.

Where the host waits for the GPU in each iteration, its ranges are the iterations. Where it does not, it may pass the last range
while the GPU is still at an early one: then the host's ranges are shorter than the work that they launch.
"""

import numpy as np
import pandas as pd

from speedproof.results.summary import count_warm_up
from speedproof.trace.events import Trace
from speedproof.trace.iterations import Iterations
from speedproof.trace.launched_work import order_by_launch
from speedproof.trace.roles import EPOCH
from speedproof.util.numbers import format_value
from speedproof.util.units import NS_PER_S

# Where the GPU is late by about the same in each iteration, and by less than one, it takes as long as the host. Shares of an
# iteration, medians:
_LATE = 1.0  # what it launches runs in the next one, or even later
_FALLS_BEHIND = 0.01  # the GPU takes longer than the host
_UNEVEN = 0.05  # its length on the GPU is another one than on the host


def follow_gpu(trace: Trace, iterations: Iterations, epochs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return epochs as the GPU has them, with a note; if it keeps up with the host, as they are.

    Our own loop's epochs, and a whole trace, stay what their bounds say: these are the epochs that timed runs report.

    Args:
        trace: the trace
        iterations: how they were found
        epochs: start_ns, training_end_ns, end_ns, on the host

    """
    found = iterations.found
    if found.by in ("choice", "nothing") or found.name == EPOCH or iterations.on_gpu:
        return epochs, []
    work = order_by_launch(trace, iterations.process)
    columns = ["start_ns", "training_end_ns", "end_ns"]
    followed = epochs.assign(**{column: work.finish(epochs[column].to_numpy()) for column in columns})
    if (late_ns := _find_lead(epochs, followed)) is None:
        return epochs, []
    note = (
        f"the host runs ahead of the GPU: {found.one} ends when the last kernel that it launched ends, in the median "
        f"{format_value(late_ns / NS_PER_S, 's')} after the host's own end"
    )
    return followed, [note]


def _find_lead(epochs: pd.DataFrame, followed: pd.DataFrame) -> float | None:
    """Return by how much the GPU ends the epochs that count later than the host, in the median; None if it keeps up."""
    warm_up = count_warm_up(len(epochs))
    (start, end), (done_start, done_end) = (
        (table["start_ns"].to_numpy()[warm_up:], table["end_ns"].to_numpy()[warm_up:]) for table in (epochs, followed)
    )
    length, late, longer = end - start, done_end - end, (done_end - done_start) - (end - start)
    shares = [np.median(values) / np.median(length) for values in (late, np.abs(longer), longer)]
    ahead = shares[0] > _LATE or shares[1] > _UNEVEN or abs(shares[2]) > _FALLS_BEHIND
    return float(np.median(late)) if ahead else None
