"""Values of one run, computed from its epochs and samples, and which of its epochs count."""

import math
from collections.abc import Collection
from statistics import fmean

import numpy as np
import numpy.typing as npt
import pandas as pd

from speedproof.results.folder import MeasuredRun
from speedproof.results.run_record import Run
from speedproof.results.summary import WARM_UP_NEEDS_EPOCHS, Summary
from speedproof.stats.gpu_samples import Chosen, Values, epoch_totals, read_column, sum_of_samples


def warm_up_epochs(run: Run) -> set[int]:
    """Return the epochs that warm up: the first one of each process, of which a continued run has several."""
    return {1, *(part.first_epoch for part in run.continued)}


def training_epoch_s(epochs: pd.DataFrame, warm_ups: Collection[int] = (1,)) -> float | None:
    """Return the mean training part of an epoch, those that warm up left out where two others remain."""
    return None if epochs.empty else _mean(read_column(epochs, "train_s")[_steady(epochs, warm_ups)])


def samples_per_s(epochs: pd.DataFrame, warm_ups: Collection[int] = (1,)) -> float | None:
    """Return the training samples of the epochs of :func:`training_epoch_s`, over their time.

    Of printed rates, each of which counts for one sample, that is the harmonic mean.
    """
    if epochs.empty:
        return None
    steady = _steady(epochs, warm_ups)
    seconds = read_column(epochs, "train_s")[steady]
    samples = read_column(epochs, "samples_per_s")[steady] * seconds
    known = np.isfinite(samples)
    total_s = math.fsum(seconds[known])
    return math.fsum(samples[known]) / total_s if total_s else math.nan


def validation_epoch_s(epochs: pd.DataFrame, warm_ups: Collection[int] = (1,)) -> float | None:
    """Return the mean length of the epochs that validate, those that warm up left out; None where no other validates."""
    validating = _validates(epochs) & ~mark_warm_up(epochs, warm_ups)
    return _mean(epoch_totals(epochs)[validating]) if validating.any() else None


def epoch_s(epochs: pd.DataFrame, warm_ups: Collection[int] = (1,)) -> float | None:
    """Return the mean length of an epoch over whole validation intervals, those with a warm-up left out where others remain.

    An interval ends with an epoch that validates. None where no epoch validates.
    """
    counted = _whole_intervals(_validates(epochs), mark_warm_up(epochs, warm_ups))
    return float(epoch_totals(epochs)[counted].mean()) if counted.any() else None


def gpu_busy_fraction(summary: Summary) -> float | None:
    """Return the share of the epochs' time in which the GPU ran a kernel or copied; None without a GPU."""
    if not summary.has_gpu or not summary.epochs:
        return None
    epochs = summary.steady_epochs
    busy_s = sum(epoch.gpu_busy_fraction * epoch.duration_s for epoch in epochs)
    return busy_s / sum(epoch.duration_s for epoch in epochs)


def all_epochs_s(epochs: pd.DataFrame) -> float | None:
    """Return the sum of all epochs, validation and warm-up included."""
    return None if epochs.empty else float(epoch_totals(epochs).sum())


def fill_and_epochs_s(run: MeasuredRun) -> float | None:
    """Return the sum of all epochs and of the fill of the cache; None of several processes, each of which fills its own."""
    total_s = all_epochs_s(run.epochs)
    return None if total_s is None or run.run.continued else run.run.cache_fill_s + total_s


def peak_memory_mib(epochs: pd.DataFrame) -> float | None:
    """Return the peak of the epoch that needed most; the first one counts: what an epoch records or tries out is needed."""
    peaks = read_column(epochs, "peak_memory_mib")
    known = peaks[~np.isnan(peaks)]
    return float(known.max()) if len(known) else None


def energy_per_epoch_j(run: MeasuredRun) -> float | None:
    """Return the energy of an epoch's GPUs, its share of validation included; None if it was not sampled well enough."""
    counted = counted_epochs(run)
    energy_j = sum_of_samples(run, "power_w", counted)
    return None if energy_j is None else energy_j / int(counted.sum())


