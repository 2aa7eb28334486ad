"""From a trace to its summary: the one way in for whoever wants to know where a trace's time went."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

import numpy as np
import pandas as pd
from pydantic import BaseModel

from speedproof.results.files import write_sealed
from speedproof.results.run_record import write_csv
from speedproof.results.summary import (
    SUMMARY_FILE,
    Communication,
    Epoch,
    IdleGap,
    Kernel,
    Launches,
    Phase,
    Process,
    Stream,
    Summary,
    Transform,
    count_warm_up,
)
from speedproof.results.trace_results import KERNELS_FILE, summarize_kernels
from speedproof.trace.account import account_for
from speedproof.trace.advice import give_advice
from speedproof.trace.attribution import attribute_activity, explain_unattributed
from speedproof.trace.causes import HOST, NO_RANGE, UNEXPLAINED
from speedproof.trace.counters import count_functions, summarize_memory, summarize_metrics
from speedproof.trace.critical_path import find_critical_paths, measure_skew
from speedproof.trace.events import Trace, bounds_of, cover_events, read_events, with_names
from speedproof.trace.idle_gaps import find_idle_gaps
from speedproof.trace.intervals import Intervals, coverage, difference, holder, intersection, overlap, total
from speedproof.trace.iterations import Choice
from speedproof.trace.kernel_groups import is_communication, measure_communication, sum_kernels
from speedproof.trace.loop import Loop, find_loop
from speedproof.trace.outliers import list_gaps, list_slowest
from speedproof.trace.roles import loads_data
from speedproof.util.units import NS_PER_S

# Listed at most: each may have a row in each iteration.
_MOST_STREAMS, _MOST_STREAM_ROWS = 100, 1_000_000


def analyze_trace(
    folder: Path,
    epoch: str | None = None,
    process: int | None = None,
    phases: Mapping[str, str] | None = None,
    whole: bool = False,
    may_be_empty: bool = False,
) -> Summary:
    """Summarize where the time of a trace went.

    Args:
        folder: the trace, as :mod:`speedproof.results.trace_tables` describes it
        epoch: a regular expression that the whole name of an iteration's range matches; None: found by itself
        process: whose loop it is, by the trace's own number; None: that which kept a GPU busy longest
        phases: names of phases, each with a regular expression of its ranges' whole names, besides those that are found
        whole: treat the trace as one part; do not look for iterations
        may_be_empty: accept a trace without events; its summary is marked as empty

    Raises:
        RecordError: no trace lies there, it holds nothing and may not, it has no such process, or no range matches `epoch`

    """
    trace = read_events(folder)
    if may_be_empty and trace.is_empty:
        return _summarize_nothing(trace)
    loop = find_loop(trace, Choice(epoch, dict(phases or {}), process, whole))
    activity = attribute_activity(trace, loop)
    return _summarize(trace, loop, activity, find_idle_gaps(trace, loop, activity))


def _summarize(trace: Trace, loop: Loop, activity: pd.DataFrame, idle_gaps: pd.DataFrame) -> Summary:
    epochs = _summarize_epochs(loop, activity)
    warm_up = count_warm_up(len(epochs))
    counted = Intervals(loop.spans.start[warm_up:], loop.spans.end[warm_up:])
    steady = idle_gaps[idle_gaps["epoch"] > warm_up]
    unexplained = cover_events(steady[steady["cause"].isin([HOST, NO_RANGE])])
    unattributed = explain_unattributed(loop, activity)
    processes = list_gpu_processes(trace, loop) if loop.recorded else []
    ideal, overlapped = _ideal_epochs(loop, activity, warm_up)
    account, zero_ns = account_for(loop, activity, idle_gaps), trace.info.zero_ns or 0
    metrics, notes = summarize_metrics(trace.metrics, activity["device"].unique().tolist(), counted)
    streams, unlisted = _summarize_streams(loop, activity)
    return Summary(
        profiler=trace.info.profiler,
        profiler_version=trace.info.profiler_version,
        has_gpu=not activity.empty,
        devices=[trace.devices.get(device) or f"GPU {device}" for device in sorted(activity["device"].unique())],
        processes=processes,
        found=loop.iterations.found,
        candidates=loop.iterations.candidates,
        recorded=loop.recorded,
        epochs=epochs,
        phases=_summarize_phases(loop, activity),
        idle_gaps=_summarize_idle_gaps(idle_gaps, warm_up, len(counted)),
        kernels=_summarize_kernels(trace, loop, counted),
        streams=streams,
        transforms=_summarize_transforms(loop),
        account=account,
        zero_ns=trace.info.zero_ns,
        gaps=list_gaps(idle_gaps, activity, zero_ns),
        slowest=list_slowest(epochs, account, zero_ns),
        critical_paths=find_critical_paths(trace, loop, activity),
        clock_skew=measure_skew(trace, activity),
        launches=measure_launches(trace, loop, activity, counted),
        communication=_summarize_communication(activity[activity["kernel"]], counted),
        metrics=metrics,
        memory=summarize_memory(trace.memory, loop.process, counted),
        sampled_functions=count_functions(loop.on_main_thread(trace.cpu_samples), unexplained),
        sampled_python=count_functions(loop.on_main_thread(trace.python_samples), unexplained),
        unattributed_fraction=sum(share.fraction for share in unattributed),
        unattributed=unattributed,
        ideal_epoch_s=ideal,
        overlapped_epoch_s=overlapped,
        advice=give_advice(steady, int(counted.length.sum()), len(counted), _free_ns(activity, counted)),
        warnings=list(dict.fromkeys([*trace.info.warnings, *loop.warnings, *notes, *unlisted, *warn_of_others(processes)])),
    )


def _summarize_nothing(trace: Trace) -> Summary:
    """Return the summary of a trace without ranges, kernels and calls, as one without a GPU and NVTX leaves it."""
    warning = "it holds no ranges, kernels or calls: the program used no GPU, and has no NVTX ranges"
    empty: dict[str, Any] = {name: [] for name, field in Summary.model_fields.items() if get_origin(field.annotation) is list}
    about = {"profiler": trace.info.profiler, "profiler_version": trace.info.profiler_version}
    numbers = {"unattributed_fraction": 0.0, "ideal_epoch_s": None, "overlapped_epoch_s": None}
    return Summary(**empty | about | numbers | {"warnings": [*trace.info.warnings, warning]}, has_gpu=False, recorded=False)


def write_summary(summary: Summary, folder: Path) -> None:
    """Write `epochs.csv`, `phases.csv`, `idle_gaps.csv`, `kernels.csv` and `kernels.json`, and `summary.json` last."""
    tables: dict[str, tuple[list[Any], type[BaseModel]]] = {
        "epochs": (summary.epochs, Epoch),
        "phases": (summary.phases, Phase),
        "idle_gaps": (summary.idle_gaps, IdleGap),
        "kernels": (summary.kernels, Kernel),
    }
    (folder / SUMMARY_FILE).unlink(missing_ok=True)
    for name, (rows, model) in tables.items():
        write_csv(folder / f"{name}.csv", pd.DataFrame([row.model_dump() for row in rows], columns=list(model.model_fields)))
    write_sealed(folder / KERNELS_FILE, summarize_kernels(summary.kernels, summary.metrics))
    write_sealed(folder / SUMMARY_FILE, summary)


def _free_ns(activity: pd.DataFrame, epochs: Intervals) -> int:
    """Return how long kernels run in these epochs while nothing is copied."""
    kernels = activity["kernel"]
    free = difference(cover_events(activity[kernels]), cover_events(activity[~kernels]))
    return int(coverage(free, epochs.start, epochs.end).sum())


def _summarize_communication(kernels: pd.DataFrame, epochs: Intervals) -> Communication | None:
    if with_names(kernels, is_communication).empty:
        return None
    whole_s, exposed_s = measure_communication(kernels, epochs)
    return Communication(seconds_per_epoch=whole_s, exposed_s=exposed_s)


def _summarize_kernels(trace: Trace, loop: Loop, epochs: Intervals) -> list[Kernel]:
    kernels = sum_kernels(trace.activity[trace.activity["kernel"] & loop.recorded], epochs)
    launch_ns = _sum_launches(trace)
    kernels["launch_ns"] = np.array([launch_ns.get(name, np.nan) for name in kernels["name"]], float)
    return [Kernel.model_validate(row) for row in _in_seconds(kernels).to_dict("records")]


def _sum_launches(trace: Trace) -> dict[str, float]:
    """Return the time of the calls that launched each kernel, by its name; one that launched several counts a part for each."""
    kernels = trace.activity[trace.activity["kernel"] & (trace.activity["launch"] >= 0)]
    launch = kernels["launch"].to_numpy()
    took = (trace.api["end_ns"] - trace.api["start_ns"]).to_numpy()
    shared = np.bincount(launch, minlength=len(took) + 1)
    lengths = pd.Series(took[launch] / shared[launch], index=kernels.index)
    sums = lengths.groupby(kernels["name"], observed=True).sum()
    return dict(zip(map(str, sums.index), sums.tolist(), strict=True))


def _in_seconds(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with its columns of nanoseconds, named `…_ns`, in seconds, named `…_s`; null stays null."""
    columns = [str(name) for name in table.columns if str(name).endswith("_ns")]
    seconds = table.assign(**{name: table[name] / NS_PER_S for name in columns})
    seconds = seconds.rename(columns={name: f"{name.removesuffix('_ns')}_s" for name in columns})
    return seconds.astype(object).where(seconds.notna(), None)


