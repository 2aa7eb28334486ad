"""From a trace to its summary: the one way in for whoever wants to know where a trace's time went."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from speedproof.analysis.account import account_for
from speedproof.analysis.advice import give_advice
from speedproof.analysis.attribution import attribute_activity
from speedproof.analysis.bubbles import find_bubbles
from speedproof.analysis.events import read_events
from speedproof.analysis.intervals import Intervals, coverage, difference, holder, intersection, total, union
from speedproof.analysis.kernels import sum_kernels
from speedproof.analysis.loop import DATA_PHASES, Loop, find_loop
from speedproof.records.files import write_json
from speedproof.records.run import write_csv
from speedproof.records.summary import SUMMARY_FILE, Bubble, Epoch, Kernel, Phase, Stream, Summary, Transform

_NS_PER_S = 1e9


def analyze_trace(folder: Path, epoch: str | None = None) -> Summary:
    """Say where the time of a trace went.

    Args:
        folder: the trace, as :mod:`speedproof.records.trace` describes it
        epoch: a regular expression that the whole name of an epoch's range matches; None: found by itself

    Raises:
        RecordError: no trace lies there, it holds nothing, or no range matches `epoch`

    """
    trace = read_events(folder)
    loop = find_loop(trace, epoch)
    activity = attribute_activity(trace, loop)
    bubbles = find_bubbles(trace, loop, activity)
    epochs = _summarize_epochs(loop, activity)
    kernels = sum_kernels(trace.activity[trace.activity["kernel"]])
    ideal, overlapped = _ideal_epochs(loop, activity)
    return Summary(
        profiler=trace.info.profiler,
        profiler_version=trace.info.profiler_version,
        has_gpu=not activity.empty,
        devices=[trace.devices.get(device) or f"GPU {device}" for device in sorted(activity["device"].unique())],
        epochs=epochs,
        phases=_summarize_phases(loop, activity),
        bubbles=_summarize_bubbles(bubbles),
        kernels=[Kernel.model_validate(row) for row in _in_seconds(kernels).to_dict("records")],
        streams=_summarize_streams(loop, activity),
        transforms=_summarize_transforms(loop),
        account=account_for(loop, activity, bubbles),
        unattributed_fraction=_unattributed_fraction(loop, activity),
        ideal_epoch_s=ideal,
        overlapped_epoch_s=overlapped,
        advice=give_advice(bubbles, total(loop.spans), len(epochs)),
        warnings=[*trace.info.warnings, *loop.warnings],
    )


def write_summary(summary: Summary, folder: Path) -> None:
    """Write `epochs.csv`, `phases.csv`, `bubbles.csv` and `kernels.csv`, and `summary.json` last."""
    tables: dict[str, tuple[list[Any], type[BaseModel]]] = {
        "epochs": (summary.epochs, Epoch),
        "phases": (summary.phases, Phase),
        "bubbles": (summary.bubbles, Bubble),
        "kernels": (summary.kernels, Kernel),
    }
    (folder / SUMMARY_FILE).unlink(missing_ok=True)
    for name, (rows, model) in tables.items():
        write_csv(folder / f"{name}.csv", pd.DataFrame([row.model_dump() for row in rows], columns=list(model.model_fields)))
    write_json(folder / SUMMARY_FILE, summary)


def _busy(activity: pd.DataFrame) -> Intervals:
    return union(activity["start_ns"].to_numpy(), activity["end_ns"].to_numpy())


def _in_seconds(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with its columns of nanoseconds, named `…_ns`, in seconds, named `…_s`; null stays null."""
    columns = [str(name) for name in table.columns if str(name).endswith("_ns")]
    seconds = table.assign(**{name: table[name] / _NS_PER_S for name in columns})
    seconds = seconds.rename(columns={name: f"{name.removesuffix('_ns')}_s" for name in columns})
    return seconds.astype(object).where(seconds.notna(), None)


