"""Whether the quality command works for the faster variant: longer than for the other, or on data that its runs changed."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from speedproof.results.folder import MeasuredRun
from speedproof.results.objections import Objection
from speedproof.stats.carried_over import list_kinds_of
from speedproof.stats.metrics import PROCESS
from speedproof.stats.run_values import training_epoch_s, warm_up_epochs

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

_SHARE = 0.5  # of a gain that the quality command eats
# By how much its shortest times differ if it does the same: of three of 0.11 s by 0.046 s at most, in 67 draws (Python on two
# cores with a load of 17); in one proof of four rounds by 0.058 s. Longer ones differ by more.
_TOLERATED_S, _TOLERATED = 0.1, 0.05
_LEAST_RUNS = 3
_LEAST_READ = 2  # runs of either variant whose quality rests on a file: one may be read by another program just then


def check_judged(examined: "Examined") -> list[Objection]:
    """Object if the faster variant changed what the quality command reads, or leaves it work that eats the gain."""
    faster = examined.faster
    variant = examined.variants[faster]
    own, other = ([pair[position] for pair in examined.pairs] for position in (faster, 1 - faster))
    if min(len(own), len(other)) < _LEAST_RUNS:
        return []
    return [*_check_data(variant, own, other), *_check_time(variant, own, other, examined.metric == PROCESS)]


def _check_data(variant: str, own: Sequence[MeasuredRun], other: Sequence[MeasuredRun]) -> list[Objection]:
    elsewhere = {kind for name in _list_changed(other) for kind in list_kinds_of(name)}
    changed = [name for name in _list_rewritten(own) if not any(kind in elsewhere for kind in list_kinds_of(name))]
    names = [name for name in changed if _rests_on(name, own) and _rests_on(name, other)]
    return [Objection(kind="changed test data", variant=variant, blocks=True, names=names)] if names else []


def _list_rewritten(own: Sequence[MeasuredRun]) -> list[str]:
    """Return the files that timed runs changed, or a warm-up that did not create them, as it does with what it downloads."""
    timed = [name for run in own for name in run.observed.changed]
    warm_up = own[0].observed.warm_up
    before = [
        name
        for name in (warm_up.changed if warm_up else [])
        if warm_up and name not in warm_up.own_not_hidden and not any(run.hides(name) for run in warm_up.without)
    ]
    return list(dict.fromkeys([*timed, *before]))


def _list_changed(runs: Sequence[MeasuredRun]) -> list[str]:
    warm_up = runs[0].observed.warm_up
    return [*(warm_up.changed if warm_up else []), *(name for run in runs for name in run.observed.changed)]


def _rests_on(name: str, runs: Sequence[MeasuredRun]) -> bool:
    """Return whether the quality command reads a file after each run but the first, which may come before its change."""
    read = sum(name in run.observed.judged_by for run in runs)
    return read >= max(_LEAST_READ, len(runs) - 1)


def _check_time(variant: str, own: Sequence[MeasuredRun], other: Sequence[MeasuredRun], of_processes: bool) -> list[Objection]:
    own_s, other_s = ([run.observed.judging_s for run in runs] for runs in (own, other))
    times = [[one for one in times_s if one is not None] for times_s in (own_s, other_s)]
    if len(times[0]) < len(own) or len(times[1]) < len(other):
        return []
    gain_s = fmean(_measure_spent(run, of_processes) for run in other) - fmean(_measure_spent(run, of_processes) for run in own)
    shortest, shortest_other = map(min, times)
    more_s = shortest - shortest_other
    if gain_s <= 0 or more_s <= max(_SHARE * gain_s, _TOLERATED_S + _TOLERATED * shortest_other):
        return []
    values = {"judging_s": shortest, "other_judging_s": shortest_other, "gain_s": gain_s}
    return [Objection(kind="works when judged", variant=variant, blocks=True, values=values)]


def _measure_spent(run: MeasuredRun, of_processes: bool) -> float:
    """Return what all epochs of a run took, each as its average one, else its process."""
    epoch_s = None if of_processes else training_epoch_s(run.epochs, warm_up_epochs(run.run))
    return run.run.process_s if epoch_s is None else epoch_s * len(run.epochs)
