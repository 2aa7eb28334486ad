"""How often equal variants are called different, by the order of their runs and the kind of noise.

    python -m benchmarks.simulate_orders            # prints the tables
    python -m benchmarks.simulate_orders --write    # and puts them into docs/simulations.md

A proof has up to 24 rounds of two variants. Its run times are made up on orders that each design draws, and judged by the rule
of `speedproof prove`, or after a number of rounds that was fixed beforehand.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import write_table
from speedproof.results.experiment import EQUIVALENCE_MARGIN, RunPlace
from speedproof.run.plan import order_in_block, order_in_pair
from speedproof.stats.estimates import student_quantile
from speedproof.stats.order_effect import find_trend
from speedproof.stats.order_profit import OrderedRound, estimate_profit, order_round
from speedproof.stats.sequential import CRITICAL, MOST_PAIRS

PROOFS = 10_000
PLANS = 2_000  # real ones, of which simulated proofs take one each
SEED = 20_261_126
FIXED = (4, 6, 8, 12)
RUNS = 2 * MOST_PAIRS
NOISE = 0.02  # relative deviation of a run's time
QUIET = 0.01  # the same beside a disturbance
SLOWER = 0.05  # what a disturbance adds
EFFECT = 2 * NOISE  # of a difference that is to be found
PAGE = Path(__file__).parents[1] / "docs/simulations.md"
TABLE = ("orders", "benchmarks/simulate_orders.py")  # its name in the page, and who writes it

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Noise = Callable[[np.random.Generator, Bools], Array]  # of orders, the log times; see Kind
Draw = Callable[[np.random.Generator, int], Bools]  # whether the reference comes first, by proof and round


@dataclass(frozen=True)
class Kind:
    """A kind of noise: the logs of run times, by proof and run, if the two variants are equal.

    It is given the orders: whether a run is one of the candidate. If it `carries_over`, runs depend on what ran before.
    """

    name: str
    noise: Noise
    carries_over: bool = False


def normal(rng: np.random.Generator, candidate: Bools, deviation: float = NOISE) -> Array:
    """Return normal deviations."""
    return deviation * rng.standard_normal(candidate.shape)


def heavy_tailed(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return Student's t with three degrees of freedom, of the same deviation."""
    return NOISE / math.sqrt(3) * rng.standard_t(3, candidate.shape)


