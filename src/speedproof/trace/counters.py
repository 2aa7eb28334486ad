"""What was sampled, of the iterations: means of GPUs' counters, memory in use, functions on the CPU."""

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.results.summary import Memory, MetricRole, SampledFunction, SampledMetric
from speedproof.trace.intervals import Array, Intervals, holder
from speedproof.util.units import NS_PER_S

# Of so many samples an iteration holds one more or less, by where it begins: a tenth at most.
_FEWEST = 10
_FEWEST_SHARE = 0.5  # of the iterations

# nsys' names over chips (its folder GpuMetrics), the unit behind them: "SM Active [Throughput %]".
_UNIT = re.compile(r"\s*\[([^\]]*)\]$")
_ROLES: dict[MetricRole, re.Pattern[str]] = {
    "sm_active": re.compile(r"SMs? Active", re.I),
    "tensor_active": re.compile(r"(SMs? )?(FP16\+)?Tensor( Pipe)? (Active( / FP16 Active)?|Throughput)", re.I),
    "dram_read": re.compile(r"(DRAM|VRAM|GPU Memory) Read (Bandwidth|Throughput)", re.I),
    "dram_write": re.compile(r"(DRAM|VRAM|GPU Memory) Write (Bandwidth|Throughput)", re.I),
}
_MOST_FUNCTIONS = 20  # listed
_HIGHEST_MHZ = 100_000  # no clock is as fast: a larger number of "MHz" is in Hz, as nsys keeps it


def summarize_metrics(
    samples: pd.DataFrame, devices: Collection[int], epochs: Intervals
) -> tuple[list[SampledMetric], list[str]]:
    """Return each metric's mean over the iterations that count, and what a reader must know.

    A sample counts in the iteration in which it was taken. Iterations of few samples are left out, and of a metric that has too
    few in most of them nothing is said.
    """
    samples = samples[samples["device"].isin(list(devices))]
    if samples.empty or not len(epochs):
        return [], []
    start_ns, device = samples["start_ns"].to_numpy(), samples["device"].to_numpy().astype(np.int64)
    names = list(map(str, samples["name"].cat.categories))
    row = device * len(names) + samples["name"].cat.codes.to_numpy()
    epoch = np.searchsorted(epochs.start, start_ns, side="right") - 1
    inside = (epoch >= 0) & (start_ns < epochs.end[epoch])
    value = samples["value"].to_numpy()
    metrics = []
    order = np.argsort(row, kind="stable")  # each metric's samples lie together: what is counted is as much as they are
    sampled, first = np.unique(row[order], return_index=True)
    for number, mine in zip(sampled.tolist(), np.split(order, first[1:]), strict=True):
        counted = mine[inside[mine]]
        _, place, count = np.unique(epoch[counted], return_inverse=True, return_counts=True)
        enough = count >= _FEWEST
        if enough.sum() < max(1, _FEWEST_SHARE * len(epochs)):
            continue
        taken = int(count[enough].sum())
        mean = float(np.bincount(place, value[counted])[enough].sum()) / taken
        samples_per_s = NS_PER_S / float(np.median(np.diff(start_ns[mine])))
        found = _describe_metric(names[number % len(names)], mean)
        device, used = number // len(names), int(enough.sum())
        metrics.append(SampledMetric(**found, device=device, samples=taken, epochs=used, samples_per_s=samples_per_s))
    sparse = len(sampled) - len(metrics)
    few = f"{sparse} of {len(sampled)} GPU metrics have fewer than {_FEWEST} samples in most iterations: no mean is given"
    return metrics, [few] if sparse else []


def _describe_metric(named: str, mean: float) -> dict[str, Any]:
    """Return a metric's name, its unit, which stands behind it in brackets, its role and its mean in that unit."""
    found = _UNIT.search(named)
    name, unit = (named[: found.start()], found[1]) if found else (named, "")
    role = next((role for role, pattern in _ROLES.items() if pattern.fullmatch(name)), None)
    return {"name": name, "unit": unit, "role": role, "mean": mean / 1e6 if unit == "MHz" and mean > _HIGHEST_MHZ else mean}


