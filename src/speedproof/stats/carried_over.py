"""Whether a ratio rests on what one run leaves to others: files outside of its folders, compile caches, changed packages.

A variant's first run, its warm-up, is compared with its later ones. What it left counts if the faster variant would have gained
little at the speed of its first run. Of new files it must be as slow once more in a run that does not see them: other programs
write files as well.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np

from speedproof.results.comparison_rows import Objection
from speedproof.results.folder import MeasuredRun
from speedproof.results.observations import OUTSIDE, TEMPORARY, WarmUpObserved
from speedproof.stats.estimates import bounded_exp, one_sided_quantile
from speedproof.stats.metrics import PROCESS, default_metric, measure_run
from speedproof.stats.order_profit import LEAST_ROUNDS, estimate_profit, order_round
from speedproof.stats.slowed import keeps_gain, time_without

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined


# A first run accounts for a gain if it is slower by this share of it, as logarithms. Of programs that gain only by what they
# find the share was 0.96 to 1.05 in three proofs of runs of 0.1 to 0.3 s, on a machine with other load.
_SHARE = 0.5
# Three times the range of the later runs, of more than four without the slowest, which something else may have disturbed: of 30
# series of seven honest runs (sh, Python, NumPy; 0.05 to 0.5 s, two cores at a load of 5) the first was slower by more in one.
# Of few runs the range is narrow by chance: one of 0.396 s came before three of 0.38 s. So the first has to be a tenth slower.
_RANGES, _MOST_WHOLE, _LEAST_EXCESS = 3, 4, 0.1
# Of files that later runs write again, as logs, nothing is concluded unless later runs take less than half of the first.
_LEAST_DROP = 2
_LEAST_EPOCHS = 3  # of which a median says whether most were slow
_LEAST_RUNS = 3  # without which there is no range of later runs


@dataclass(frozen=True)
class _Lives:
    """A variant's runs in order, and what is compared of them."""

    variant: str
    warm_up: WarmUpObserved
    runs: Sequence[MeasuredRun]
    warm_up_s: float
    runs_s: Sequence[float]
    of_epochs: bool


def check_carried_over(examined: "Examined") -> list[Objection]:
    """Object if the faster variant is faster only after its first run, and that left files; name what else was carried over."""
    found = []
    lives = [_read_lives(examined, position) for position in (0, 1)]
    faster = examined.faster
    speedup = max(examined.centre, 1 / examined.centre, 1 + examined.equivalence_margin)
    for position, own in enumerate(lives):
        if own is None:
            continue
        found += _check_code(own)
        found += _check_linked(own, lives[1 - position], position == faster)
        # What compile caches explain is asked first: while they are filled, other programs write files, too.
        found += _check_caches(own, speedup, position == faster) or _check_files(
            own, lives[1 - position], speedup, position == faster
        )
    return found


def _read_lives(examined: "Examined", position: int) -> _Lives | None:
    """Return the runs of a variant, and their times: of an epoch, if they report epochs and the ratio is not of processes."""
    runs = [pair[position] for pair in examined.pairs]
    observed = [run.run.observed for run in runs if run.run.observed is not None]
    warm_up = observed[0].warm_up if observed else None
    if warm_up is None or len(observed) < len(runs):
        return None
    runs.sort(key=lambda run: run.run.round)
    of_epochs = warm_up.epoch_s is not None and examined.metric != PROCESS
    times = [time for run in runs if (time := measure_run(run, default_metric(of_epochs)))]
    if len(times) < len(runs) or len(runs) < _LEAST_RUNS:
        return None
    first_s = warm_up.epoch_s if of_epochs else warm_up.process_s
    return _Lives(examined.variants[position], warm_up, runs, first_s or 0.0, times, of_epochs)


def _check_code(own: _Lives) -> list[Objection]:
    """Object if modules of the interpreter's packages were changed: other programs were measured than planned."""
    changed = [*own.warm_up.changed_code, *(name for run in own.runs for name in run.observed.changed_code)]
    names = list(dict.fromkeys(changed))
    return [Objection(kind="changed packages", variant=own.variant, blocks=True, names=names)] if names else []


def _check_linked(own: _Lives, other: _Lives | None, faster: bool) -> list[Objection]:
    """Name linked files that one variant's runs alone changed: the other's runs see them, and what judges quality may."""
    others = {name for run in other.runs for name in run.observed.changed} if other else set()
    changed = [name for run in own.runs for name in run.observed.changed if _is_linked(name)]
    names = [name for name in dict.fromkeys(changed) if name not in others]
    judged = any(run.observed.quality is not None for run in own.runs)
    return [Objection(kind="changed links", variant=own.variant, blocks=faster and judged, names=names)] if names else []


