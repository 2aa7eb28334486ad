"""Whether the validation, all epochs together, and the whole process point where the average training epoch does."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from speedproof.results.comparison_rows import Objection
from speedproof.results.folder import MeasuredRun
from speedproof.stats.clocks import EATEN, read_clocks
from speedproof.stats.comparability import RunPair
from speedproof.stats.estimates import LEAST_PAIRS, LowerBound, estimate_mean
from speedproof.stats.metrics import METRICS, TRAINING_EPOCH
from speedproof.stats.run_values import all_epochs_s, epoch_totals, read_column
from speedproof.stats.sequential import repeat_interval

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

# If programs print one iteration of ten, the sum of what they print means nothing. So it counts only if it is most of the time.
_COVERS = 0.5
# Of different numbers of epochs an epoch is not the same work: the whole has to show at least so much of the gain.
_SUPPORTS = 0.5
_DIFFERS = 0.02  # as much as two variants that are called equivalent


def check_validation(examined: "Examined") -> list[Objection]:
    """Object if at least half of what a variant's training saves is what its validation takes longer."""
    if examined.metric != TRAINING_EPOCH or examined.favoured is None or len(examined.pairs) < LEAST_PAIRS:
        return []
    if any(run.run.observed is None for pair in examined.pairs for run in pair):  # of a version that did not check
        return []
    ordered = [pair if examined.favoured == examined.reference else pair[::-1] for pair in examined.pairs]
    split = [(_split_training(one), _split_training(other)) for one, other in ordered]
    gain_s = fmean(other[0] - one[0] for one, other in split)
    longer = LowerBound.of([one[1] - other[1] for one, other in split])
    if gain_s <= 0 or longer.least <= 0 or longer.centre < EATEN * gain_s:
        return []
    process = math.exp(fmean(math.log(other.run.process_s / one.run.process_s) for one, other in ordered))
    values = {"validation_s": longer.centre, "gain_s": gain_s, "process": process}
    return [Objection(kind="outside", variant=examined.favoured, blocks=True, values=values)]


def _split_training(run: MeasuredRun) -> tuple[float, float]:
    """Return how long all epochs of a run trained and validated, in seconds."""
    trained_s = float(read_column(run.epochs, "train_s").sum())
    return trained_s, float(epoch_totals(run.epochs).sum()) - trained_s


def check_direction(examined: "Examined") -> list[Objection]:
    """Object if a variant is faster by its average epoch or rate, but all of its epochs or its process take longer."""
    if not METRICS[examined.metric].average or examined.outcome not in ("faster", "slower"):
        return []
    if any(run.run.observed is None for pair in examined.pairs for run in pair):  # of a version that did not check
        return []
    candidate_gains = examined.gains
    sign = 1.0 if candidate_gains else -1.0
    gains = {
        "all_epochs": [sign * log for log in _sum_epochs(examined.pairs)],
        "process": [sign * math.log(one.run.process_s / other.run.process_s) for one, other in examined.pairs],
    }
    needed = _find_needed(examined)
    if _is_above([gain - needed for gain in gains["process"]]):  # whatever epochs are, the whole is faster
        return []
    missing = {name: [needed - gain for gain in own] for name, own in gains.items()}
    # Of different numbers of epochs the process has to show the gain; else it must not contradict it.
    unshown = _find_unequal(examined.pairs) is not None or _is_above(missing["process"])
    # Epochs and their sum differ by the same noise, unlike a process, which also starts.
    differs = {"process": unshown, "all_epochs": fmean(missing["all_epochs"] or [0.0]) > _DIFFERS}
    if not any(differs.values()):
        return []
    values = _describe_gain(examined, candidate_gains)
    for name, own in gains.items():
        values |= _estimate(name, own, examined.pairs[0][0]) if differs[name] else {}
    favoured = examined.candidate if candidate_gains else examined.reference
    return [Objection(kind="direction", variant=favoured, blocks=True, values=values)]


def _find_needed(examined: "Examined") -> float:
    """Return which logarithm of a ratio the whole has to show at least."""
    if _print_rates(examined.pairs):  # which often come by the clock, so that the process may take as long
        return -_DIFFERS
    return _SUPPORTS * abs(math.log(examined.centre)) if _find_unequal(examined.pairs) else 0.0


def _print_rates(pairs: Sequence[RunPair]) -> bool:
    return any(run.run.observed is not None and run.run.observed.rates for pair in pairs for run in pair)


def _find_unequal(pairs: Sequence[RunPair]) -> RunPair | None:
    """Return a pair of runs with different numbers of epochs; None if there is none, or lines of rates stand for epochs."""
    if _print_rates(pairs):
        return None
    return next(((one, other) for one, other in pairs if len(one.epochs) != len(other.epochs)), None)


def _describe_gain(examined: "Examined", candidate_gains: bool) -> dict[str, float]:
    """Return by how much the favoured variant is faster, and both numbers of epochs if they differ."""
    what = "rate" if METRICS[examined.metric].printed == "rate" else "epoch"
    values = {what: math.exp(abs(math.log(examined.centre)))}
    if unequal := _find_unequal(examined.pairs):
        values |= {"epochs": len(unequal[candidate_gains].epochs), "other_epochs": len(unequal[not candidate_gains].epochs)}
    return values


def _estimate(name: str, logs: Sequence[float], run: MeasuredRun) -> dict[str, float]:
    """Return a ratio and the ends of its interval, by the rule of all ratios of the experiment of `run`."""
    repeated, comparisons = run.until_decided, run.comparisons
    interval = repeat_interval(logs, comparisons) if repeated else estimate_mean(logs, comparisons).interval
    ratio = interval and interval.exponential
    return {name: math.exp(fmean(logs)), **({f"{name}_low": ratio.low, f"{name}_high": ratio.high} if ratio else {})}


def _sum_epochs(pairs: Sequence[RunPair]) -> list[float]:
    """Return the pairs' log ratios of all epochs together; none unless the reports cover most of each run."""
    if not all(_covers_most(run) for pair in pairs for run in pair):
        return []
    sums = [(all_epochs_s(one.epochs), all_epochs_s(other.epochs)) for one, other in pairs]
    return [math.log(one / other) for one, other in sums if one and other]


def _covers_most(run: MeasuredRun) -> bool:
    """Return whether what a run reports is most of its process, or of the time between its reports."""
    clocks = read_clocks(run)
    if clocks is None:
        return False
    between = clocks.observed_s is not None and clocks.reported_s >= _COVERS * clocks.observed_s
    return between or clocks.total_s >= _COVERS * clocks.process_s


def _is_above(values: Sequence[float]) -> bool:
    """Return whether a mean is significantly above 0."""
    return len(values) >= LEAST_PAIRS and LowerBound.of(values).least > 0