def count_functions(samples: pd.DataFrame, idle: Intervals) -> list[SampledFunction]:
    """Return in which functions a thread was sampled in these stretches, the most frequent first."""
    if samples.empty or not len(idle):
        return []
    at_ns = samples["start_ns"].to_numpy()
    counts = samples["name"][holder(idle, at_ns) >= 0].astype(str).value_counts()
    ordered = sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))
    whole = int(counts.sum())
    return [
        SampledFunction(name=str(name), samples=int(count), share=count / whole) for name, count in ordered[:_MOST_FUNCTIONS]
    ]


def summarize_memory(events: pd.DataFrame, process: int, epochs: Intervals) -> list[Memory]:
    """Return how much memory a process has in use on each GPU, over the iterations that count."""
    events = events[events["process"] == process].reset_index(drop=True)
    changes = _find_changes(events)
    groups: dict[Any, pd.DataFrame] = dict(iter(changes.groupby(["device", "kind"], sort=True)))
    found = []
    for (device, kind), mine in groups.items():
        in_use = np.concatenate([[0], np.cumsum(mine["change"])])  # before the first event, then after each
        peak, mean = _measure_use(mine["start_ns"].to_numpy(), in_use, epochs)
        found.append(
            Memory(
                device=int(device),
                kind=str(kind),
                peak_bytes=peak,
                mean_bytes=mean,
                trace_peak_bytes=int(in_use.max()),
                unmatched_frees=int(mine["unmatched"].sum()),
            )
        )
    return found


def _find_changes(events: pd.DataFrame) -> pd.DataFrame:
    """Return by how many bytes of which kind each event changes what is in use: start_ns, device, kind, change, unmatched.

    A free, like a new allocation, ends the last allocation at its address. What was allocated before the recording is not
    known, nor is what it takes: its free is `unmatched`.
    """
    # Of one address events come one behind the other, by time, since `events` are sorted and the sort is stable.
    ordered = events.iloc[np.lexsort((events["address"].to_numpy(), events["device"].to_numpy()))]
    before = ordered.shift()
    allocates = (ordered["operation"] == "allocation").to_numpy()
    same = ((before["address"] == ordered["address"]) & (before["device"] == ordered["device"])).to_numpy()
    ends = same & np.concatenate([[False], allocates[:-1]])
    ended = np.where(ends, before["bytes"].fillna(0).to_numpy(), 0).astype(np.int64)
    kind, kind_before = ordered["kind"].astype(str).to_numpy(), before["kind"].astype(str).to_numpy()
    changes = ordered[["start_ns", "device"]].assign(
        kind=np.where(ends & ~allocates, kind_before, kind),
        change=np.where(allocates, ordered["bytes"].to_numpy(), 0) - ended,
        unmatched=~allocates & ~ends,
    )
    return changes.sort_index()


def _measure_use(at_ns: Array, in_use: Array, epochs: Intervals) -> tuple[int, float]:
    """Return the most bytes in use in the iterations, and the mean by time; `in_use` has one value more than `at_ns`."""
    first = np.searchsorted(at_ns, epochs.start, side="right")  # what holds when an iteration begins
    last = np.searchsorted(at_ns, epochs.end, side="left")
    peak = max(int(in_use[begin : end + 1].max()) for begin, end in zip(first, last, strict=True))
    # Bytes times nanoseconds from the first event on; in floats, for they pass 64 bits.
    held = np.concatenate([[0.0], np.cumsum(in_use[1:-1] * np.diff(at_ns).astype(float))])

    def hold(moment: Array) -> NDArray[np.float64]:
        place = np.searchsorted(at_ns, moment, side="right") - 1
        known = np.maximum(place, 0)
        return np.where(place >= 0, held[known] + in_use[known + 1] * (moment - at_ns[known]).astype(float), 0.0)

    return peak, float((hold(epochs.end) - hold(epochs.start)).sum() / epochs.length.sum())
