"""What the samples of `gpu.csv` say of a run's epochs: integrals over the epochs' time, on the clock of their process."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from speedproof.results.folder import MeasuredRun

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

    None where one of the GPUs does not tell, where samples are missing, where so much passed between epochs that it is not
    known when each of them was, and of a run that several processes continued.
    """
    if run.run.continued or _between_epochs_s(run) > LONGEST_GAP_S:
        return None
    spans = list_spans(run, counted)
    found = [integrate_samples(read_column(table, "time_s"), read_column(table, column), spans) for table in run.gpu_samples]
    known = [value for value in found if value is not None]
    return sum(known) if known and len(known) == len(found) else None


def _between_epochs_s(run: MeasuredRun) -> float:
    """Return how long a run was at something else, such as checkpoints, from its first epoch on."""
    return run.run.process_s - run.run.start_up_s - run.run.training_s


def epoch_totals(epochs: pd.DataFrame) -> Values:
    """Return the length of each epoch, validation included, in seconds, of shape (epochs,)."""
    validation_s = read_column(epochs, "validation_s")
    return read_column(epochs, "train_s") + np.where(np.isnan(validation_s), 0.0, validation_s)


def read_column(table: pd.DataFrame, name: str) -> Values:
    """Return a column, of shape (rows,): not a number where it is empty."""
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
