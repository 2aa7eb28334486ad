"""Iterations of a host that runs ahead of its GPU: each ends when the GPU has done what was launched until then.

If the host waits for the GPU in each iteration, its ranges are the iterations. If it does not, it may pass the last range
while the GPU is still at an early one: then the host's ranges are shorter than the work that they launch. How far the GPU is
behind may change from one iteration to the next: the queue fills up, or the host waits now and then.

Copies do not count: on a stream of their own they may last into later iterations.
"""

import numpy as np
import pandas as pd

from speedproof.results.summary import Found, count_warm_up
from speedproof.trace.events import Trace
from speedproof.trace.intervals import Array
from speedproof.trace.iterations import Iterations
from speedproof.trace.launched_work import LaunchedWork, order_kernels
from speedproof.trace.roles import EPOCH
from speedproof.util.numbers import format_value
from speedproof.util.units import NS_PER_S

# Shares of an iteration:
_ALTERED = 0.02  # its length on the GPU is another one than on the host
_LATE = 1.0  # in the median; what it launches runs in the next one, or even later
_UNSURE = 0.01  # its end is not known this well
_MOMENTS = ["start_ns", "training_end_ns", "end_ns"]


def follow_gpu(trace: Trace, iterations: Iterations, epochs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return epochs as the GPU has them, and notes; if it keeps up with the host, or its ends are not known, as they are.

    Our own loop's epochs, and a whole trace, stay what their bounds say: these are the epochs that timed runs report.
    Epochs in which nothing is launched may end up empty.

    Args:
        trace: the trace
        iterations: how they were found
        epochs: start_ns, training_end_ns, end_ns, on the host

    """
    found = iterations.found
    if found.by in ("choice", "nothing") or found.name == EPOCH or iterations.on_gpu:
        return epochs, []
    kernels = order_kernels(trace, iterations.process)
    followed, sooner = (_finish(epochs, work) for work in (kernels.earliest, kernels.latest))
    followed["start_ns"] = np.append(sooner["start_ns"].to_numpy()[:1], followed["start_ns"].to_numpy()[1:])
    if _are_apart(followed, sooner, _lengths_of(epochs)):
        unknown = f"the launches of {kernels.unknown} of {kernels.count} kernels are not in the trace"
        return epochs, [_describe_unknown(found, unknown)]
    if not _is_ahead(epochs, followed):
        return epochs, []
    launches = np.searchsorted(kernels.latest.launch_ns, epochs[["start_ns", "end_ns"]].to_numpy())
    if ((launches[:, 1] > launches[:, 0]) & (_lengths_of(followed) <= 0)).any():
        return epochs, [_describe_unknown(found, f"it works on several {found.plural} at once")]
    return followed, [_describe_lead(found, (followed["end_ns"] - epochs["end_ns"]).to_numpy())]


def _finish(epochs: pd.DataFrame, work: LaunchedWork) -> pd.DataFrame:
    return epochs.assign(**{column: work.finish(epochs[column].to_numpy()) for column in _MOMENTS})


def _lengths_of(epochs: pd.DataFrame) -> Array:
    return (epochs["end_ns"] - epochs["start_ns"]).to_numpy()


def _are_apart(some: pd.DataFrame, others: pd.DataFrame, length: Array) -> bool:
    """Return whether any moment of the same epochs differs noticeably between two tables."""
    return bool((np.abs((some[_MOMENTS] - others[_MOMENTS]).to_numpy()) > _UNSURE * length[:, np.newaxis]).any())


def _is_ahead(epochs: pd.DataFrame, followed: pd.DataFrame) -> bool:
    """Return whether the GPU's epochs are others than the host's.

    If it ends none later, or each by about the same time that is less than an epoch, they are the same.
    """
    length, late = _lengths_of(epochs), (followed["end_ns"] - epochs["end_ns"]).to_numpy()
    altered = np.abs(_lengths_of(followed) - length) > _ALTERED * length
    return bool(late.max() > 0 and altered.any()) or bool(np.median(late) > _LATE * np.median(length))


def _describe_unknown(found: Found, why: str) -> str:
    return f"it is not known when the GPU ends {found.one} ({why}): each ends when the host ends it"


def _describe_lead(found: Found, late_ns: Array) -> str:
    counted_ns = late_ns[count_warm_up(len(late_ns)) :]
    median_s, most_s = (float(value) / NS_PER_S for value in (np.median(counted_ns), late_ns.max()))
    median, most = (format_value(value, "s") for value in (median_s, most_s))
    of_most = f"in the median {median}" if median_s else f"at most {most}"
    at_most = f", at most {most}" if median_s and most != median else ""
    return (
        f"the host runs ahead of the GPU: {found.one} ends when the last kernel that it launched ends, {of_most} after the "
        f"host's own end{at_most}"
    )