def _summarize_epochs(loop: Loop, activity: pd.DataFrame) -> list[Epoch]:
    spans = loop.spans
    table = pd.DataFrame(
        {
            "duration_ns": spans.length,
            "training_ns": loop.epochs["training_end_ns"] - spans.start,
            "validates": loop.epochs["validates"],
            "kernel_busy_fraction": coverage(cover_events(activity[activity["kernel"]]), spans.start, spans.end) / spans.length,
            "gpu_busy_fraction": coverage(cover_events(activity), spans.start, spans.end) / spans.length,
        }
    )
    bounds = zip(spans.start.tolist(), spans.end.tolist(), strict=True)
    rows = zip(bounds, _in_seconds(table).to_dict("records"), strict=True)
    return [
        Epoch.model_validate({"index": index, "start_ns": start_ns, "end_ns": end_ns, **row})
        for index, ((start_ns, end_ns), row) in enumerate(rows, start=1)
    ]


def _summarize_phases(loop: Loop, activity: pd.DataFrame) -> list[Phase]:
    """Return one row for each phase and part, in order of first appearance."""
    caused = activity[activity["phase"] >= 0]
    spans = caused.groupby("phase").agg(first=("start_ns", "min"), last=("end_ns", "max"))
    calls = loop.phases.assign(
        wall_ns=loop.phases["end_ns"] - loop.phases["start_ns"],
        projected_ns=(spans["last"] - spans["first"]).reindex(loop.phases.index, fill_value=0),
    )
    group = calls.groupby(["name", "part"], observed=True, sort=False)
    table = group.agg(calls=("wall_ns", "size"), wall_ns=("wall_ns", "sum"), projected_ns=("projected_ns", "sum"))
    number = group.ngroup().to_numpy()[caused["phase"]]  # groups count in the order in which the table lists them
    order = np.argsort(number, kind="stable")  # each group's work lies together: names may be as many as events
    first = np.searchsorted(number[order], np.arange(len(table) + 1))
    busy = [_busy_times(caused.iloc[order[first[row] : first[row + 1]]]) for row in range(len(table))]
    table = table.reset_index().join(pd.DataFrame(busy, columns=["gpu_busy_ns", "kernel_busy_ns", "copy_busy_ns", "method"]))
    return [Phase.model_validate(row) for row in _in_seconds(table).to_dict("records")]


