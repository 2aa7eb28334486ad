"""Whether a program's timed runs take as long as the runs before them: its warm-up, and one that it knew to be watched."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from speedproof.results.comparison_rows import Objection
from speedproof.results.observations import WarmUpObserved
from speedproof.stats.comparability import RunPair
from speedproof.stats.estimates import Interval
from speedproof.stats.metrics import SPREAD_EPOCH, TRAINING_EPOCH
from speedproof.stats.run_values import training_epoch_s, warm_up_epochs

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

# By how much a warm-up of an honest program is longer than its timed runs: a first run finds cold caches. With its packages
# dropped from the page cache a process took, on two cores with a load of 5: Python 0.06 s of 0.06 s, numpy 0.29 s of 0.19 s,
# pandas 1.13 s of 0.84 s, torch 4.31 s of 3.03 s. So half of the time, or a quarter of a second of a process, is tolerated.
# The shortest of several epochs finds all that warm. With 0.15 no one of 24 honest proofs (matrix products, sleeps; 10
# to 30 ms) beside other work on two cores had an objection, though one warm-up was 80 % longer: its timed runs varied, too.
_TOLERATED, _TOLERATED_PROCESS_S, _TOLERATED_EPOCH = 0.5, 0.25, 0.15
# By how much timed runs of an honest program are longer than its warm-up. In 24 honest proofs (loops in Python, four rounds;
# two cores with a load of 3) the slower variant's processes took up to 42 % longer than in its warm-up, and its typical epochs
# up to 32 %, beyond what the other's did: at most 1.6 times the spread of its timed runs. In 30 proofs of programs that mostly
# sleep it was up to 12 %.
_TOLERATED_LATER = 0.15
_SPREADS = 3  # of the timed runs, the longest less the shortest: a busy machine delays a warm-up as it does them
# Of a gain so much is not there in the warm-up; the rest is noise. A process' first run also compiles what later ones find
# compiled, so that it has to lose nearly all; of several epochs the shortest compiles nothing.
_LOST_OF_EPOCHS, _LOST_OF_PROCESS = 0.5, 0.9
_MOST_SLOWDOWN = 2.0  # by the machine, that the reference's warm-up can show
_EPOCHS = (TRAINING_EPOCH, SPREAD_EPOCH)
# One honest watched run in a hundred lies outside; machines do what no t distribution does, so that 10 % always lie inside.
_PREDICTED, _LEAST_WIDTH = 0.99, 1.1
_LEAST_RUNS = 4


def warm_up_excess_s(warm_up_s: float, timed_s: Sequence[float], of_epochs: bool = False) -> float:
    """Return by how much a warm-up was longer than its variant's timed runs; 0 if those of honest programs can be."""
    typical_s = median(timed_s)
    tolerated_s = max(
        (_TOLERATED_EPOCH if of_epochs else _TOLERATED) * typical_s,
        _SPREADS * (max(timed_s) - min(timed_s)),
        0.0 if of_epochs else _TOLERATED_PROCESS_S,
    )
    excess_s = warm_up_s - typical_s
    return excess_s if excess_s > tolerated_s else 0.0


def check_warm_up(examined: "Examined") -> list[Objection]:
    """Object if the candidate is faster in its timed runs only: in its warm-up the gain was not there."""
    warm_ups = [find_warm_up(examined.pairs, position) for position in (0, 1)]
    of_epochs = examined.metric in _EPOCHS and all(one is not None and one.shortest_epoch_s is not None for one in warm_ups)
    before_s = [one and (one.shortest_epoch_s if of_epochs else one.process_s) for one in warm_ups]
    reference_s, candidate_s = (_list_times(examined.pairs, position, of_epochs) for position in (0, 1))
    if not (before_s[0] and before_s[1] and reference_s and candidate_s):
        return []
    # A machine that was busy in the warm-up delayed the reference, too.
    slowdown = min(max(1.0, before_s[0] / median(reference_s)), _MOST_SLOWDOWN)
    gain_s, warm_up_s = median(reference_s) - median(candidate_s), before_s[1]
    excess_s = warm_up_excess_s(warm_up_s / slowdown, candidate_s, of_epochs)
    if gain_s <= 0 or excess_s == 0 or excess_s < gain_s * (_LOST_OF_EPOCHS if of_epochs else _LOST_OF_PROCESS):
        return []
    what = "epoch" if of_epochs else "process"
    values = {f"warm_up_{what}_s": warm_up_s, f"timed_{what}_s": median(candidate_s)}
    return [Objection(kind="warm-up differs", variant=examined.candidate, blocks=True, values=values)]


def check_slower_later(examined: "Examined") -> list[Objection]:
    """Object if the slower variant is so in its timed runs only: something slows it since its warm-up."""
    of_epochs, before_s, times_s = read_typical_times(examined)
    if None in before_s or not all(times_s):
        return []
    slower = 0 if median(times_s[0]) > median(times_s[1]) else 1
    if not explains_gain(before_s[slower], times_s, slower, before_s[1 - slower]):
        return []
    what = "epoch" if of_epochs else "process"
    values = {f"warm_up_{what}_s": before_s[slower] or 0.0, f"timed_{what}_s": median(times_s[slower])}
    variant = examined.variants[slower]
    return [Objection(kind="warm-up differs", variant=variant, blocks=True, values=values)]


