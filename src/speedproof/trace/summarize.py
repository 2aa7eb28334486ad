"""From a trace to its summary: the one way in for whoever wants to know where a trace's time went."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

import numpy as np
import pandas as pd
from numpy.typing import NDArray
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
from speedproof.trace.account import account_for, sum_idle_gaps
from speedproof.trace.advice import give_advice
from speedproof.trace.attribution import attribute_activity, explain_unattributed
from speedproof.trace.causes import HOST, NO_RANGE, UNEXPLAINED
from speedproof.trace.completeness import find_gpu_untraced
from speedproof.trace.copy_rates import summarize_copies
from speedproof.trace.counters import count_functions, summarize_memory, summarize_metrics
from speedproof.trace.critical_path import find_critical_paths, measure_skew
from speedproof.trace.events import Trace, are_named, bounds_of, cover_events, read_events, with_names
from speedproof.trace.idle_gaps import find_idle_gaps
from speedproof.trace.intervals import Array, Intervals, coverage, difference, holder, intersection, total
from speedproof.trace.iterations import Choice
from speedproof.trace.kernel_groups import is_communication, measure_communication, sum_kernels
from speedproof.trace.loop import CHOOSES_NOTHING, Loop, find_loop
from speedproof.trace.outliers import list_gaps, list_slowest
from speedproof.trace.roles import loads_data
from speedproof.trace.roofline import measure_arithmetic
from speedproof.util.memory import keep_freed_memory, trim_memory
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
    return analyze_chosen(folder, Choice(epoch, dict(phases or {}), process, whole), may_be_empty)


def analyze_chosen(folder: Path, choice: Choice = CHOOSES_NOTHING, may_be_empty: bool = False) -> Summary:
    """Summarize where the time of a trace went, as :func:`analyze_trace` does."""
    with keep_freed_memory():
        trace = read_events(folder)
        if may_be_empty and trace.is_empty:
            return _summarize_nothing(trace)
        trim_memory()
        loop = find_loop(trace, choice)
        trim_memory()
        activity = attribute_activity(trace, loop)
        trim_memory()
        return _summarize(trace, loop, activity, find_idle_gaps(trace, loop, activity))


def _summarize(trace: Trace, loop: Loop, activity: pd.DataFrame, idle_gaps: pd.DataFrame) -> Summary:
    trim_memory()
    epochs = _summarize_epochs(loop, activity)
    warm_up = count_warm_up(len(epochs))
    counted = Intervals(loop.spans.start[warm_up:], loop.spans.end[warm_up:])
    steady = (idle_gaps["epoch"] > warm_up).to_numpy(bool)
    unexplained = cover_events(idle_gaps, steady & idle_gaps["cause"].isin([HOST, NO_RANGE]).to_numpy(bool))
    free_ns = _free_ns(activity, counted)
    trim_memory()
    counting = idle_gaps.loc[steady, ["start_ns", "end_ns", "cause", "topic"]]
    advice = give_advice(counting, int(counted.length.sum()), len(counted), free_ns, trace.info.profiler)
    del counting, steady  # millions of rows, as those of the gaps below
    zero_ns = trace.info.zero_ns or 0
    gaps, causes = list_gaps(idle_gaps, activity, zero_ns), _summarize_idle_gaps(idle_gaps, warm_up, len(counted))
    idle = idle_gaps if activity.empty else sum_idle_gaps(idle_gaps)
    del idle_gaps
    trim_memory()
    account = account_for(loop, activity, idle)
    launches = measure_launches(trace, loop, activity, counted)
    trim_memory()
    unattributed = explain_unattributed(loop, activity)
    processes = list_gpu_processes(trace, loop) if loop.recorded else []
    ideal, overlapped = _ideal_epochs(loop, activity, warm_up)
    metrics, notes = summarize_metrics(trace.metrics, activity["device"].unique().tolist(), counted)
    streams, unlisted = _summarize_streams(loop, activity)
    copies, impossible = summarize_copies(trace, loop.process, counted)
    arithmetic, beyond = measure_arithmetic(trace, loop.process, activity, counted)
    return Summary(
        profiler=trace.info.profiler,
        profiler_version=trace.info.profiler_version,
        has_gpu=not activity.empty,
        gpu_untraced=find_gpu_untraced(trace),
        devices=[trace.devices.get(device) or f"GPU {device}" for device in sorted(activity["device"].unique())],
        processes=processes,
        found=loop.iterations.found,
        candidates=loop.iterations.candidates,
        recorded=loop.recorded,
        epochs=epochs,
        phases=_summarize_phases(loop, activity),
        idle_gaps=causes,
        kernels=_summarize_kernels(trace, loop, counted),
        streams=streams,
        transforms=_summarize_transforms(loop),
        account=account,
        zero_ns=trace.info.zero_ns,
        gaps=gaps,
        slowest=list_slowest(epochs, account, zero_ns),
        critical_paths=find_critical_paths(trace, loop, activity),
        clock_skew=measure_skew(trace, activity),
        launches=launches,
        communication=_summarize_communication(activity, counted),
        metrics=metrics,
        memory=summarize_memory(trace.memory, loop.process, counted),
        copies=copies,
        arithmetic=arithmetic,
        sampled_functions=count_functions(loop.on_main_thread(trace.cpu_samples), unexplained),
        sampled_python=count_functions(loop.on_main_thread(trace.python_samples), unexplained),
        unattributed_fraction=sum(share.fraction for share in unattributed),
        unattributed=unattributed,
        ideal_epoch_s=ideal,
        overlapped_epoch_s=overlapped,
        advice=advice,
        warnings=list(
            dict.fromkeys(
                [*trace.info.warnings, *loop.warnings, *notes, *unlisted, *impossible, *beyond, *warn_of_others(processes)]
            )
        ),
    )


def _summarize_nothing(trace: Trace) -> Summary:
    """Return the summary of a trace without ranges, kernels and calls, as one without a GPU and NVTX leaves it."""
    untraced = find_gpu_untraced(trace)
    warning = "it holds no ranges, kernels or calls"
    if untraced is None:
        warning += ": the program used no GPU, and has no NVTX ranges"
    empty: dict[str, Any] = {name: [] for name, field in Summary.model_fields.items() if get_origin(field.annotation) is list}
    about: dict[str, Any] = {"profiler": trace.info.profiler, "profiler_version": trace.info.profiler_version}
    about["gpu_untraced"] = untraced
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
    kernels = activity["kernel"].to_numpy()
    free = difference(cover_events(activity, kernels), cover_events(activity, ~kernels))
    return int(coverage(free, epochs.start, epochs.end).sum())


def _summarize_communication(activity: pd.DataFrame, epochs: Intervals) -> Communication | None:
    if not (are_named(activity, is_communication) & activity["kernel"].to_numpy()).any():
        return None
    whole_s, exposed_s = measure_communication(activity[activity["kernel"]], epochs)
    return Communication(seconds_per_epoch=whole_s, exposed_s=exposed_s)


def _summarize_kernels(trace: Trace, loop: Loop, epochs: Intervals) -> list[Kernel]:
    columns = ["name", "start_ns", "end_ns"]
    kernels = sum_kernels(trace.activity.loc[trace.activity["kernel"] & loop.recorded, columns], epochs)
    launch_ns = _sum_launches(trace)
    kernels["launch_ns"] = np.array([launch_ns.get(name, np.nan) for name in kernels["name"]], float)
    return [Kernel.model_validate(row) for row in _list_rows(kernels)]


def _sum_launches(trace: Trace) -> dict[str, float]:
    """Return the time of the calls that launched each kernel, by its name; one that launched several counts a part for each."""
    launched = trace.activity["kernel"].to_numpy() & (trace.activity["launch"].to_numpy() >= 0)
    launch = trace.activity["launch"].to_numpy()[launched]
    took = (trace.api["end_ns"] - trace.api["start_ns"]).to_numpy()
    shared = np.bincount(launch, minlength=len(took) + 1)
    sums = pd.Series(took[launch] / shared[launch]).groupby(trace.activity["name"].array[launched], observed=True).sum()
    return dict(zip(map(str, sums.index), sums.tolist(), strict=True))


def _list_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the table's rows. Columns of nanoseconds, named `…_ns`, become seconds, named `…_s`; null becomes None."""
    columns: dict[str, list[Any]] = {}
    for name, values in table.items():
        in_ns = str(name).endswith("_ns")
        listed = (values / NS_PER_S if in_ns else values).tolist()
        missing = values.isna().to_numpy()
        if missing.any():
            listed = [None if absent else value for value, absent in zip(listed, missing, strict=True)]
        columns[f"{str(name).removesuffix('_ns')}_s" if in_ns else str(name)] = listed
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _summarize_epochs(loop: Loop, activity: pd.DataFrame) -> list[Epoch]:
    spans, kernel = loop.spans, activity["kernel"].to_numpy(bool)
    table = pd.DataFrame(
        {
            "duration_ns": spans.length,
            "training_ns": loop.epochs["training_end_ns"] - spans.start,
            "validates": loop.epochs["validates"],
            "number": loop.epochs["number"].where(loop.epochs["number"] >= 0),
            "kernel_busy_fraction": coverage(cover_events(activity, kernel), spans.start, spans.end) / spans.length,
            "gpu_busy_fraction": coverage(cover_events(activity), spans.start, spans.end) / spans.length,
        }
    )
    bounds = zip(spans.start.tolist(), spans.end.tolist(), strict=True)
    rows = zip(bounds, _list_rows(table), strict=True)
    return [
        Epoch.model_validate({"index": index, "start_ns": start_ns, "end_ns": end_ns, **row})
        for index, ((start_ns, end_ns), row) in enumerate(rows, start=1)
    ]


