"""What one run measured, as one number each: the rules are stated in :data:`METRICS` and printed with the numbers."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from speedproof.numbers import Unit
from speedproof.records.results import MeasuredRun
from speedproof.records.run import EPOCHS_FILE, RUN_FILE, Arm, Run
from speedproof.records.summary import SUMMARY_FILE, WARM_UP_NEEDS_EPOCHS, Summary

ARMS: tuple[Arm, ...] = get_args(Arm)


@dataclass(frozen=True)
class Metric:
    """How a metric is called, what it is computed of, which way is better, and what is done with it."""

    title: str
    unit: Unit  # also says how its numbers are written
    files: tuple[str, ...]
    expression: str
    read: Callable[..., float | None]  # of a run and, where it needs one, the Dice to reach; a share as a fraction
    better: Literal["lower", "higher"] = "lower"
    needs_dice: bool = False
    arms: tuple[Arm, ...] = ARMS  # in which it is measured
    compared: bool = True  # ratios of two sides are formed of it
    # Such a ratio is a gain only at equal quality: a shorter epoch in which less is learnt is none. The way to a Dice has its
    # quality built in, and the fill of a cache learns nothing.
    judged: bool = False
    absence: str = ""  # what a run lacks that has no value

    @property
    def lower_is_better(self) -> bool:
        """Return whether a lower value is the better one."""
        return self.better == "lower"


def measure_run(run: MeasuredRun, metric: str, dice: float | None = None) -> float | None:
    """Return a run's value of `metric` in the metric's unit (a share as a fraction), or None where it has none.

    `dice` is the foreground Dice to reach; the metrics that need it ask for it, the others ignore it.
    """
    if (metric, dice) not in run.derived:
        run.derived[metric, dice] = _measure_run(run, METRICS[metric], dice)
    return run.derived[metric, dice]


def _measure_run(run: MeasuredRun, metric: Metric, dice: float | None) -> float | None:
    if run.run.arm not in metric.arms:
        return None
    if not metric.needs_dice:
        return metric.read(run)
    if dice is None:
        raise ValueError("this metric needs the Dice to reach")
    return metric.read(run, dice)


def warm_up_epochs(run: Run) -> set[int]:
    """Return the epochs that warm up: the first one of each process, of which a continued run has several."""
    return {1, *(part.first_epoch for part in run.continued)}


def training_epoch_s(epochs: pd.DataFrame, warm_ups: Collection[int] = (1,)) -> float | None:
    """Return the median training part of an epoch, those that warm up left out where two others remain."""
    if epochs.empty:
        return None
    steady = epochs[~_warm(epochs, warm_ups)]
    counted = steady if len(steady) >= WARM_UP_NEEDS_EPOCHS - 1 else epochs
    return float(counted["train_s"].median())


def validation_epoch_s(epochs: pd.DataFrame, warm_ups: Collection[int] = (1,)) -> float | None:
    """Return the median length of the epochs that validate, those that warm up left out; None where no other validates."""
    validating = epochs[epochs["validation_s"].notna() & ~_warm(epochs, warm_ups)]
    return None if validating.empty else float(_epoch_totals(validating).median())


def epoch_s(epochs: pd.DataFrame, warm_ups: Collection[int] = (1,)) -> float | None:
    """Return the mean length of an epoch over whole validation intervals, those with a warm-up left out where others remain.

    An interval ends with an epoch that validates. None where no epoch validates.
    """
    counted = epochs[_whole_intervals(epochs["validation_s"].notna(), _warm(epochs, warm_ups))]
    return None if counted.empty else float(_epoch_totals(counted).mean())


def validation_share(summary: Summary) -> float:
    """Return the share of a trace's epochs that validate, over the intervals of :func:`epoch_s`: 1 / `validate_every`."""
    epochs = pd.DataFrame([(epoch.index, epoch.validates) for epoch in summary.epochs], columns=["epoch", "validates"])
    counted = epochs["validates"][_whole_intervals(epochs["validates"], _warm(epochs, {1}))]
    return 0.0 if counted.empty else float(counted.mean())


def gpu_busy_fraction(summary: Summary) -> float | None:
    """Return the share of the epochs' time in which the GPU ran a kernel or copied; None without a GPU."""
    if not summary.has_gpu or not summary.epochs:
        return None
    epochs = summary.steady_epochs
    busy_s = sum(epoch.gpu_busy_fraction * epoch.duration_s for epoch in epochs)
    return busy_s / sum(epoch.duration_s for epoch in epochs)


def epochs_to_dice(epochs: pd.DataFrame, dice: float) -> int | None:
    """Return how many epochs passed until a validation reached `dice` (foreground only); None where none did."""
    reached = (epochs["dice_foreground"] >= dice).to_numpy().nonzero()[0]
    return int(reached[0]) + 1 if reached.size else None


