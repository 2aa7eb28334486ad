"""What one run measured, as one number each: the rules are stated in :data:`METRICS` and printed with the numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from speedproof.results.comparison import MetricNote
from speedproof.results.folder import MeasuredRun
from speedproof.results.quality import Better, Quality
from speedproof.results.run_record import EPOCHS_FILE, GPU_FILE, RUN_FILE, Mode, Run, read_epochs
from speedproof.results.summary import SUMMARY_FILE
from speedproof.stats.run_values import (
    LONGEST_GAP_S,
    SHORTEST_S,
    Chosen,
    all_epochs_s,
    counted_epochs,
    energy_per_epoch_j,
    epoch_s,
    epochs_to_quality,
    fill_and_epochs_s,
    gpu_busy_fraction,
    gpu_busy_sampled_fraction,
    mark_warm_up,
    peak_memory_mib,
    process_to_quality_s,
    samples_per_s,
    steady_epochs,
    time_to_quality_s,
    training_epoch_s,
    validation_epoch_s,
    warm_up_epochs,
)
from speedproof.util.numbers import Unit

Device = Literal["gpu", "cpu"]
MODES: tuple[Mode, ...] = get_args(Mode)

# The metrics that other modules ask for by name; what they do with all others is in the entries.
TRAINING_EPOCH, VALIDATED_EPOCH, SPREAD_EPOCH, RATE, PROCESS = (
    "training_epoch_s",
    "validation_epoch_s",
    "epoch_s",
    "samples_per_s",
    "process_s",
)
# What help and outcomes call metrics.
METRIC_WORDS = {"wall time": PROCESS, "epoch time": TRAINING_EPOCH, "rate": RATE}
CACHE_FILL, TRACED_BUSY, SAMPLED_BUSY = "cache_fill_s", "gpu_busy_fraction", "gpu_busy_sampled_fraction"
EPOCHS_TO_QUALITY, TIME_TO_QUALITY, PROCESS_TO_QUALITY = "epochs_to_quality", "time_to_quality_s", "process_to_quality_s"


@dataclass(frozen=True)
class Metric:
    """How a metric is called, what it is computed of, which way is better, and what is done with it."""

    title: str  # where `{quality}` stands for what the quality is called
    unit: Unit  # also says how its numbers are written
    files: tuple[str, ...]
    expression: str
    read: Callable[..., float | None]  # of a run and, where it needs one, the quality to reach; a share as a fraction
    better: Better = "lower"
    verb: str = ""  # what a faster variant does faster; without one sentences name the measure
    measure: str = ""  # as in "measured by training epoch time"; without one the title
    # Of the lowest tier that has any ratio all ratios are read first: epochs, else rates, else processes.
    headline: int | None = None
    needs_target: bool = False
    modes: tuple[Mode, ...] = MODES  # in which it is measured
    devices: tuple[Device, ...] = get_args(Device)  # on which
    further: bool = False  # stands in the report's table of further metrics
    compared: bool = True  # ratios of two variants are formed of it
    # Such a ratio is a gain only at equal quality: a shorter epoch in which less is learnt is none. The way to a quality has it
    # built in, and the fill of a cache learns nothing.
    judged: bool = False
    total: bool = False  # of a whole training: another number of epochs gives another ratio, too
    spreads: bool = False  # validation is in it: how often a variant validates changes it
    counts: Callable[[MeasuredRun], Chosen] | None = None  # which epochs, where those that warm up are left out
    average: bool = False  # over epochs, so that all of them together may say something else
    validates: bool = False  # has a value of runs that mark their validations alone
    in_containers: bool = False  # compared inside and outside of a container
    listed_with: str | None = None  # listed if that metric has a value; else it would repeat another one
    spent: Callable[[MeasuredRun], float] | None = None  # what a run took that did not reach the quality
    # Whether it is an epoch's time, the sum of several, or a rate of one: what the digits of printed epochs let it be off.
    printed: Literal["epoch", "epochs", "rate"] | None = None
    absence: str = ""  # what a run lacks that has no value

    @property
    def lower_is_better(self) -> bool:
        return self.better == "lower"

    def note(self, quality: Quality) -> MetricNote:
        """Return a comparison's note on this metric."""
        return MetricNote(
            title=self.title.format(quality=quality.title),
            unit=self.unit,
            better=self.better,
            files=list(self.files),
            expression=self.expression,
            further=self.further,
        )