def in_bursts(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return normal deviations; one run in twenty begins three that take 5 to 30 % longer."""
    begins = rng.random(candidate.shape) < 0.05
    slowdown = np.where(begins, np.log1p(rng.uniform(0.05, 0.30, candidate.shape)), 0.0)
    later = [np.pad(slowdown, ((0, 0), (lag, 0)))[:, :RUNS] for lag in (0, 1, 2)]
    return normal(rng, candidate) + np.maximum.reduce(later)


def autocorrelated(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return an autoregression of first order with a correlation of 0.7."""
    steps, values = normal(rng, candidate), np.empty(candidate.shape)
    values[:, 0] = steps[:, 0]
    for run in range(1, RUNS):
        values[:, run] = 0.7 * values[:, run - 1] + math.sqrt(1 - 0.7**2) * steps[:, run]
    return values


def drifting(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return normal deviations and a drift of 20 % from the first run to the last."""
    return normal(rng, candidate, QUIET) + math.log1p(0.2) * np.arange(RUNS) / (RUNS - 1)


def in_steps(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return two speeds, 10 % apart, between which the machine changes after six runs on average."""
    changes = np.cumsum(rng.random(candidate.shape) < 1 / 6, axis=1) + rng.integers(0, 2, (len(candidate), 1))
    return normal(rng, candidate, QUIET) + math.log1p(0.1) * (changes % 2)


def slow_first(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return a first run that takes 20 % longer, and others that take less and less of that."""
    return normal(rng, candidate, QUIET) + math.log1p(0.2) * np.exp(-np.arange(RUNS) / 2)


def rounded(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return normal deviations of times that are printed with two digits: 1.00 s to a hundredth."""
    return np.log(np.round(np.exp(normal(rng, candidate, QUIET)), 2))


def slow_every(period: int) -> Noise:
    """Return the noise of a machine on which every so many runs, from a random one on, one is slower."""

    def noise(rng: np.random.Generator, candidate: Bools) -> Array:
        slow = (np.arange(RUNS) + rng.integers(0, period, (len(candidate), 1))) % period == 0
        return normal(rng, candidate, QUIET) + math.log1p(SLOWER) * slow

    return noise


def carried_over(applies: Callable[[Bools, Bools], Bools]) -> Noise:
    """Return the noise of runs that are faster if the variant of a run and that of the run before it `apply`."""

    def noise(rng: np.random.Generator, candidate: Bools) -> Array:
        faster = np.zeros(candidate.shape, bool)
        faster[:, 1:] = applies(candidate[:, :-1], candidate[:, 1:])
        return normal(rng, candidate, QUIET) - math.log1p(SLOWER) * faster

    return noise


KINDS = (
    Kind("normal", normal),
    Kind("heavy tails", heavy_tailed),
    Kind("bursts", in_bursts),
    Kind("autocorrelated", autocorrelated),
    Kind("drift", drifting),
    Kind("steps", in_steps),
    Kind("slow first runs", slow_first),
    Kind("rounded", rounded),
    *(Kind(f"slow every {period} runs", slow_every(period)) for period in range(2, 9)),
    Kind("faster after the same variant", carried_over(lambda before, now: before == now)),
    Kind("faster after the other variant", carried_over(lambda before, now: before != now)),
    Kind("faster after the reference", carried_over(lambda before, now: ~before), carries_over=True),
    Kind("candidate faster after the reference", carried_over(lambda before, now: ~before & now), carries_over=True),
)  # fmt: skip


def _drawn_by_plan(order: Callable[..., Sequence[tuple[str, bool]]], plans: int = PLANS) -> Draw:
    """Return what draws orders as :mod:`speedproof.run.plan` does, by one of so many seeds."""

    @cache
    def list_orders() -> Bools:
        variants = [("a", False), ("b", False)]
        rounds = [[order(variants, f"{seed}/timed", place) for place in range(MOST_PAIRS)] for seed in range(plans)]
        return np.array([[of_round[0][0] == "a" for of_round in plan] for plan in rounds])

    def draw(rng: np.random.Generator, proofs: int) -> Bools:
        return list_orders()[rng.integers(0, plans, proofs)]

    return draw


def coins(rng: np.random.Generator, proofs: int) -> Bools:
    """Draw each round's order by itself."""
    return rng.random((proofs, MOST_PAIRS)) < 0.5


def balanced_over(rounds: int) -> Draw:
    """Return what shuffles as many rounds of either order in each so many rounds."""

    def draw(rng: np.random.Generator, proofs: int) -> Bools:
        blocks = np.tile(np.arange(rounds) % 2 == 0, (proofs * MOST_PAIRS // rounds, 1))
        return rng.permuted(blocks, axis=1).reshape(proofs, MOST_PAIRS)

    return draw


def alternating(rng: np.random.Generator, proofs: int) -> Bools:
    """Reverse the order each time, from a random one on."""
    return (np.arange(MOST_PAIRS) + rng.integers(0, 2, (proofs, 1))) % 2 == 0


def two_kinds(rng: np.random.Generator, proofs: int) -> Bools:
    """Draw each four rounds of two kinds, those that alternate and those that are doubled, each begun by either variant."""
    kinds = np.array([[0, 1, 0, 1], [0, 0, 1, 1]])[rng.integers(0, 2, (proofs, MOST_PAIRS // 4))]
    begun = rng.integers(0, 2, (proofs, MOST_PAIRS // 4, 1))
    return (kinds == begun).reshape(proofs, MOST_PAIRS)


CHOSEN = "both kinds in each eight rounds"
DESIGNS: dict[str, Draw] = {
    "until now: one order": _drawn_by_plan(order_in_pair, plans=1),
    "a coin per round": coins,
    "alternating": alternating,
    "balanced over 2 rounds": balanced_over(2),
    "balanced over 4": balanced_over(4),
    "balanced over 24": balanced_over(24),
    "four rounds of either kind": two_kinds,
    CHOSEN: _drawn_by_plan(order_in_block),
}


@dataclass(frozen=True)
class Rates:
    """Shares of proofs that claim a difference, of the rule of looks and of fixed numbers of rounds, and rounds on average."""

    looks: float
    rounds: float
    fixed: tuple[float, ...]


def measure(kind: Kind, draw: Draw, proofs: int, effect: float = 0.0) -> Rates:
    """Return how often a difference is claimed if the candidate is faster by `effect`, 0 for a false claim."""
    rng = np.random.default_rng(SEED)
    gains = simulate(kind, draw, proofs, rng, effect).gains
    claimed, rounds = judge_by_looks(gains, _slack_of(kind))
    fixed = [
        float(_judge(gains[:, :count], student_quantile(count - 1), _slack_of(kind))[0].mean()) for count in FIXED
    ]  # fmt: skip
    return Rates(float(claimed.mean()), float(rounds.mean()), tuple(fixed))


@dataclass(frozen=True)
class Simulated:
    """Proofs of 24 rounds: which runs are the candidate's, their log times, and the log ratios of the rounds."""

    candidate: Bools
    logs: Array
    gains: Array


def simulate(kind: Kind, draw: Draw, proofs: int, rng: np.random.Generator, effect: float = 0.0) -> Simulated:
    """Return proofs of a candidate that is faster by `effect`."""
    reference_first = draw(rng, proofs)
    candidate = np.stack([~reference_first, reference_first], axis=-1).reshape(proofs, RUNS)
    logs = kind.noise(rng, candidate) - effect * candidate
    return Simulated(candidate, logs, np.where(reference_first, 1, -1) * (logs[:, 0::2] - logs[:, 1::2]))


def judge_by_looks(gains: Array, slack: float) -> tuple[Bools, NDArray[np.int64]]:
    """Return which proofs claim a difference by the rule of looks, and after how many rounds each ends."""
    claimed, ended = np.zeros(len(gains), bool), np.full(len(gains), MOST_PAIRS)
    for look, critical in reversed(CRITICAL.items()):  # so that the first look that decides counts
        differs, equivalent = _judge(gains[:, :look], critical, slack)
        claimed = np.where(differs | equivalent, differs, claimed)
        ended = np.where(differs | equivalent, look, ended)
    return claimed, ended


def _judge(gains: Array, critical: float, slack: float) -> tuple[Bools, Bools]:
    """Return which proofs say that there is a difference, and which that there is none, by the interval of so many errors."""
    half_width = critical * gains.std(axis=1, ddof=1) / math.sqrt(gains.shape[1]) + slack
    low, high = gains.mean(axis=1) - half_width, gains.mean(axis=1) + half_width
    within = np.maximum(-low, high) <= math.log1p(EQUIVALENCE_MARGIN)
    return ((low > 0) | (high < 0)) & ~within, within


def _slack_of(kind: Kind) -> float:
    """Return by how much intervals are wider since times are printed with few digits: half of the last one of either."""
    return 0.01 if kind.noise is rounded else 0.0


@dataclass(frozen=True)
class Outcomes:
    """Shares of proofs by all of the rule: those that claim a difference or are contested; and rounds on average."""

    claimed: float
    contested: float
    rounds: float


def prove(kind: Kind, proofs: int, effect: float = 0.0) -> Outcomes:
    """Return what becomes of proofs if rounds go on while a gain seems to rest on what ran before."""
    found = simulate(kind, DESIGNS[CHOSEN], proofs, np.random.default_rng(SEED), effect)
    claimed, contested = np.zeros(proofs, bool), np.zeros(proofs, bool)
    ended, runs_on = np.full(proofs, MOST_PAIRS), np.ones(proofs, bool)
    for look, critical in CRITICAL.items():
        differs, equivalent = _judge(found.gains[:, :look], critical, _slack_of(kind))
        decided = runs_on & (differs | equivalent)
        for proof in np.flatnonzero(decided & differs):
            profit = estimate_profit(_order_rounds(found.candidate[proof], found.gains[proof], look))
            decided[proof] = look == MOST_PAIRS or profit is None or not profit.is_most
            contested[proof] = decided[proof] and profit is not None and profit.is_most and profit.significant
        claimed |= decided & differs & ~contested
        ended[decided], runs_on = look, runs_on & ~decided
    return Outcomes(float(claimed.mean()), float(contested.mean()), float(ended.mean()))


def find_trends(kind: Kind, proofs: int) -> float:
    """Return in which share of proofs of equal variants, all of 24 rounds, a trend of the candidate is named."""
    found = simulate(kind, DESIGNS[CHOSEN], proofs, np.random.default_rng(SEED))
    own = found.logs[found.candidate].reshape(proofs, MOST_PAIRS)
    return float(np.mean([abs(find_trend(row)) > math.log1p(EQUIVALENCE_MARGIN) for row in own.tolist()]))


def _order_rounds(candidate: Bools, gains: Array, count: int) -> list[OrderedRound]:
    """Return a proof's rounds as the check sees them, in favour of the variant that is called faster."""
    sign = 1.0 if gains[:count].mean() > 0 else -1.0
    own = candidate if sign > 0 else ~candidate
    names = ("own", "other")
    places = [RunPlace(run, names[int(not own[run - 1])] if run else None) for run in range(2 * count)]
    return [
        order_round(names, (places[2 * at], places[2 * at + 1]) if own[2 * at] else (places[2 * at + 1], places[2 * at]), gain)
        for at, gain in enumerate((sign * gains[:count]).tolist())
    ]


def tabulate(proofs: int) -> str:
    """Return all tables as Markdown."""
    kinds = [kind for kind in KINDS if not kind.carries_over]
    by_design = {name: [measure(kind, draw, proofs) for kind in kinds] for name, draw in DESIGNS.items()}
    lines = ["**False claims by the rule of looks** (4 to 24 rounds) alone, by design, in percent of proofs.", ""]
    lines += _begin_table(["noise", *DESIGNS])
    lines += [_row([kind.name, *(_percent(rates[at].looks) for rates in by_design.values())]) for at, kind in enumerate(kinds)]
    lines += [_row(["*worst*", *(_percent(max(one.looks for one in rates)) for rates in by_design.values())])]
    lines += [
        _row([f"*worst, {n} rounds*", *(_percent(max(one.fixed[at] for one in rates)) for rates in by_design.values())])
        for at, n in enumerate(FIXED)
    ]
    lines += ["", f"**The chosen order**, by all of the rule: equal variants, and variants that differ by {EFFECT:.0%}.", ""]
    fixed = [f"claimed, {n} rounds" for n in FIXED]
    lines += _begin_table(["noise", "claimed", "contested", "trend", *fixed, f"{EFFECT:.0%}: claimed", "contested", "rounds"])
    lines += [_describe_outcomes(kind, proofs) for kind in KINDS]
    return "\n".join(lines)


def _describe_outcomes(kind: Kind, proofs: int) -> str:
    """Return the row of a kind of noise in the table of the chosen order."""
    equal, fixed = prove(kind, proofs), measure(kind, DESIGNS[CHOSEN], proofs).fixed
    shares = [equal.claimed, equal.contested, find_trends(kind, proofs // 10), *fixed]
    if kind.carries_over:
        return _row([kind.name, *map(_percent, shares), "", "", ""])
    different = prove(kind, proofs // 10, EFFECT)
    shares += [different.claimed, different.contested]
    return _row([kind.name, *map(_percent, shares), f"{different.rounds:.1f}"])


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _begin_table(head: Sequence[str]) -> list[str]:
    return [_row(head), _row(["---"] * len(head))]


def main() -> None:
    """Print the tables, and put them into the page if wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--proofs", type=int, default=PROOFS)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    tables = tabulate(asked.proofs)
    print(tables)
    if asked.write:
        write_table(PAGE, *TABLE, tables)


if __name__ == "__main__":
    main()