def _check_files(own: _Lives, other: _Lives | None, speedup: float, faster: bool) -> list[Objection]:
    """Object if the first run took longer than later ones, and changed files: the warm-up, else the first timed run."""
    elsewhere = _list_changed(other) if other else set()
    later_s = own.runs_s[1:]
    found = [
        (own.warm_up_s, own.runs_s, _find_confirmed(own, other, speedup), 0.0),
        (own.warm_up_s, own.runs_s, _find_by_warm_up(own, speedup, elsewhere), 0.0),
        (own.runs_s[0], later_s, _find_by_first(own, speedup, elsewhere), 1.0),
    ]
    for taken_s, others_s, names, timed in found:
        if names:
            values = {"first_s": taken_s, "later_s": median(others_s), "timed": timed}
            return [Objection(kind="carried over", variant=own.variant, blocks=faster, values=values, names=names)]
    return []


def _find_confirmed(own: _Lives, other: _Lives | None, speedup: float) -> list[str]:
    """Return the files of the warm-up that account for a gain, by one more run without them."""
    run = next((one for one in own.warm_up.without if one.own), None)
    without_s = time_without(run, own.of_epochs) if run else None
    if run is None or not without_s:
        return []
    firsts_s = (own.warm_up_s, without_s)
    if not (all(_accounts_for(speedup, one, own.runs_s) for one in firsts_s) or _differ(speedup, firsts_s, own.runs_s)):
        return []
    times_s = [median(own.runs_s), median(other.runs_s) if other else 0.0]
    if other and other.of_epochs == own.of_epochs and keeps_gain(run, other.warm_up, times_s, own.of_epochs):
        return []
    # In temporary folders other programs may have written, too.
    return sorted((name for name in own.warm_up.changed if run.hides(name)), key=lambda name: name.startswith(("/", TEMPORARY)))


def _differ(speedup: float, firsts_s: Sequence[float], later_s: Sequence[float]) -> bool:
    """Return whether runs without files are slower than each with them, and than their average by a large part of a speedup."""
    excess = math.log(min(firsts_s)) - fmean(math.log(one) for one in later_s)
    return min(firsts_s) > max(later_s) and excess > max(_SHARE * math.log(speedup), math.log1p(_LEAST_EXCESS))


def _find_by_warm_up(own: _Lives, speedup: float, elsewhere: Collection[str]) -> list[str]:
    """Return the files that account for a gain by the warm-up alone: what nothing could be run without.

    Files that were there before count if later runs write in their folder, too; else another program's single write would.
    """
    if not _accounts_for(speedup, own.warm_up_s, own.runs_s):
        return []
    left = [name for name in own.warm_up.changed if not any(run.hides(name) for run in own.warm_up.without)]
    folders = {_folder_of(name) for run in own.runs for name in run.observed.changed}
    counted = [name for name in left if _is_linked(name) or _folder_of(name) in folders or name in own.warm_up.own_not_hidden]
    return _select_carried(counted, own.runs, own.warm_up_s > _LEAST_DROP * median(own.runs_s), elsewhere)


def _find_by_first(own: _Lives, speedup: float, elsewhere: Collection[str]) -> list[str]:
    """Return the files that account for a gain by the first timed run; in their folders another run writes, too."""
    first_s, later_s = own.runs_s[0], own.runs_s[1:]
    if not _accounts_for(speedup, first_s, later_s):
        return []
    written = [*own.warm_up.changed, *(name for run in own.runs[1:] for name in run.observed.changed)]
    folders = {_folder_of(name) for name in written}
    counted = [name for name in own.runs[0].observed.changed if _is_linked(name) or _folder_of(name) in folders]
    return _select_carried(counted, own.runs[1:], first_s > _LEAST_DROP * median(later_s), elsewhere)


def _is_linked(name: str) -> bool:
    """Return whether a file lies behind a link of the working folder, where no other program writes."""
    return not name.startswith(OUTSIDE)


def _folder_of(name: str) -> str:
    return str(PurePath(name).parent)


def _list_changed(other: _Lives) -> set[str]:
    """Return what was changed while the other variant ran, without what tells files of a kind apart."""
    names = [*other.warm_up.changed, *(name for run in other.runs for name in run.observed.changed)]
    return {kind for name in names for kind in list_kinds_of(name)}


def list_kinds_of(name: str) -> tuple[str, ...]:
    """Return what files of a kind have in common: their folder, and a suffix or all but digits of their names."""
    path = PurePath(name)
    alike = re.sub(r"[0-9]+", "#", path.name)
    return (f"{path.parent}/{alike}", *([f"{path.parent}/*{path.suffix}"] if path.suffix else []))


