"""Whether the quality command works for the faster variant: longer than for the other, or on data that its runs changed."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from scipy.special import stdtrit

from speedproof.results.folder import MeasuredRun
from speedproof.results.objections import Objection
from speedproof.stats.carried_over import list_kinds_of
from speedproof.stats.metrics import training_epoch_s, warm_up_epochs

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

_SHARE = 0.5  # of a gain that the quality command eats
_CONFIDENCE = 0.99
_LEAST_PAIRS = 3


def check_judged(examined: "Examined") -> list[Objection]:
    """Object if the faster variant changed what the quality command reads, or leaves it work that eats the gain."""
    faster = 1 if examined.centre >= 1 else 0
    variant = (examined.reference, examined.candidate)[faster]
    pairs = [(pair[faster], pair[1 - faster]) for pair in examined.pairs]
    return [*_check_data(variant, pairs), *_check_time(variant, pairs, examined.metric == "process_s")]


def _check_data(variant: str, pairs: Sequence[tuple[MeasuredRun, MeasuredRun]]) -> list[Objection]:
    own, other = ([name for run in runs for name in _list_read(run)] for runs in zip(*pairs, strict=True))
    elsewhere = {kind for name in other for kind in list_kinds_of(name)}
    names = [name for name in dict.fromkeys(own) if not any(kind in elsewhere for kind in list_kinds_of(name))]
    return [Objection(kind="changed test data", variant=variant, blocks=True, names=names)] if names else []


def _list_read(run: MeasuredRun) -> list[str]:
    return run.run.observed.judged_by if run.run.observed else []


def _check_time(variant: str, pairs: Sequence[tuple[MeasuredRun, MeasuredRun]], of_processes: bool) -> list[Objection]:
    judged = [[run.run.observed.judging_s for run in pair if run.run.observed] for pair in pairs]
    times = [(own, other) for own, other in (pair for pair in judged if len(pair) == 2) if own and other]
    if len(times) < max(len(pairs), _LEAST_PAIRS):
        return []
    spent = [_measure_spent(own, of_processes) for own, _ in pairs], [_measure_spent(other, of_processes) for _, other in pairs]
    gain_s = fmean(spent[1]) - fmean(spent[0])
    more_s = [own - other for own, other in times]
    width = float(stdtrit(len(more_s) - 1, _CONFIDENCE)) * stdev(more_s) / math.sqrt(len(more_s))
    if gain_s <= 0 or fmean(more_s) <= max(width, _SHARE * gain_s):
        return []
    own_s, other_s = (fmean(one) for one in zip(*times, strict=True))
    values = {"judging_s": own_s, "other_judging_s": other_s, "gain_s": gain_s}
    return [Objection(kind="works when judged", variant=variant, blocks=True, values=values)]


def _measure_spent(run: MeasuredRun, of_processes: bool) -> float:
    """Return what a run took: its epochs if it has some, without its first one, else its process."""
    epoch_s = None if of_processes else training_epoch_s(run.epochs, warm_up_epochs(run.run))
    return run.run.process_s if epoch_s is None else epoch_s * len(run.epochs)