def read_typical_times(examined: "Examined") -> tuple[bool, list[float | None], list[list[float]]]:
    """Return whether epochs are compared, and of each variant its warm-up's typical time and those of its timed runs."""
    warm_ups = [find_warm_up(examined.pairs, position) for position in (0, 1)]
    of_epochs = examined.metric in _EPOCHS and all(one is not None and one.epoch_s for one in warm_ups)
    before_s = [(one and (one.epoch_s if of_epochs else one.process_s)) or None for one in warm_ups]
    return of_epochs, before_s, [_list_times(examined.pairs, position, of_epochs) for position in (0, 1)]


def explains_gain(own_s: float | None, times_s: Sequence[Sequence[float]], slower: int, other_s: float | None) -> bool:
    """Return whether the slower variant's timed runs are longer than an earlier run of it by a large part of the difference.

    `own_s` is that run, `other_s` the other variant's warm-up: a machine that got slower since delays its runs, too.
    """
    if own_s is None or other_s is None:
        return False
    own, other = median(times_s[slower]), median(times_s[1 - slower])
    expected_s = own_s * min(max(1.0, other / other_s), _MOST_SLOWDOWN)
    # Of more than four without the shortest: it may have run before what slows the others.
    usual_s = sorted(times_s[slower])[1 if len(times_s[slower]) > _LEAST_RUNS else 0 :]
    tolerated_s = max(_TOLERATED_LATER * expected_s, _SPREADS * (usual_s[-1] - usual_s[0]))
    return own - expected_s > max(tolerated_s, _LOST_OF_EPOCHS * (own - other))


def explains_loss(without_s: float, times_s: Sequence[Sequence[float]], faster: int) -> bool:
    """Return whether a run of the faster variant is longer than its timed runs by a large part of the difference."""
    own, other = median(times_s[faster]), median(times_s[1 - faster])
    tolerated_s = max(_TOLERATED_LATER * own, _SPREADS * (max(times_s[faster]) - min(times_s[faster])))
    return without_s - own > max(tolerated_s, _LOST_OF_EPOCHS * (other - own))


def check_watched(examined: "Examined") -> list[Objection]:
    """Say between which lengths a watched run looks like the blind ones; object if it took longer and the gain is gone."""
    warm_ups = [find_warm_up(examined.pairs, position) for position in (0, 1)]
    watched_s = [one.watched_s for one in warm_ups if one is not None and one.watched_s]
    times = [_list_times(examined.pairs, position, of_epochs=False) for position in (0, 1)]
    if len(watched_s) < len(times) or min(map(len, times)) < _LEAST_RUNS:
        return []
    # A machine that got busier or quieter since then shows in the other variant, too.
    shifts = [abs(math.log(one) - fmean(map(math.log, blind_s))) for one, blind_s in zip(watched_s, times, strict=True)]
    gain_s, found = median(times[0]) - median(times[1]), []
    for position, variant in enumerate(examined.variants):
        one, predicted = watched_s[position], predict_run(times[position], shifts[1 - position])
        outside, missing_s = not predicted.holds(one), one - median(times[position])
        found.append(
            Objection(
                kind="watched run differs" if outside else "watched run",
                variant=variant,
                blocks=outside and position == 1 and gain_s > 0 and missing_s >= _LOST_OF_PROCESS * gain_s,
                values={"watched_s": one, "low_s": predicted.low, "high_s": predicted.high},
            )
        )
    return found


def predict_run(times_s: Sequence[float], shift: float = 0.0) -> Interval:
    """Return between which lengths another run of the same program lies, by at least four of them.

    The machine may have changed since by `shift`, of a logarithm.
    """
    from scipy import special

    logs = [math.log(one) for one in times_s]
    count = len(logs)
    quantile = float(special.stdtrit(count - 1, (1 + _PREDICTED) / 2))
    width = max(math.exp(quantile * stdev(logs) * math.sqrt(1 + 1 / count)), _LEAST_WIDTH) * math.exp(shift)
    centre = math.exp(fmean(logs))
    return Interval(centre / width, centre * width)


def find_warm_up(pairs: Sequence[RunPair], position: int) -> WarmUpObserved | None:
    """Return what was seen of the warm-up of the reference (0) or the candidate (1)."""
    observed = [pair[position].run.observed for pair in pairs]
    return next((one.warm_up for one in observed if one is not None and one.warm_up is not None), None)


def _list_times(pairs: Sequence[RunPair], position: int, of_epochs: bool) -> list[float]:
    """Return how long each run of a variant took, or its average epoch."""
    runs = [pair[position] for pair in pairs]
    times = [training_epoch_s(one.epochs, warm_up_epochs(one.run)) if of_epochs else one.run.process_s for one in runs]
    return [one for one in times if one]