def _summarize_phases(loop: Loop, activity: pd.DataFrame) -> list[Phase]:
    """Return one row for each phase and part, in order of first appearance."""
    caused = np.flatnonzero(activity["phase"].to_numpy() >= 0)
    phase = activity["phase"].to_numpy()[caused]
    start, end = bounds_of(activity)
    first_ns, last_ns = np.full(len(loop.phases), np.iinfo(np.int64).max), np.zeros(len(loop.phases), np.int64)
    np.minimum.at(first_ns, phase, start[caused])
    np.maximum.at(last_ns, phase, end[caused])
    calls = loop.phases.assign(
        wall_ns=loop.phases["end_ns"] - loop.phases["start_ns"], projected_ns=np.maximum(last_ns - first_ns, 0)
    )
    group = calls.groupby(["name", "part"], observed=True, sort=False)
    table = group.agg(calls=("wall_ns", "size"), wall_ns=("wall_ns", "sum"), projected_ns=("projected_ns", "sum"))
    number = group.ngroup().to_numpy()[phase]  # groups count in the order in which the table lists them
    order = np.argsort(number, kind="stable")  # each group's work lies together: names may be as many as events
    first = np.searchsorted(number[order], np.arange(len(table) + 1))
    work = caused[order]
    busy = [_busy_times(activity, np.sort(work[first[row] : first[row + 1]])) for row in range(len(table))]
    table = table.reset_index().join(pd.DataFrame(busy, columns=["gpu_busy_ns", "kernel_busy_ns", "copy_busy_ns", "method"]))
    return [Phase.model_validate(row) for row in _list_rows(table)]