def measure_run(run: MeasuredRun, metric: str, target: float | None = None) -> float | None:
    """Return a run's value of `metric` in the metric's unit (a share as a fraction), or None.

    `target` is the quality to reach, for the metrics that need one.
    """
    if (metric, target) not in run.derived:
        run.derived[metric, target] = _measure_run(run, METRICS[metric], target)
    return run.derived[metric, target]


def _measure_run(run: MeasuredRun, metric: Metric, target: float | None) -> float | None:
    if metric.printed in ("epoch", "epochs") and run.run.observed and run.run.observed.rates:
        return None  # an "epoch" of theirs is one sample
    device: Device = "gpu" if run.run.conditions.gpu else "cpu"
    if run.run.mode not in metric.modes or device not in metric.devices:
        return None
    if not metric.needs_target:
        value = metric.read(run)
    elif target is None:
        raise ValueError("this metric needs the quality to reach")
    else:
        value = metric.read(run, target)
    return None if value is None or math.isnan(value) else value  # not a number: the program never reported it


def relative_resolution(run: MeasuredRun, metric: str, target: float | None = None) -> float:
    """Return by which share of it a metric may be off, by the last digit of the run's printed epochs; 0 of others."""
    kind, resolution_s = METRICS[metric].printed, run.run.resolution_s
    value = measure_run(run, metric, target)
    if kind is None or resolution_s is None or not value:
        return 0.0
    if kind == "epochs":
        count = len(run.epochs) if target is None else epochs_to_quality(run, target)
        return resolution_s * (count or 0) / value
    if kind == "rate":
        value = training_epoch_s(run.epochs, warm_up_epochs(run.run)) or math.inf
    return resolution_s / value


def counts_warm_up(run: MeasuredRun, metric: str) -> bool:
    """Return whether a metric that leaves out epochs that warm up counts one of a run, which has too few others."""
    counts = METRICS[metric].counts
    return counts is not None and bool((counts(run) & mark_warm_up(run.epochs, warm_up_epochs(run.run))).any())


def default_metric(epochs: bool, rates: bool = False) -> str:
    """Return what programs are compared by that report rates, epochs or neither."""
    if rates:
        return RATE
    return TRAINING_EPOCH if epochs else PROCESS


def list_headlines() -> list[list[str]]:
    """Return the metrics of each tier of ratios to be read first."""
    tiers = sorted({metric.headline for metric in METRICS.values() if metric.headline is not None})
    return [[name for name, metric in METRICS.items() if metric.headline == tier] for tier in tiers]


@dataclass(frozen=True)
class Compared:
    """What a run is compared by while rounds go on: a cost, of which less is better, and how far digits let it be off."""

    cost: float | None  # of a rate one over it; None: the run has no value
    resolution: float  # a share of the cost


def read_compared(folder: Path, run: Run, metric: str | None, epochs: pd.DataFrame | None = None) -> Compared:
    """Return what a run in `folder` is compared by; without a metric, by :func:`default_metric`.

    Its epochs are read unless they are given.
    """
    name = metric or default_metric(bool(run.epochs))
    measured = MeasuredRun(
        results=folder.parents[3],
        experiment=folder.parents[1].name,
        experiment_folder=folder.parents[1].relative_to(folder.parents[3]),
        name=folder.name,
        run=run,
        title=run.variant,
        epochs=read_epochs(folder) if epochs is None else epochs,
        quality=Quality(),
        summary=None,
    )
    value = measure_run(measured, name)
    cost = value if value is None or METRICS[name].lower_is_better else 1 / value if value else None
    return Compared(cost, relative_resolution(measured, name))


