"""By which rules timed rounds end: to add one is to add its reason to `StopReason` and an entry to :data:`STOPPING_RULES`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from speedproof.results.experiment import StopReason

# Of what is asked of two variants: known, or still open, or hardly to be known by the rounds that are left.
Standing = Literal["decided", "open", "futile"]


@dataclass(frozen=True)
class RoundsSoFar:
    """What rules are asked about after each round."""

    count: int
    most: int
    last_look: int  # the last one that the budget allows
    overruns: bool  # whether one more round would go beyond the budget
    standings: Sequence[Standing] | None  # of each pair of variants; None between looks


@dataclass(frozen=True)
class StoppingRule:
    """When rounds end, and what the log and the report say of rounds that ended by it."""

    log: str
    report: str
    ends: Callable[[RoundsSoFar], bool]


# The first one that holds is named.
STOPPING_RULES: dict[StopReason, StoppingRule] = {
    "decided": StoppingRule(
        "all that was asked is decided",
        "then they were",
        lambda rounds: rounds.standings is not None and set(rounds.standings) <= {"decided"},
    ),
    "futile": StoppingRule(
        "the rounds that are left would hardly decide",
        "those that were left would hardly have decided the rest",
        lambda rounds: rounds.standings is not None and "open" not in rounds.standings and rounds.last_look > rounds.count,
    ),
    "longest": StoppingRule(
        "stopped",
        "not all were, and no more were planned",
        lambda rounds: rounds.count == rounds.most,
    ),
    "budget": StoppingRule(
        "the budget is spent",
        "not all were, and another round would have gone beyond the budget",
        lambda rounds: rounds.overruns or (rounds.standings is not None and rounds.last_look == rounds.count),
    ),
    "closed": StoppingRule("closed", "the experiment was interrupted and closed", lambda rounds: False),  # by a command
}
