"""Whether the slower variant is slow, or the faster one fast, only because of files that warm-ups left.

One run of each was without them.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from speedproof.results.comparison_rows import Objection, ObjectionKind
from speedproof.results.observations import RunWithout, WarmUpObserved
from speedproof.stats.warm_up_check import explains_gain, explains_loss, find_warm_up, read_typical_times

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

# To set up its namespace is part of the process of a run without files: 70 ms on two busy cores.
_SET_UP_S = 0.1
_KEPT = 0.5  # of a gain, as logarithms, that is there without these files, too: the other variant uses them as well


def check_slowed(examined: "Examined") -> list[Objection]:
    """Object if the slower variant was not slow without those files, or the faster one not fast; name what none ran without."""
    of_epochs, before_s, times_s = read_typical_times(examined)
    if not all(times_s):
        return []
    slower = 0 if median(times_s[0]) > median(times_s[1]) else 1
    warm_ups = [find_warm_up(examined.pairs, position) for position in (0, 1)]
    variants = examined.variants
    return [
        *_check_slower(variants[slower], warm_ups[slower], times_s, slower, before_s[1 - slower], of_epochs),
        *_check_faster(variants[1 - slower], warm_ups, times_s, 1 - slower, of_epochs),
    ]


def _check_slower(
    variant: str,
    warm_up: WarmUpObserved | None,
    times_s: Sequence[Sequence[float]],
    slower: int,
    other_s: float | None,
    of_epochs: bool,
) -> list[Objection]:
    for run in warm_up.without if warm_up else []:
        if explains_gain(run.epoch_s if of_epochs else run.process_s, times_s, slower, other_s):
            return [_object("slowed", variant, median(times_s[slower]), run, of_epochs)]
    if warm_up and warm_up.not_hidden:
        return [Objection(kind="may be slowed", variant=variant, blocks=False, names=warm_up.not_hidden)]
    return []


def _check_faster(
    variant: str, warm_ups: Sequence[WarmUpObserved | None], times_s: Sequence[Sequence[float]], faster: int, of_epochs: bool
) -> list[Objection]:
    own, other = warm_ups[faster], warm_ups[1 - faster]
    for run in own.without if own else []:
        without_s = time_without(run, of_epochs)
        if run.own or without_s is None or not explains_loss(without_s, times_s, faster):
            continue
        if not keeps_gain(run, other, [median(times_s[faster]), median(times_s[1 - faster])], of_epochs):
            return [_object("helped", variant, median(times_s[faster]), run, of_epochs)]
    return []


def keeps_gain(run: RunWithout, other: WarmUpObserved | None, times_s: Sequence[float], of_epochs: bool) -> bool:
    """Return whether a variant is faster than the other one without files, too: the other was slower without them as well.

    `times_s` are those of timed runs of either, of this variant first.
    """
    without_s = time_without(run, of_epochs)
    others_s = [
        other_s
        for one in (other.without if other else [])
        if (other_s := time_without(one, of_epochs)) and not set(one.names).isdisjoint(run.names)
    ]
    if not without_s or not others_s:
        return False
    return math.log(max(others_s) / without_s) >= _KEPT * math.log(times_s[1] / times_s[0]) > 0


def time_without(run: RunWithout, of_epochs: bool) -> float | None:
    """Return how long an epoch of a run without files took, or its process, without the set-up of its namespace."""
    return run.epoch_s if of_epochs else max(0.0, run.process_s - _SET_UP_S)


def _object(kind: ObjectionKind, variant: str, timed_s: float, run: RunWithout, of_epochs: bool) -> Objection:
    what = "epoch" if of_epochs else "process"
    without_s = run.epoch_s if of_epochs else run.process_s
    values = {f"timed_{what}_s": timed_s, f"without_{what}_s": without_s or 0.0}
    return Objection(kind=kind, variant=variant, blocks=True, values=values, names=run.names)