def _busy_times(work: pd.DataFrame) -> tuple[int, int, int, str]:
    """Return how long any of this work, its kernels, its copies kept the GPU busy, and how it was attributed."""
    methods = {(): "none", (True,): "own_thread", (False,): "main_thread_window", (False, True): "both"}
    kernel = work["kernel"]
    return (
        total(cover_events(work)),
        total(cover_events(work[kernel])),
        total(cover_events(work[~kernel])),
        methods[tuple(sorted(work["own_thread"].unique()))],
    )


def _summarize_idle_gaps(idle_gaps: pd.DataFrame, warm_up: int, counted: int) -> list[IdleGap]:
    """Return one row for each cause and detail, the largest first; so many epochs count after those that warm up."""
    lengths = idle_gaps.assign(total_ns=idle_gaps["end_ns"] - idle_gaps["start_ns"])
    lengths["steady_ns"] = lengths["total_ns"].where(lengths["epoch"] > warm_up, 0)
    lengths["covered_ns"] = lengths["total_ns"].where(lengths["cause"] != UNEXPLAINED, 0)
    group = lengths.groupby(["cause", "detail"], observed=True)
    table = group[["total_ns", "covered_ns", "steady_ns"]].sum()
    table["count"] = lengths.drop_duplicates(["cause", "detail", "stretch"]).groupby(["cause", "detail"], observed=True).size()
    table = table.reset_index()
    table["coverage"] = table.pop("covered_ns") / table["total_ns"]
    table["seconds_per_epoch"] = table.pop("steady_ns") / counted / NS_PER_S
    table = table.sort_values("total_ns", ascending=False, kind="stable")
    return [IdleGap.model_validate(row) for row in _in_seconds(table).to_dict("records")]