def _select_carried(
    changed: Sequence[str], others: Sequence[MeasuredRun], far_slower: bool, elsewhere: Collection[str]
) -> list[str]:
    """Return the changed files that speak of something carried over.

    Not those that later runs write again, as logs, nor those like which others were changed while the other variant ran.
    """
    again = set() if far_slower else {name for run in others for name in run.observed.changed}
    return [name for name in changed if name not in again and not any(kind in elsewhere for kind in list_kinds_of(name))]


def _accounts_for(speedup: float, first_s: float, others_s: Sequence[float]) -> bool:
    """Return whether a first run was slower than the others by a large part of a speedup, and beyond their noise."""
    usual_s, later_s = sorted(others_s), median(others_s)
    if len(usual_s) > _MOST_WHOLE:
        del usual_s[-1]
    beyond_noise = first_s - later_s > max(_RANGES * (usual_s[-1] - usual_s[0]), _LEAST_EXCESS * later_s)
    return beyond_noise and math.log(first_s / later_s) >= _SHARE * math.log(speedup)


def _check_caches(own: _Lives, speedup: float, faster: bool) -> list[Objection]:
    """Object if compile caches account for the gain: it blocks if most epochs of the warm-up were slow, as few compile."""
    if not (own.warm_up.kept_caches and faster and _accounts_for(speedup, own.warm_up_s, own.runs_s)):
        return []
    typical_s = own.warm_up.typical_epoch_s or own.warm_up_s
    several = own.of_epochs and min(run.run.epochs for run in own.runs) >= _LEAST_EPOCHS
    steady = several and _accounts_for(speedup, typical_s, own.runs_s)
    values = {"first_s": own.warm_up_s, "later_s": median(own.runs_s), "files": float(own.warm_up.kept_caches)}
    return [Objection(kind="warm caches", variant=own.variant, blocks=steady, values=values)]


# Two-sided. Without drift, at most 0.1 % of simulated variants are named; of autocorrelated ones and of steps, 4 %.
_TREND_CONFIDENCE = 0.9995


def check_order(examined: "Examined") -> list[Objection]:
    """Object if the faster variant is faster because it runs after the other; name variants whose runs have a trend."""
    if len(examined.pairs) < LEAST_ROUNDS or any(run.run.observed is None for pair in examined.pairs for run in pair):
        return []
    return [*_check_profit(examined), *_check_trend(examined)]


def _check_profit(examined: "Examined") -> list[Objection]:
    if examined.outcome not in ("faster", "slower"):
        return []
    sign = 1.0 if examined.centre > 1 else -1.0
    gains = [sign * math.log(reference / candidate) for reference, candidate in examined.values]
    names = examined.variants
    places = [(one.place, other.place) for one, other in examined.pairs]
    if examined.gains:
        names, places = names[::-1], [pair[::-1] for pair in places]
    profit = estimate_profit([order_round(names, *of_round) for of_round in zip(places, gains, strict=True)])
    if profit is None or not profit.significant:
        return []
    values = {"after_own": bounded_exp(profit.own), "after_other": bounded_exp(profit.own + profit.more)}
    return [Objection(kind="order", variant=names[0], blocks=profit.is_most, values=values)]


def _check_trend(examined: "Examined") -> list[Objection]:
    """Name the variants whose values rise or fall from the first round to the last by more than two equal variants differ."""
    changes = {}
    for variant, values in zip(examined.variants, zip(*examined.values, strict=True), strict=True):
        change = find_trend([math.log(value) for value in values])
        if abs(change) > math.log1p(examined.equivalence_margin):
            changes[variant] = change
    if not changes:
        return []
    both = len(changes) == 2 and math.prod(changes.values()) > 0
    found = {None: sum(changes.values()) / 2} if both else changes
    return [
        Objection(kind="trend", variant=variant, blocks=False, values={"change": math.expm1(change)})
        for variant, change in found.items()
    ]


def find_trend(values: Sequence[float]) -> float:
    """Return by how much a line through the values rises from the first to the last; 0 if that is not significant."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    own = np.array(values)
    spread = float(places @ places)
    slope = float(places @ own) / spread
    rest = own - own.mean() - slope * places
    degrees = len(values) - 2
    error = math.sqrt(float(rest @ rest) / degrees / spread)
    return slope * (len(values) - 1) if abs(slope) > one_sided_quantile(degrees, _TREND_CONFIDENCE) * error else 0.0