def time_to_dice_s(run: MeasuredRun, dice: float) -> float | None:
    """Return the seconds of the epochs up to a Dice, less the first step of each process that trained one of them."""
    reached = epochs_to_dice(run.epochs, dice)
    return None if reached is None else _first_epochs_s(run.epochs, reached) - _warm_ups_s(run, reached)


def process_to_dice_s(run: MeasuredRun, dice: float) -> float | None:
    """Return the seconds from the start of the process until an epoch reached a Dice; none of several processes."""
    reached = epochs_to_dice(run.epochs, dice)
    return None if reached is None or run.run.continued else run.run.start_up_s + _first_epochs_s(run.epochs, reached)


def _first_epochs_s(epochs: pd.DataFrame, count: int) -> float:
    return float(_epoch_totals(epochs).iloc[:count].sum())


def _warm_ups_s(run: MeasuredRun, epochs: int) -> float:
    """Return the first steps' time of all processes that trained one of a run's first so many epochs."""
    later = [part.warm_up_s or 0.0 for part in run.run.continued if part.first_epoch <= epochs]
    return (run.run.warm_up_s or 0.0) + sum(later)


def _whole_intervals(validates: pd.Series, warm: pd.Series) -> pd.Series:
    """Return which epochs lie in a whole validation interval, those with a warm-up left out where others remain."""
    interval = validates.cumsum().shift(fill_value=0)
    whole = interval < validates.sum()
    steady = whole & ~interval.isin(interval[warm])
    return steady if steady.any() else whole


def _warm(epochs: pd.DataFrame, warm_ups: Collection[int]) -> pd.Series:
    return epochs["epoch"].isin(list(warm_ups))


def _epoch_totals(epochs: pd.DataFrame) -> pd.Series:
    return epochs["train_s"] + epochs["validation_s"].fillna(0.0)


_UP_TO_DICE = "sum of train_s + validation_s up to the first epoch whose dice_foreground reaches it"
_ONE_PROCESS = "none of a run that several processes continued"

# Every metric, by name: in `comparison.json`, claims and tables in this order. To add one is to add it here.
METRICS: dict[str, Metric] = {
    "training_epoch_s": Metric(
        "training epoch",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        "median of train_s; without the first epoch of each process where two others remain",
        lambda run: training_epoch_s(run.epochs, warm_up_epochs(run.run)),
        judged=True,
    ),
    "validation_epoch_s": Metric(
        "training + validation epoch",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        "median of train_s + validation_s over the epochs that validate; never the first epoch of a process",
        lambda run: validation_epoch_s(run.epochs, warm_up_epochs(run.run)),
        judged=True,
        absence="no epoch after the first validated",
    ),
    "epoch_s": Metric(
        "epoch, validation spread",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        "mean of train_s + validation_s over whole validation intervals; without those that hold the first epoch of a process, "
        "where others remain",
        lambda run: epoch_s(run.epochs, warm_up_epochs(run.run)),
        judged=True,
    ),
    "first_epoch_s": Metric(
        "first training epoch",
        "s",
        (EPOCHS_FILE,),
        "train_s of the first epoch",
        lambda run: None if run.epochs.empty else float(run.epochs["train_s"].iloc[0]),
        judged=True,
    ),
    "cache_fill_s": Metric(
        "fill of the cache",
        "s",
        (RUN_FILE,),
        "cache_fill_s",
        lambda run: run.run.cache_fill_s or None,  # 0: nothing is cached
        absence="nothing was cached",
    ),
    "process_s": Metric(
        "whole process",
        "s",
        (RUN_FILE,),
        f"process_s; {_ONE_PROCESS}",
        lambda run: None if run.run.continued else run.run.process_s,
        judged=True,
        absence="a run that several processes continued has none",
    ),
    "gpu_busy_fraction": Metric(
        "GPU busy",
        "%",
        (SUMMARY_FILE,),
        "mean of epochs[].gpu_busy_fraction weighted by duration_s; without the first epoch where there are three or more",
        lambda run: gpu_busy_fraction(run.summary) if run.summary else None,
        better="higher",
        compared=False,
        absence="it needs a profiled run on a GPU",
    ),
    "time_to_dice_s": Metric(
        "time to Dice, training clock",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        f"{_UP_TO_DICE}, less warm_up_s, the first step, also of each process that continued the run up to there",
        time_to_dice_s,
        needs_dice=True,
        arms=("timed",),
    ),
    "process_to_dice_s": Metric(
        "time to Dice from the start of the process",
        "s",
        (EPOCHS_FILE, RUN_FILE),
        f"start_up_s and the {_UP_TO_DICE}; {_ONE_PROCESS}",
        process_to_dice_s,
        needs_dice=True,
        arms=("timed",),
        absence="a run that several processes continued has none",
    ),
    "epochs_to_dice": Metric(
        "epochs to Dice",
        "epochs",
        (EPOCHS_FILE,),
        "number of epochs up to the first whose dice_foreground reaches it",
        lambda run, dice: epochs_to_dice(run.epochs, dice),
        needs_dice=True,
        arms=("timed",),
    ),
}
