"""Whether all epochs together, and the whole process, point where the average epoch does."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from speedproof.results.folder import MeasuredRun
from speedproof.results.objections import Objection
from speedproof.stats.clocks import read_clocks
from speedproof.stats.comparability import RunPair
from speedproof.stats.estimates import LEAST_PAIRS, one_sided_quantile
from speedproof.stats.metrics import METRICS, all_epochs_s

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

_CONFIDENCE = 0.99  # one-sided
# If programs print one iteration of ten, the sum of what they print means nothing. So it counts only if it is most of the time.
_COVERS = 0.5
# Of different numbers of epochs an epoch is not the same work: the whole has to show at least so much of the gain.
_SUPPORTS = 0.5
_DIFFERS = 0.02  # as much as two variants that are called equivalent


def check_direction(examined: "Examined") -> list[Objection]:
    """Object if a variant's average epoch is shorter, but all of its epochs or its process take longer than the other's."""
    if METRICS[examined.metric].printed != "epoch" or examined.outcome not in ("faster", "slower"):
        return []
    sign = 1.0 if examined.centre > 1 else -1.0
    if any(run.run.observed is None for pair in examined.pairs for run in pair):  # of a version that did not check
        return []
    unequal = any(len(one.epochs) != len(other.epochs) for one, other in examined.pairs)
    needed = _SUPPORTS * abs(math.log(examined.centre)) if unequal else 0.0
    gains = {
        "all_epochs": [sign * log for log in _sum_epochs(examined.pairs)],
        "process": [sign * math.log(one.run.process_s / other.run.process_s) for one, other in examined.pairs],
    }
    if _is_above([gain - needed for gain in gains["process"]]):  # whatever epochs are, the whole is faster
        return []
    missing = {name: [needed - gain for gain in own] for name, own in gains.items()}
    # Epochs and their sum differ by the same noise, unlike a process, which also starts.
    differs = {"process": _is_above(missing["process"]), "all_epochs": fmean(missing["all_epochs"] or [0.0]) > _DIFFERS}
    values = {name: math.exp(fmean(own)) for name, own in gains.items() if differs[name]}
    favoured = examined.candidate if examined.centre > 1 else examined.reference
    return [Objection(kind="direction", variant=favoured, blocks=True, values=values)] if values else []


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
    if len(values) < LEAST_PAIRS:
        return False
    return fmean(values) > one_sided_quantile(len(values) - 1, _CONFIDENCE) * stdev(values) / math.sqrt(len(values))
