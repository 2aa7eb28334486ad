"""Arithmetic of kernel groups beside what the GPU can do: FLOP/s, a roofline, and the utilization of an iteration (MFU).

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures", 2009.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from speedproof.results.summary import MFU_NEEDS_KNOWN, Arithmetic, KernelRate
from speedproof.trace.events import Trace
from speedproof.trace.intervals import Array, Intervals, holder
from speedproof.trace.kernel_groups import DATA_GRADIENT, MULTIPLYING, WEIGHT_GRADIENT, group_of, uses_tensor_cores
from speedproof.util.gpu_peaks import BEYOND, GpuPeaks, find_common_peaks
from speedproof.util.numbers import format_large, format_value
from speedproof.util.units import NS_PER_S

_TF32 = "tf32"  # what the rate of float32 on tensor cores is called
_BOTH_GRADIENTS = {DATA_GRADIENT, WEIGHT_GRADIENT}


def measure_arithmetic(
    trace: Trace, process: int, activity: pd.DataFrame, epochs: Intervals
) -> tuple[Arithmetic | None, list[str]]:
    """Return the FLOP of a process' operators in these iterations beside its GPU's peaks, and which speeds are impossible."""
    operators = trace.flop[trace.flop["process"] == process].reset_index(drop=True)
    known = operators["flop"] >= 0
    if not known.any() or not len(epochs):
        return None, []
    if activity.empty:
        return _count_on_cpu(operators[holder(epochs, operators["start_ns"].to_numpy()) >= 0], len(epochs)), []
    operators = operators[known].reset_index(drop=True)
    peaks = find_common_peaks(map(trace.devices.get, devices := activity["device"].unique()))
    kernels = _describe_kernels(trace, activity, operators, epochs)
    groups, warnings = [], list[str]()
    for key, mine in _share_out(kernels, operators).groupby(["group", "type", "tensor_cores"], sort=False):
        rate, warning = _rate(key, mine, len(epochs), peaks)
        groups.append(rate)
        warnings += warning
    if not groups:
        return None, []
    multiplying = kernels[kernels["multiplies"]]
    whole_ns = int(multiplying["length"].sum())
    known_share = int(multiplying["length"][multiplying["operator"] >= 0].sum()) / whole_ns if whole_ns else None
    length_s = float(epochs.length.mean()) / NS_PER_S
    most_known = known_share is None or known_share >= MFU_NEEDS_KNOWN
    mfu = _measure_use(groups, length_s * len(devices)) if peaks and most_known and not warnings else None
    if peaks and mfu is not None and mfu > 1:
        warnings.append(_warn_of_use(mfu, peaks))
    return Arithmetic(
        flop_per_epoch=sum(one.flop_per_epoch for one in groups),
        known_share=known_share,
        product=peaks.product if peaks else None,
        source=peaks.source if peaks else None,
        mfu=None if warnings else mfu,
        groups=sorted(groups, key=lambda one: -one.flop_per_epoch),
    ), warnings


def _count_on_cpu(operators: pd.DataFrame, epochs: int) -> Arithmetic:
    """Return the FLOP of operators, those of unknown FLOP among them, in so many iterations without a GPU."""
    known = operators["flop"] >= 0
    length = operators["end_ns"] - operators["start_ns"]
    share = float(length[known].sum() / length.sum()) if length.sum() else None
    flop = float(operators["flop"][known].sum()) / epochs
    return Arithmetic(flop_per_epoch=flop, known_share=share, product=None, source=None, mfu=None, groups=[])


def _measure_use(groups: Sequence[KernelRate], length_s: float) -> float | None:
    """Return which share of a time the FLOP would take at their peaks; None if a peak is not known."""
    least_s = [one.flop_per_epoch / one.peak_flop_per_s for one in groups if one.peak_flop_per_s]
    return sum(least_s) / length_s if len(least_s) == len(groups) else None


def _warn_of_use(mfu: float, peaks: GpuPeaks) -> str:
    return (
        f"its FLOP would take {format_value(mfu, '%')} of its time at the peaks of its GPU ({peaks.product}): its shapes or "
        "times are wrong, so the trace has no MFU"
    )


def _describe_kernels(trace: Trace, activity: pd.DataFrame, operators: pd.DataFrame, epochs: Intervals) -> pd.DataFrame:
    """Return the kernels that began in these iterations: their length, group, and the operator that launched them, or -1."""
    began = holder(epochs, activity["start_ns"].to_numpy()) >= 0
    kernels = activity[activity["kernel"].to_numpy() & began]
    names = kernels["name"].array
    groups = np.array([*(group_of(str(name)) for name in names.categories), ""], object)
    cores = {True: 1, False: 0, None: -1}
    tensor_cores = np.array([*(cores[uses_tensor_cores(str(name))] for name in names.categories), -1])
    group = groups[names.codes]
    return pd.DataFrame(
        {
            "length": (kernels["end_ns"] - kernels["start_ns"]).to_numpy(),
            "group": group,
            "multiplies": np.isin(group.astype(str), [*MULTIPLYING]),
            "tensor_cores": tensor_cores[names.codes],
            "operator": _find_operators(trace, kernels["launch"].to_numpy(), operators),
        }
    )


def _find_operators(trace: Trace, launch: Array, operators: pd.DataFrame) -> Array:
    """Return the row of the operator in which each launching call began on the same thread; -1 if there is none."""
    found = np.full(len(launch), -1)
    called = trace.api["start_ns"].to_numpy()[launch] if len(trace.api) else np.zeros(len(launch), np.int64)
    threads = trace.api["thread"].to_numpy()[launch] if len(trace.api) else np.full(len(launch), -1)
    for thread in operators["thread"].unique():
        own = operators.index[(operators["thread"] == thread) & (operators["end_ns"] > operators["start_ns"])].to_numpy()
        spans = Intervals(operators["start_ns"].to_numpy()[own], operators["end_ns"].to_numpy()[own])
        here = np.flatnonzero((launch >= 0) & (threads == thread))
        held = holder(spans, called[here])
        found[here[held >= 0]] = own[held[held >= 0]]
    return found


def _share_out(kernels: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    """Return the FLOP and bytes of each operator by the groups of its kernels that do the arithmetic.

    That is the longest of those that multiply, else of all. If there are kernels of both gradients of a convolution, each of
    these groups has half.
    """
    launched = kernels[kernels["operator"] >= 0]
    table = launched.groupby(["operator", "group", "multiplies"], as_index=False, sort=False).agg(
        length=("length", "sum"), tensor_cores=("tensor_cores", "max")
    )
    table = table.sort_values(["operator", "multiplies", "length"], ascending=[True, False, False], kind="stable")
    gradient = table["group"].isin(_BOTH_GRADIENTS)
    both = gradient & (gradient.groupby(table["operator"]).transform("sum") == len(_BOTH_GRADIENTS))
    halved = both.groupby(table["operator"]).transform("any")
    chosen = table[both | (~halved & ~table.duplicated("operator"))].reset_index(drop=True)
    parts = np.where(chosen["operator"].duplicated(keep=False), 2, 1)
    given = operators.loc[chosen["operator"]].reset_index(drop=True)
    single = given["type"].astype(str) == "float32"
    return chosen.assign(
        flop=given["flop"] / parts,
        bytes=given["bytes"] / parts,
        type=given["type"].astype(str).where(~(single & (chosen["tensor_cores"] == 1)), _TF32),
        tensor_cores=chosen["tensor_cores"].where(single, -1),
    )


def _rate(key: tuple[Any, ...], shares: pd.DataFrame, epochs: int, peaks: GpuPeaks | None) -> tuple[KernelRate, list[str]]:
    group, name, tensor_cores = key
    kind = "float32" if name == _TF32 else name
    flop, moved, length_s = (float(shares[column].sum()) / epochs for column in ("flop", "bytes", "length"))
    length_s /= NS_PER_S
    peak = peaks.flop_per_s(kind, None if tensor_cores < 0 else bool(tensor_cores)) if peaks else None
    most = peaks.most_flop_per_s(kind) if peaks else None
    possible = most is None or flop <= BEYOND * most * length_s
    least_s = {"arithmetic": flop / peak, "memory": moved / peaks.memory_bytes_per_s} if peaks and peak else {}
    bound = max(least_s, key=lambda one: least_s[one]) if least_s else None
    speed = flop / length_s if possible and length_s else None
    rate = KernelRate.model_validate(
        {
            "group": group,
            "type": name,
            "operators": len(shares),
            "flop_per_epoch": flop,
            "bytes_per_epoch": moved,
            "seconds_per_epoch": length_s,
            "flop_per_s": speed,
            "peak_flop_per_s": peak,
            "peak_share": speed / peak if speed is not None and peak else None,
            "bound": bound,
            "bound_share": least_s[bound] / length_s if bound and speed is not None else None,
        }
    )
    if possible or not peaks:
        return rate, []
    return rate, [
        f"{group} in {name} is faster than the {format_large(most, 'FLOP/s')} of its GPU ({peaks.product}): its shapes or "
        "times are wrong, so it has no speed, and the trace no MFU"
    ]