def _summarize_streams(loop: Loop, activity: pd.DataFrame) -> tuple[list[Stream], list[str]]:
    """Return what each device did in each epoch, followed by its streams that did anything there, and what is not listed."""
    chosen, notes = _choose_streams(activity, len(loop.spans))
    tables = []
    for device in np.unique(activity["device"]).tolist():
        on_device = activity[activity["device"] == device]
        tables.append(_busy_by_epoch(loop, device, None, on_device))
        streams = [stream for one, stream in chosen if one == device]
        tables += [_busy_by_epoch(loop, device, stream, on_device[on_device["stream"] == stream]) for stream in streams]
    if not tables:
        return [], []
    table = pd.concat(tables, ignore_index=True).sort_values("epoch", kind="stable")
    return [Stream.model_validate(row) for row in _in_seconds(table).to_dict("records")], notes


def _choose_streams(activity: pd.DataFrame, epochs: int) -> tuple[list[tuple[int, int]], list[str]]:
    """Return which streams are listed, by device and number, and a note if others were less busy than those."""
    busy = (activity["end_ns"] - activity["start_ns"]).groupby([activity["device"], activity["stream"]]).sum()
    most = min(_MOST_STREAMS, _MOST_STREAM_ROWS // max(epochs, 1))
    if len(busy) <= most:
        return busy.index.tolist(), []
    note = f"only the {most} busiest of {len(busy)} streams are listed; GPU times count all"
    return sorted(busy.nlargest(most).index.tolist()), [note]


def _busy_by_epoch(loop: Loop, device: int, stream: int | None, work: pd.DataFrame) -> pd.DataFrame:
    """Return how long work of one device, or one of its streams, kept it busy in each epoch; a stream at rest has no row."""
    spans = loop.spans
    kernels, copies = (cover_events(work[work["kernel"] == kind]) for kind in (True, False))
    busy = {"kernel": kernels, "copy": copies}
    table = pd.DataFrame({f"{name}_busy_ns": coverage(some, spans.start, spans.end) for name, some in busy.items()})
    table["overlap_ns"] = coverage(intersection(kernels, copies), spans.start, spans.end)
    table["gpu_busy_ns"] = table["kernel_busy_ns"] + table["copy_busy_ns"] - table["overlap_ns"]
    table = table.assign(epoch=range(1, len(spans) + 1), device=device, stream=pd.Series(stream, table.index, object))
    return table if stream is None else table[table["gpu_busy_ns"] > 0]


def _summarize_transforms(loop: Loop) -> list[Transform]:
    """Return one row for each transform, the longest first."""
    calls = loop.transforms
    wall_ns = calls["end_ns"] - calls["start_ns"]
    in_epochs = holder(loop.spans, calls["start_ns"].to_numpy()) >= 0
    on_main_thread = (calls["process"] == loop.process) & (calls["thread"] == loop.thread)
    lengths = calls.assign(
        wall_ns=wall_ns, in_epochs_ns=wall_ns.where(in_epochs, 0), on_main_thread_ns=wall_ns.where(on_main_thread, 0)
    )
    group = lengths.groupby("name", observed=True)
    table = group[["wall_ns", "in_epochs_ns", "on_main_thread_ns"]].sum().assign(calls=group.size())
    table = table.sort_values("wall_ns", ascending=False, kind="stable").reset_index()
    return [Transform.model_validate(row) for row in _in_seconds(table).to_dict("records")]


def _ideal_epochs(loop: Loop, activity: pd.DataFrame, warm_up: int) -> tuple[float | None, float | None]:
    """Return a training epoch's GPU busy time, and that or its data time, whichever is longer: means over those that count.

    The data time is that in which the main thread loads data or any thread or process transforms some.
    """
    if activity.empty:
        return None, None
    start, end = loop.spans.start[warm_up:], loop.epochs["training_end_ns"].to_numpy()[warm_up:]
    data = loop.on_main_thread(loop.phases)
    data = pd.concat([with_names(data, loads_data), loop.transforms])
    busy = coverage(cover_events(activity), start, end)
    overlapped = np.maximum(busy, coverage(cover_events(data), start, end))
    return float(np.mean(busy)) / NS_PER_S, float(np.mean(overlapped)) / NS_PER_S


def measure_launches(trace: Trace, loop: Loop, activity: pd.DataFrame, epochs: Intervals) -> Launches | None:
    """Return how the kernels that the loop's process launched in these epochs were queued; None where no launch is known."""
    rows = activity[activity["kernel"] & (activity["launch"] >= 0) & (activity["process"] == loop.process)]
    launch = rows["launch"].to_numpy()
    called, returned = (trace.api[name].to_numpy()[launch] for name in ("start_ns", "end_ns"))
    inside = np.isin(np.arange(len(rows)), overlap(called, called + 1, epochs).left)
    if not inside.any():
        return None
    start, end = bounds_of(rows)
    waits = np.maximum(start - returned, 0)
    queued = overlap(returned, start, epochs)
    # The number of waiting kernels changes at each launch and each start; at equal times the start comes first.
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


def list_gpu_processes(trace: Trace, loop: Loop) -> list[Process]:
    """Return the processes that used a GPU, and the loop's own, with the share that each has of the GPUs' busy time."""
    busy_ns, devices = {loop.process: 0}, {loop.process: list[int]()}
    places = trace.activity[["process", "device"]].drop_duplicates().sort_values(["process", "device"])
    for process, device in places.itertuples(index=False):
        work = trace.activity[(trace.activity["process"] == process) & (trace.activity["device"] == device)]
        covered = total(cover_events(work))
        busy_ns[process] = busy_ns.get(process, 0) + covered
        devices.setdefault(process, []).append(device)
    whole_ns = max(sum(busy_ns.values()), 1)
    return [
        Process(
            process=process,
            summarized=process == loop.process,
            devices=devices[process],
            gpu_busy_s=busy_ns[process] / NS_PER_S,
            gpu_share=busy_ns[process] / whole_ns,
        )
        for process in sorted(busy_ns)
    ]


def warn_of_others(processes: list[Process]) -> list[str]:
    """Return a warning if other processes than the summarised one used a GPU."""
    others = [process for process in processes if not process.summarized and process.gpu_busy_s]
    if not others:
        return []
    (mine,) = (process for process in processes if process.summarized)
    numbers = ", ".join(str(process.process) for process in others)
    return [
        f"{len(others) + 1} processes used a GPU: this is process {mine.process}, with {mine.gpu_share:.0%} of the GPU time; "
        f"process {numbers} used the rest (option --process)"
    ]
