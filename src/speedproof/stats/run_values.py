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

Values = npt.NDArray[np.float64]
Chosen = npt.NDArray[np.bool_]  # of epochs
Span = tuple[float, float]

# NVML's power and use are means over up to the last second (its reference: nvmlDeviceGetPowerUsage,
# nvmlDeviceGetUtilizationRates): of less time than this they would tell what came before.
SHORTEST_S = 3.0
# Between two samples, or from the outermost to the end of what is integrated. They come ten times a second.
LONGEST_GAP_S = 2.0


def integrate_samples(time_s: Values, values: Values, spans: list[Span]) -> float | None:
    """Return the integral of a sampled quantity over spans of time, by the trapezoidal rule.

    `time_s` and `values` are of shape (samples,), the times rising; a sample that is not a number is none. None where the spans
    come to less than :data:`SHORTEST_S`, and where the samples leave a gap of more than :data:`LONGEST_GAP_S` in one of them.
    """
    known = ~np.isnan(values)
    time_s, values = time_s[known], values[known]
    if sum(end - start for start, end in spans) < SHORTEST_S or not len(time_s):
        return None
    if any(_longest_gap_s(time_s, span) > LONGEST_GAP_S for span in spans):
        return None
    return sum(_integrate_span(time_s, values, span) for span in spans)


def list_spans(run: MeasuredRun, counted: Chosen) -> list[Span]:
    """Return from when to when a run's counted epochs went on, in seconds since its process started; neighbours are one span.

    What a run does between two epochs counts in no epoch's time, and is taken to be nothing.
    """
    ends_s = run.run.start_up_s + np.cumsum(epoch_totals(run.epochs))
    starts_s = np.concatenate([[run.run.start_up_s], ends_s[:-1]])
    changes = np.diff(counted, prepend=False, append=False)  # between a counted epoch and one that is not
    begins, stops = changes[:-1] & counted, changes[1:] & counted
    return list(zip(starts_s[begins].tolist(), ends_s[stops].tolist(), strict=True))


def sum_of_samples(run: MeasuredRun, column: str, counted: Chosen) -> float | None:
    """Return the integral of a column of `gpu.csv` over a run's counted epochs, of all its processes' GPUs together.

    None if a GPU does not report the value or samples are missing. Also None if too much time passed between epochs to know
    when each of them was, and for a run that several processes continued.
    """
    if run.run.continued or _between_epochs_s(run) > LONGEST_GAP_S:
        return None
    spans = list_spans(run, counted)
    found = [integrate_samples(read_column(table, "time_s"), read_column(table, column), spans) for table in run.gpu_samples]
    known = [value for value in found if value is not None]
    return sum(known) if known and len(known) == len(found) else None


def _between_epochs_s(run: MeasuredRun) -> float:
    """Return the time that a run spends outside epochs, for example on checkpoints, after the first one begins."""
    return run.run.process_s - run.run.start_up_s - run.run.training_s


def epoch_totals(epochs: pd.DataFrame) -> Values:
    """Return the length of each epoch, validation included, in seconds, of shape (epochs,)."""
    validation_s = read_column(epochs, "validation_s")
    return read_column(epochs, "train_s") + np.where(np.isnan(validation_s), 0.0, validation_s)


def read_column(table: pd.DataFrame, name: str) -> Values:
    """Return a column, of shape (rows,): NaN for empty cells."""
    return table[name].to_numpy(dtype=np.float64)


def _longest_gap_s(time_s: Values, span: Span) -> float:
    """Return the longest time without a sample that a span touches, at its ends what is beyond the outermost samples."""
    start_s, end_s = span
    touching = (time_s[:-1] < end_s) & (time_s[1:] > start_s)
    between = np.diff(time_s)[touching]
    return max(float(time_s[0]) - start_s, end_s - float(time_s[-1]), float(between.max(initial=0.0)))


def _integrate_span(time_s: Values, values: Values, span: Span) -> float:
    inside = (time_s > span[0]) & (time_s < span[1])
    at_s = np.concatenate([span[:1], time_s[inside], span[1:]])
    return float(np.trapezoid(np.interp(at_s, time_s, values), at_s))


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
