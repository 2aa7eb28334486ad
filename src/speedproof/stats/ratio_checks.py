"""The checks that a ratio of timed runs has to pass; each lives in a module of its own and is listed in :data:`CHECKS`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from speedproof.results.comparison import Outcome
from speedproof.results.objections import Objection
from speedproof.stats.carried_over import check_carried_over
from speedproof.stats.comparability import RunPair
from speedproof.stats.estimates import Interval


@dataclass(frozen=True)
class Examined:
    """A ratio before its objections are known: whose runs it is of, and what it says."""

    reference: str
    candidate: str
    metric: str
    pairs: Sequence[RunPair]  # of one experiment, the reference first
    centre: float
    interval: Interval | None
    outcome: Outcome
    equivalence_margin: float


Check = Callable[[Examined], list[Objection]]


def _check_left_processes(examined: Examined) -> list[Objection]:
    """Object if a variant's program ended before its processes did: they were killed, so their work is in no time."""
    found = []
    for position, variant in enumerate((examined.reference, examined.candidate)):
        left = [pair[position].run.observed.left_processes for pair in examined.pairs if pair[position].run.observed]
        if any(left):
            found.append(Objection(kind="left processes", variant=variant, blocks=True, values={"processes": max(left)}))
    return found


CHECKS: tuple[Check, ...] = (
    _check_left_processes,
    check_carried_over,
)


def find_objections(examined: Examined) -> list[Objection]:
    """Return what speaks against a ratio, those objections first for which its outcome is inconclusive."""
    found = [objection for check in CHECKS for objection in check(examined)]
    return sorted(found, key=lambda objection: not objection.blocks)