_UP_TO_QUALITY = "sum of train_s + validation_s up to the first epoch that reaches the quality"
_ONE_PROCESS = "no value if the run was resumed in another process"
_SAMPLED = (
    f"over the epochs that count in epoch_s; no value if they take less than {SHORTEST_S:g} s in total, because NVML averages "
    f"over a second; no value if more than {LONGEST_GAP_S:g} s lack samples or lie between epochs; {_ONE_PROCESS}"
)

# Every metric, by name: in `comparison.json`, claims and tables in this order. To add one is to add it here.
METRICS: dict[str, Metric] = {
    TRAINING_EPOCH: Metric(
        "training epoch",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        "mean of train_s, excluding the first epoch of each process if at least two others remain",
        lambda run: training_epoch_s(run.epochs, warm_up_epochs(run.run)),
        judged=True,
        counts=steady_epochs,
        printed="epoch",
        verb="trains an epoch",
        measure="training epoch time",
        headline=0,
        average=True,
        in_containers=True,
    ),
    VALIDATED_EPOCH: Metric(
        "training + validation epoch",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        "mean of train_s + validation_s over the epochs with a validation, excluding the first epoch of each process",
        lambda run: validation_epoch_s(run.epochs, warm_up_epochs(run.run)),
        judged=True,
        absence="no epoch after the first validated",
        printed="epoch",
        verb="trains and validates an epoch",
        measure="training + validation epoch time",
        headline=0,
        average=True,
        validates=True,
        in_containers=True,
    ),
    SPREAD_EPOCH: Metric(
        "epoch, validation spread",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        "mean of train_s + validation_s over whole validation intervals, excluding those that contain the first epoch of a "
        "process if others remain",
        lambda run: epoch_s(run.epochs, warm_up_epochs(run.run)),
        judged=True,
        spreads=True,
        counts=counted_epochs,
        printed="epoch",
        verb="runs an epoch",
        measure="epoch time with validation spread evenly",
        average=True,
        validates=True,
    ),
    "first_epoch_s": Metric(
        "first training epoch",
        "s",
        (EPOCHS_FILE,),
        "train_s of the first epoch",
        lambda run: None if run.epochs.empty else float(run.epochs["train_s"].iloc[0]),
        judged=True,
        printed="epoch",
    ),
    CACHE_FILL: Metric(
        "fill of the cache",
        "s",
        (RUN_FILE,),
        "cache_fill_s",
        lambda run: run.run.cache_fill_s or None,  # 0: nothing is cached
        absence="nothing was cached",
        in_containers=True,
    ),
    "cache_gb": Metric(
        "memory of the cached set",
        "GB",
        (RUN_FILE,),
        "cache_bytes / 10⁹, training and validation together",
        lambda run: None if run.run.cache_bytes is None else run.run.cache_bytes / 1e9,
        modes=("timed",),
        further=True,
        compared=False,
        absence="nothing was cached in memory, or the run did not report it",
    ),
    PROCESS: Metric(
        "whole process",
        "s",
        (RUN_FILE,),
        f"process_s; {_ONE_PROCESS}",
        lambda run: None if run.run.continued else run.run.process_s,
        judged=True,
        total=True,
        spreads=True,
        absence="a run that was resumed in another process has no value",
        verb="runs",
        measure="the wall time of the whole process",
        headline=2,
        in_containers=True,
    ),
    TRACED_BUSY: Metric(
        "GPU busy",
        "%",
        (SUMMARY_FILE,),
        "mean of epochs[].gpu_busy_fraction, weighted by duration_s; with three epochs or more, the first is excluded",
        lambda run: gpu_busy_fraction(run.summary) if run.summary else None,
        better="higher",
        compared=False,
        absence="it needs a profiled run on a GPU",
    ),
    RATE: Metric(
        "training samples per second",
        "/s",
        (EPOCHS_FILE, RUN_FILE),
        "sum of samples_per_s × train_s / sum of train_s, excluding the first epoch of each process if at least two others "
        "remain",
        lambda run: samples_per_s(run.epochs, warm_up_epochs(run.run)),
        better="higher",
        modes=("timed",),
        further=True,
        judged=True,
        counts=steady_epochs,
        printed="rate",
        verb="processes training samples",
        headline=1,
        average=True,
    ),
    "all_epochs_s": Metric(
        "all epochs",
        "s",
        (EPOCHS_FILE,),
        "sum of train_s + validation_s over all epochs",
        lambda run: all_epochs_s(run.epochs),
        modes=("timed",),
        further=True,
        judged=True,
        total=True,
        spreads=True,
        printed="epochs",
    ),
    "fill_and_epochs_s": Metric(
        "fill of the cache, all epochs",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        f"cache_fill_s + the sum of train_s + validation_s over all epochs; {_ONE_PROCESS}",
        fill_and_epochs_s,
        modes=("timed",),
        further=True,
        judged=True,
        total=True,
        spreads=True,
        absence="a run that was resumed in another process has no value",
        printed="epochs",
        listed_with=CACHE_FILL,
    ),
    "peak_memory_mib": Metric(
        "peak memory of the GPU",
        "MiB",
        (EPOCHS_FILE,),
        "largest peak_memory_mib: peak memory allocated to tensors, on the GPU that used most",
        lambda run: peak_memory_mib(run.epochs),
        modes=("timed",),
        devices=("gpu",),
        further=True,
        absence="it needs a GPU",
    ),
    "peak_resident_mib": Metric(
        "peak memory of the process",
        "MiB",
        (EPOCHS_FILE,),
        "largest peak_memory_mib: peak resident memory of the process, excluding its data loaders",
        lambda run: peak_memory_mib(run.epochs),
        modes=("timed",),
        devices=("cpu",),
        further=True,
        absence="it is measured only without a GPU",
    ),
    "energy_per_epoch_j": Metric(
        "GPU energy per epoch",
        "J",
        (GPU_FILE, EPOCHS_FILE, RUN_FILE),
        f"power_w of all GPUs, integrated by the trapezoidal rule, / number of epochs, {_SAMPLED}",
        energy_per_epoch_j,
        modes=("timed",),
        devices=("gpu",),
        further=True,
        judged=True,
        spreads=True,
        counts=counted_epochs,
        absence="the GPU did not report its power, or its epochs were too short",
    ),
    SAMPLED_BUSY: Metric(
        "GPU busy, sampled by NVML",
        "%",
        (GPU_FILE, EPOCHS_FILE, RUN_FILE),
        f"gpu_busy_percent, integrated by the trapezoidal rule, / time and number of GPUs, {_SAMPLED}; a GPU that runs one "
        "small kernel counts as busy",
        gpu_busy_sampled_fraction,
        better="higher",
        modes=("timed",),
        devices=("gpu",),
        further=True,
        compared=False,
        absence="the GPU did not report its use, or its epochs were too short",
    ),
    EPOCHS_TO_QUALITY: Metric(
        "epochs to {quality}",
        "epochs",
        (EPOCHS_FILE,),
        "number of epochs up to the first that reaches the quality",
        epochs_to_quality,
        needs_target=True,
        modes=("timed",),
        spent=lambda run: run.run.epochs,
    ),
    TIME_TO_QUALITY: Metric(
        "time to {quality}, training clock",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        f"{_UP_TO_QUALITY}, minus warm_up_s (the first step), also of each process that resumed the run before then",
        time_to_quality_s,
        needs_target=True,
        modes=("timed",),
        printed="epochs",
        spent=lambda run: (all_epochs_s(run.epochs) or 0.0) - (run.run.warm_up_s or 0.0),
    ),
    PROCESS_TO_QUALITY: Metric(
        "time to {quality} from the start of the process",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        f"start_up_s + the {_UP_TO_QUALITY}; {_ONE_PROCESS}",
        process_to_quality_s,
        needs_target=True,
        modes=("timed",),
        absence="a run that was resumed in another process has no value",
        printed="epochs",
        headline=0,
        spent=lambda run: (all_epochs_s(run.epochs) or 0.0) + run.run.start_up_s,
    ),
}
