"""The checks that a ratio of timed runs has to pass; each lives in a module of its own and is listed in :data:`CHECKS`."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from speedproof.results.claim import Claim
from speedproof.results.comparison_rows import OF_REPORTED_TIMES, Objection, ObjectionKind, Outcome
from speedproof.results.folder import MeasuredRun
from speedproof.stats.carried_over import check_carried_over, check_order
from speedproof.stats.clocks import check_reported_times, check_unobserved
from speedproof.stats.comparability import RunPair
from speedproof.stats.direction import check_direction, check_validation
from speedproof.stats.estimates import Interval, Pair
from speedproof.stats.hardware_limit import check_hardware
from speedproof.stats.leftovers import check_late_gpu_work, check_left_processes, check_spoilt
from speedproof.stats.machines import check_machine
from speedproof.stats.metrics import METRICS
from speedproof.stats.non_inferiority import check_judged
from speedproof.stats.same_work import check_same_work
from speedproof.stats.slowed import check_slowed
from speedproof.stats.stated_number import check_claimed_ratio
from speedproof.stats.warm_up_check import check_slower_later, check_warm_up, check_watched


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
    values: Sequence[Pair] = ()  # of the metric, by pair
    # The variants' profiled runs, the reference's first.
    profiled: tuple[Sequence[MeasuredRun], Sequence[MeasuredRun]] = ((), ())
    claim: Claim | None = None  # what is claimed of it
    trusted: bool = False  # whether the user has a reason to trust reported times

    @property
    def variants(self) -> tuple[str, str]:
        return self.reference, self.candidate

    @property
    def faster(self) -> Literal[0, 1]:
        """Return the place of the variant whose values are the smaller ones: of a time the faster one."""
        return 1 if self.centre >= 1 else 0

    @property
    def gains(self) -> bool:
        """Return whether the candidate is the better one by the metric."""
        return (self.centre > 1) == METRICS[self.metric].lower_is_better

    @property
    def favoured(self) -> str | None:
        """Return the variant that the ratio calls faster, if it does."""
        if self.outcome not in ("faster", "slower"):
            return None
        better = (self.outcome == "faster") == METRICS[self.metric].lower_is_better
        return self.candidate if better else self.reference


Check = Callable[[Examined], list[Objection]]


CHECKS: tuple[Check, ...] = (
    check_left_processes,
    check_reported_times,
    check_unobserved,
    check_validation,
    check_direction,
    check_claimed_ratio,
    check_carried_over,
    check_warm_up,
    check_slower_later,
    check_slowed,
    check_spoilt,
    check_watched,
    check_judged,
    check_same_work,
    check_hardware,
    check_late_gpu_work,
    check_machine,
    check_order,
)


# What one objection explains needs no other: of a variant with one of the first kinds, those of the second are dropped.
_EXPLAINED: tuple[tuple[frozenset[ObjectionKind], ObjectionKind], ...] = (
    (frozenset({"carried over"}), "helped"),
    (frozenset({"carried over", "warm caches", "slowed", "helped"}), "warm-up differs"),
)


def find_objections(examined: Examined) -> list[Objection]:
    """Return what speaks against a ratio, those objections first for which its outcome is inconclusive."""
    found = [objection for check in CHECKS for objection in check(examined)]
    for causes, explained in _EXPLAINED:
        found = _drop(found, explained, {one.variant for one in found if one.kind in causes})
    of_times = [one for one in found if one.kind in OF_REPORTED_TIMES]
    found = _drop(found, "claimed ratio", {one.variant for one in of_times if one.blocks and one.kind != "claimed ratio"})
    if examined.trusted:
        found = [one.model_copy(update={"blocks": False}) if one.kind in OF_REPORTED_TIMES else one for one in found]
    return sorted(found, key=lambda objection: not objection.blocks)


def _drop(found: list[Objection], kind: ObjectionKind, variants: Collection[str | None]) -> list[Objection]:
    return [one for one in found if one.kind != kind or one.variant not in variants]