def gpu_busy_sampled_fraction(run: MeasuredRun) -> float | None:
    """Return the share of the epochs' time in which the GPUs were at work, by NVML's samples; the mean of several GPUs."""
    counted = counted_epochs(run)
    busy_s = sum_of_samples(run, "gpu_busy_percent", counted)
    length_s = float(epoch_totals(run.epochs)[counted].sum())
    return None if busy_s is None else busy_s / (100 * length_s * len(run.gpu_samples))


def counted_epochs(run: MeasuredRun) -> Chosen:
    """Return which epochs :func:`epoch_s` counts; where none validates, which :func:`training_epoch_s` does."""
    validates = _validates(run.epochs)
    if not validates.any():
        return steady_epochs(run)
    return _whole_intervals(validates, mark_warm_up(run.epochs, warm_up_epochs(run.run)))


def steady_epochs(run: MeasuredRun) -> Chosen:
    """Return which epochs :func:`training_epoch_s` counts."""
    return _steady(run.epochs, warm_up_epochs(run.run))


def epochs_to_quality(run: MeasuredRun, target: float) -> int | None:
    """Return how many epochs passed until a validation reached a quality; None where none did."""
    qualities = read_column(run.epochs, "quality")
    scored = np.flatnonzero(~np.isnan(qualities)).tolist()
    return next((epoch + 1 for epoch in scored if run.quality.reaches(float(qualities[epoch]), target)), None)


def time_to_quality_s(run: MeasuredRun, target: float) -> float | None:
    """Return the seconds of the epochs up to a quality, less the first step of each process that trained one of them."""
    reached = epochs_to_quality(run, target)
    return None if reached is None else _first_epochs_s(run.epochs, reached) - _warm_ups_s(run, reached)


def process_to_quality_s(run: MeasuredRun, target: float) -> float | None:
    """Return the seconds from the start of the process until an epoch reached a quality; none of several processes."""
    reached = epochs_to_quality(run, target)
    return None if reached is None or run.run.continued else run.run.start_up_s + _first_epochs_s(run.epochs, reached)


def _first_epochs_s(epochs: pd.DataFrame, count: int) -> float:
    return float(epoch_totals(epochs)[:count].sum())


def _warm_ups_s(run: MeasuredRun, epochs: int) -> float:
    """Return the first steps' time of all processes that trained one of a run's first so many epochs."""
    later = [part.warm_up_s or 0.0 for part in run.run.continued if part.first_epoch <= epochs]
    return (run.run.warm_up_s or 0.0) + sum(later)


# What follows is asked of each run for each metric, quality and pair: pandas would take most of a comparison's time.


def _whole_intervals(validates: Chosen, warm: Chosen) -> Chosen:
    """Return which epochs lie in a whole validation interval, those with a warm-up left out where others remain."""
    interval: npt.NDArray[np.int64] = np.cumsum(validates) - validates  # how many epochs before it validated
    whole = interval < validates.sum()
    steady = whole & ~np.isin(interval, interval[warm])
    return steady if steady.any() else whole


def _steady(epochs: pd.DataFrame, warm_ups: Collection[int]) -> Chosen:
    """Return which epochs do not warm up, where two such remain; else all."""
    steady = ~mark_warm_up(epochs, warm_ups)
    return steady if steady.sum() >= WARM_UP_NEEDS_EPOCHS - 1 else np.ones_like(steady)


def mark_warm_up(epochs: pd.DataFrame, warm_ups: Collection[int]) -> Chosen:
    """Tell which epochs are among those that warm up."""
    return np.isin(read_column(epochs, "epoch"), list(warm_ups))


def _validates(epochs: pd.DataFrame) -> Chosen:
    return ~np.isnan(read_column(epochs, "validation_s"))


def _mean(values: Values) -> float:
    """Return the mean of the known values; not a number if none is."""
    known = values[~np.isnan(values)].tolist()
    return fmean(known) if known else math.nan
