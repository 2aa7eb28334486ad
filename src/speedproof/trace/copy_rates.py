"""The bandwidth of copies, and what a GPU's links can carry at most."""

import numpy as np
import pandas as pd

from speedproof.results.summary import CopyRate
from speedproof.trace.events import Trace
from speedproof.trace.intervals import Intervals, holder
from speedproof.util.gpu_peaks import BEYOND, find_common_peaks
from speedproof.util.numbers import format_large
from speedproof.util.units import MIB, NS_PER_S

# A smaller copy may travel with its own command, and the clock has too few digits for it.
_JUDGED_BYTES = MIB


def summarize_copies(trace: Trace, process: int, epochs: Intervals) -> tuple[list[CopyRate], list[str]]:
    """Return a process' copies that began in these iterations, by kind, and which are faster than the GPU's links."""
    copies = trace.copies[(trace.copies["process"] == process) & (trace.copies["bytes"] > 0)]
    peaks = find_common_peaks(trace.devices.get(device) for device in copies["device"].unique())
    counted = copies[holder(epochs, copies["start_ns"].to_numpy()) >= 0]
    rates, warnings = [], []
    for kind, mine in counted.groupby(["kind", "name"], observed=True):
        direction, name = map(str, kind)
        limit = peaks.copy_bytes_per_s(direction) if peaks else None
        rate = _measure(name, mine, len(epochs), limit)
        if peaks is not None and (most := peaks.most_link_bytes_per_s(direction)) and _exceeds(mine, most):
            warnings.append(
                f"copies {rate.kind} are faster than the {format_large(most, 'B/s')} that their link can carry "
                f"({peaks.product}): their sizes or times are wrong, so they have no bandwidth"
            )
            rate = rate.model_copy(update={"bytes_per_s": None, "share": None})
        rates.append(rate)
    return sorted(rates, key=lambda rate: -rate.seconds_per_epoch), warnings


def _measure(kind: str, copies: pd.DataFrame, epochs: int, limit: float | None) -> CopyRate:
    sizes, length_ns = int(copies["bytes"].sum()), int((copies["end_ns"] - copies["start_ns"]).sum())
    speed = sizes / length_ns * NS_PER_S if length_ns else None
    return CopyRate(
        kind=kind,
        calls=len(copies),
        bytes_per_epoch=sizes / epochs,
        seconds_per_epoch=length_ns / epochs / NS_PER_S,
        bytes_per_s=speed,
        limit_bytes_per_s=limit,
        share=speed / limit if speed is not None and limit is not None else None,
    )


def _exceeds(copies: pd.DataFrame, most_bytes_per_s: float) -> bool:
    """Return whether one of these copies is faster than its link by more than datasheets leave open."""
    large = copies[copies["bytes"] >= _JUDGED_BYTES]
    least_ns = large["bytes"].to_numpy() / (BEYOND * most_bytes_per_s) * NS_PER_S
    return bool(np.any((large["end_ns"] - large["start_ns"]).to_numpy() < least_ns))