def _busy_times(activity: pd.DataFrame, rows: NDArray[np.integer]) -> tuple[int, int, int, str]:
    """Return how long any work of these rows, its kernels, its copies kept the GPU busy, and how it was attributed."""
    methods = {(): "none", (True,): "own_thread", (False,): "main_thread_window", (False, True): "both"}
    kernel, own = (activity[name].to_numpy()[rows] for name in ("kernel", "own_thread"))
    busy = [total(cover_events(activity, some)) for some in (rows, rows[kernel], rows[~kernel])]
    return busy[0], busy[1], busy[2], methods[tuple(np.unique(own).tolist())]


def _summarize_idle_gaps(idle_gaps: pd.DataFrame, warm_up: int, counted: int) -> list[IdleGap]:
    """Return one row for each cause and detail, the largest first; so many epochs count after those that warm up."""
    if idle_gaps.empty:
        return []
    cause, detail = idle_gaps["cause"].array, idle_gaps["detail"].array
    key, kinds = pd.factorize(cause.codes * np.int64(len(detail.categories)) + detail.codes, sort=True)
    start, end = bounds_of(idle_gaps)
    sums = np.zeros((2, len(kinds)), np.int64)
    np.add.at(sums[0], key, end - start)
    np.add.at(sums[1], key, np.where(idle_gaps["epoch"].to_numpy() > warm_up, end - start, 0))
    stretch = idle_gaps["stretch"].to_numpy()
    among = int(stretch.max()) + 1
    pieces = np.sort(key * among + stretch)  # several pieces of a stretch with one cause and detail count once
    distinct = pieces[np.append(True, pieces[1:] != pieces[:-1])]
    of_cause, of_detail = np.divmod(kinds, len(detail.categories))
    table = pd.DataFrame({"cause": cause.categories[of_cause], "detail": detail.categories[of_detail], "total_ns": sums[0]})
    table["count"] = np.bincount(distinct // among, minlength=len(kinds))
    table["steady_ns"] = sums[1]
    table["coverage"] = np.where(table["cause"] != UNEXPLAINED, 1.0, 0.0)
    table["seconds_per_epoch"] = table.pop("steady_ns") / counted / NS_PER_S
    table = table.sort_values("total_ns", ascending=False, kind="stable")
    return [IdleGap.model_validate(row) for row in _list_rows(table)]


def _summarize_streams(loop: Loop, activity: pd.DataFrame) -> tuple[list[Stream], list[str]]:
    """Return what each device did in each epoch, followed by its streams that did anything there, and what is not listed."""
    chosen, notes = _choose_streams(activity, len(loop.spans))
    tables = []
    for device in np.unique(activity["device"]).tolist():
        on_device = np.flatnonzero(activity["device"].to_numpy() == device)
        tables.append(_busy_by_epoch(loop, activity, on_device, device))
        on_stream = activity["stream"].to_numpy()[on_device]
        streams = [stream for one, stream in chosen if one == device]
        tables += [_busy_by_epoch(loop, activity, on_device[on_stream == stream], device, stream) for stream in streams]
    if not tables:
        return [], []
    table = pd.concat(tables, ignore_index=True).sort_values("epoch", kind="stable")
    return [Stream.model_validate(row) for row in _list_rows(table)], notes


def _choose_streams(activity: pd.DataFrame, epochs: int) -> tuple[list[tuple[int, int]], list[str]]:
    """Return which streams are listed, by device and number, and a note if others were less busy than those."""
    busy = (activity["end_ns"] - activity["start_ns"]).groupby([activity["device"], activity["stream"]]).sum()
    most = min(_MOST_STREAMS, _MOST_STREAM_ROWS // max(epochs, 1))
    if len(busy) <= most:
        return busy.index.tolist(), []
    note = f"only the {most} busiest of {len(busy)} streams are listed; GPU times count all"
    return sorted(busy.nlargest(most).index.tolist()), [note]


def _busy_by_epoch(
    loop: Loop, activity: pd.DataFrame, rows: NDArray[np.integer], device: int, stream: int | None = None
) -> pd.DataFrame:
    """Return how long work of one device, or one of its streams, kept it busy in each epoch; a stream at rest has no row."""
    spans, kernel = loop.spans, activity["kernel"].to_numpy()[rows]
    kernels, copies = cover_events(activity, rows[kernel]), cover_events(activity, rows[~kernel])
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
    return [Transform.model_validate(row) for row in _list_rows(table)]


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
    rows = activity["kernel"].to_numpy() & (activity["launch"].to_numpy() >= 0)
    rows &= activity["process"].to_numpy() == loop.process
    launch = activity["launch"].to_numpy()[rows]
    called, returned = (trace.api[name].to_numpy()[launch] for name in ("start_ns", "end_ns"))
    inside = holder(epochs, called) >= 0
    if not inside.any():
        return None
    took = returned - called
    del called  # each of these may take a hundred megabytes
    start, end = (bound[rows] for bound in bounds_of(activity))
    took = took[inside]
    short = (end - start)[inside] < took
    del end
    queued_ns = int(coverage(epochs, returned, np.maximum(start, returned)).sum())
    waits = np.maximum(start - returned, 0)
    first = ~pd.Series(launch[inside]).duplicated().to_numpy()  # a graph's kernels share one call
    return Launches(
        calls=int(first.sum()),
        call_s=float(np.median(took[first])) / NS_PER_S,
        delay_s=float(np.median(waits[inside])) / NS_PER_S,
        delay_p99_s=float(np.percentile(waits[inside], 99)) / NS_PER_S,
        short_fraction=float(np.mean(short)),
        queue_mean=float(queued_ns / epochs.length.sum()),
        queue_most=_count_queued(returned[waits > 0], start[waits > 0]),
    )


def _count_queued(returned: Array, start: Array) -> int:
    """Return how many kernels wait at most: those whose launch had returned, and that had not started."""
    asked, begun = (np.sort(moment, kind="stable") for moment in (returned, start))  # both nearly are in order already
    waiting = np.searchsorted(begun, asked, side="right")
    return int((np.arange(1, len(asked) + 1) - waiting).max(initial=0))


def list_gpu_processes(trace: Trace, loop: Loop) -> list[Process]:
    """Return the processes that used a GPU, and the loop's own, with the share that each has of the GPUs' busy time."""
    busy_ns, devices = {loop.process: 0}, {loop.process: list[int]()}
    places = trace.activity[["process", "device"]].drop_duplicates().sort_values(["process", "device"])
    by_process, by_device = (trace.activity[name].to_numpy() for name in ("process", "device"))
    for process, device in places.itertuples(index=False):
        covered = total(cover_events(trace.activity, (by_process == process) & (by_device == device)))
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
