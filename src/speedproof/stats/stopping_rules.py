"""The rules that end timed rounds. A new one needs a reason in `StopReason` and an entry in :data:`STOPPING_RULES`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from speedproof.results.experiment import StopReason

# The question about two variants: answered, still open, or unlikely to be answered in the remaining rounds.
Standing = Literal["decided", "open", "futile"]


@dataclass(frozen=True)
class RoundsSoFar:
    """What the rules decide on after each round."""

    count: int
    most: int
    last_look: int  # the last one that the budget allows
    overruns: bool  # whether one more round would go beyond the budget
    standings: Sequence[Standing] | None  # of each pair of variants; None between looks


@dataclass(frozen=True)
class StoppingRule:
    """When rounds end, and the words for that in the log and the report."""

    log: str
    report: str
    ends: Callable[[RoundsSoFar], bool]


# The first one that holds is named.
STOPPING_RULES: dict[StopReason, StoppingRule] = {
    "decided": StoppingRule(
        "everything is decided",
        "then all were decided",
        lambda rounds: rounds.standings is not None and set(rounds.standings) <= {"decided"},
    ),
    "futile": StoppingRule(
        "the remaining rounds are unlikely to decide",
        "the remaining ones were unlikely to decide the rest",
        lambda rounds: rounds.standings is not None and "open" not in rounds.standings and rounds.last_look > rounds.count,
    ),
    "longest": StoppingRule(
        "stopped",
        "not all were decided, and no more rounds were planned",
        lambda rounds: rounds.count == rounds.most,
    ),
    "budget": StoppingRule(
        "the budget is spent",
        "not all were decided, and another round would have exceeded the budget",
        lambda rounds: rounds.overruns or (rounds.standings is not None and rounds.last_look == rounds.count),
    ),
    "closed": StoppingRule("closed", "the experiment was interrupted and closed", lambda rounds: False),  # by a command
}
