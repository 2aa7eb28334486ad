"""How often a gate of 3 % is wrong, by how much slower the head is and by the kind of noise.

    python -m benchmarks.simulate_gate            # prints the table
    python -m benchmarks.simulate_gate --write    # and writes it into docs/simulations.md

A gate has up to 24 rounds, in orders of the real plan. It ends at the first look at which the real rule has decided, or
finds that the last look hardly will. The checks of a ratio, which only make a gate inconclusive, are left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.noise import KINDS, Kind, rounded
from benchmarks.simulate_orders import CHOSEN, DESIGNS, simulate
from benchmarks.tables import make_table, percent, print_or_write, state_precision
from speedproof.stats.gating import GateLimits
from speedproof.stats.sequential import CRITICAL, LEAST_CHANCE, MOST_PAIRS, Question

GATES = 2_000
SEED = 20_261_127
LIMITS = GateLimits(regression=0.03)
SLOWDOWNS = (0.0, 0.03, 0.06)
PAGE = Path(__file__).parents[1] / "docs/simulations.md"
TABLE = ("gates", "benchmarks/simulate_gate.py")


@dataclass(frozen=True)
class Shares:
    """Shares of gates that pass and that fail; the others are inconclusive; and rounds on average."""

    passed: float
    failed: float
    rounds: float


def judge_gate(logs: Sequence[float], slack: float = 0.0) -> tuple[bool | None, int]:
    """Return whether a gate of these log ratios passes, None if it is inconclusive, and after how many rounds it ends."""
    limit = math.log(LIMITS.claimed)
    for look in CRITICAL:
        asked = Question(logs[:look], [(limit, math.inf), (-math.inf, limit)], slack=(slack, slack))
        if asked.answer is not None:
            return asked.answer == 0, look
        if look < MOST_PAIRS and asked.chance_at(MOST_PAIRS) < LEAST_CHANCE:
            return None, look
    return None, MOST_PAIRS


def measure(kind: Kind, slowdown: float, gates: int) -> Shares:
    """Return what becomes of gates whose head takes longer by a `slowdown`."""
    rng = np.random.default_rng(SEED)
    gains = simulate(kind, DESIGNS[CHOSEN], gates, rng, effect=-math.log1p(slowdown)).gains
    slack = 0.01 if kind.noise is rounded else 0.0
    ended = [judge_gate(logs, slack) for logs in gains.tolist()]
    passed, failed = (sum(one is wanted for one, _ in ended) / gates for wanted in (True, False))
    return Shares(passed, failed, sum(rounds for _, rounds in ended) / gates)


def tabulate(gates: int = GATES) -> str:
    """Return a row for each kind of noise."""
    rows = []
    for kind in (one for one in KINDS if one.promised and not one.favours):
        none, limit, twice = (measure(kind, slowdown, gates) for slowdown in SLOWDOWNS)
        cells = [f"{percent(one.passed)} / {percent(one.failed)}" for one in (none, limit, twice)]
        rows.append([kind.name, *cells, f"{none.rounds:.1f}"])
    head = ["noise", "nothing changed", "3 % slower", "6 % slower", "rounds if nothing changed"]
    return "\n".join([state_precision(gates), "", *make_table(head, rows)])


if __name__ == "__main__":
    print_or_write(__doc__ or "", tabulate, GATES, PAGE, TABLE)