def _summarize_epochs(loop: Loop, activity: pd.DataFrame) -> list[Epoch]:
    spans = loop.spans
    table = pd.DataFrame(
        {
            "duration_ns": spans.length,
            "training_ns": loop.epochs["training_end_ns"] - spans.start,
            "validates": loop.epochs["validates"],
            "kernel_busy_fraction": coverage(_busy(activity[activity["kernel"]]), spans.start, spans.end) / spans.length,
            "gpu_busy_fraction": coverage(_busy(activity), spans.start, spans.end) / spans.length,
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
    busy = [_busy_times(caused[number == row]) for row in range(len(table))]
    table = table.reset_index().join(pd.DataFrame(busy, columns=["gpu_busy_ns", "kernel_busy_ns", "copy_busy_ns", "method"]))
    return [Phase.model_validate(row) for row in _in_seconds(table).to_dict("records")]


def _busy_times(work: pd.DataFrame) -> tuple[int, int, int, str]:
    """Return how long any of this work, its kernels, its copies kept the GPU busy, and how it was attributed."""
    methods = {(): "none", (True,): "own_thread", (False,): "main_thread_window", (False, True): "both"}
    kernel = work["kernel"]
    return (
        total(_busy(work)),
        total(_busy(work[kernel])),
        total(_busy(work[~kernel])),
        methods[tuple(sorted(work["own_thread"].unique()))],
    )


def _summarize_bubbles(bubbles: pd.DataFrame) -> list[Bubble]:
    """Return one row for each cause and detail, the largest first."""
    lengths = bubbles.assign(total_ns=bubbles["end_ns"] - bubbles["start_ns"])
    group = lengths.groupby(["cause", "detail"], observed=True)
    table = group.agg(count=("total_ns", "size"), total_ns=("total_ns", "sum"), covered_ns=("covered_ns", "sum")).reset_index()
    table["coverage"] = table.pop("covered_ns") / table["total_ns"]
    table = table.sort_values("total_ns", ascending=False, kind="stable")
    return [Bubble.model_validate(row) for row in _in_seconds(table).to_dict("records")]


def _summarize_streams(loop: Loop, activity: pd.DataFrame) -> list[Stream]:
    """Return what each device did inside the epochs, followed by each of its streams."""
    rows = []
    for device in np.unique(activity["device"]).tolist():
        on_device = activity[activity["device"] == device]
        streams = {stream: on_device[on_device["stream"] == stream] for stream in np.unique(on_device["stream"]).tolist()}
        rows += [_summarize_stream(loop, device, stream, work) for stream, work in {None: on_device, **streams}.items()]
    return rows


def _summarize_stream(loop: Loop, device: int, stream: int | None, work: pd.DataFrame) -> Stream:
    kernels, copies = (intersection(_busy(work[work["kernel"] == kind]), loop.spans) for kind in (True, False))
    both = total(intersection(kernels, copies))
    return Stream(
        device=device,
        stream=stream,
        kernel_busy_s=total(kernels) / _NS_PER_S,
        copy_busy_s=total(copies) / _NS_PER_S,
        overlap_s=both / _NS_PER_S,
        gpu_busy_s=(total(kernels) + total(copies) - both) / _NS_PER_S,
    )


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


def _unattributed_fraction(loop: Loop, activity: pd.DataFrame) -> float:
    """Return the share of the epochs' GPU busy time in which nothing runs that a phase claims."""
    busy = intersection(_busy(activity), loop.spans)
    claimed = _busy(activity[activity["phase"] >= 0])
    return total(difference(busy, claimed)) / total(busy) if len(busy) else 0.0


def _ideal_epochs(loop: Loop, activity: pd.DataFrame) -> tuple[float | None, float | None]:
    """Return a training epoch's GPU busy time, and that or its data time, whichever is longer; medians over the epochs.

    The data time is that in which the main thread loads data or any thread or process transforms some.
    """
    if activity.empty:
        return None, None
    start, end = loop.spans.start, loop.epochs["training_end_ns"].to_numpy()
    data = loop.on_main_thread(loop.phases)
    data = pd.concat([data[data["name"].isin(DATA_PHASES)], loop.transforms])
    busy = coverage(_busy(activity), start, end)
    overlapped = np.maximum(busy, coverage(_busy(data), start, end))
    return float(np.median(busy)) / _NS_PER_S, float(np.median(overlapped)) / _NS_PER_S
