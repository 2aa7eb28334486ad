"""How often equal variants are called different, by the order of their runs and the kind of noise.

    python -m benchmarks.simulate_orders            # prints the tables
    python -m benchmarks.simulate_orders --write    # and writes them into docs/simulations.md

A proof has up to 24 rounds of two variants. Each design draws orders, and run times are simulated for them. They are judged by
the rule of `speedproof prove`, or after a fixed number of rounds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from benchmarks.noise import KINDS, NOISE, Array, Bools, Kind, rounded
from benchmarks.simulate_candidates import judge_at_looks
from benchmarks.tables import make_table, percent, print_or_write, state_precision
from speedproof.results.experiment import EQUIVALENCE_MARGIN, RunPlace
from speedproof.run.plan import order_in_block, order_in_pair
from speedproof.stats.carried_over import find_trend
from speedproof.stats.estimates import student_quantile
from speedproof.stats.order_profit import OrderedRound, estimate_profit, order_round
from speedproof.stats.sequential import CRITICAL, ERROR, MOST_PAIRS

PROOFS = 10_000
PLANS = 2_000  # real ones, of which simulated proofs take one each
SEED = 20_261_126
SEVERAL = (("normal", 3), ("drift", 3), ("slow every 4 runs", 3), ("normal", 10))  # kinds of noise, and numbers of candidates
FIXED = (4, 6, 8, 12)
RUNS = 2 * MOST_PAIRS
EFFECT = 2 * NOISE  # of a difference that is to be found
OTHER_RULES = """\
**Beside other rules**, by the same made-up times:

- *This rule*: the chosen order, and all of the rule. Intervals of several candidates are adjusted; order is not checked here.
- *Earlier rule*: one order for all proofs, which is not checked. Each of several candidates is judged alone.
- *U test*: a two-sided Mann–Whitney U test at 5 % of this rule's runs, up to the round at which the proof ended, or of all 24
  rounds. Each of several candidates is judged alone.
- Several equal candidates count as falsely claimed if any of them is. Of several with a difference, one is faster."""
PAGE = Path(__file__).parents[1] / "docs/simulations.md"
TABLE = ("orders", "benchmarks/simulate_orders.py")  # its name in the page, and who writes it

Draw = Callable[[np.random.Generator, int], Bools]  # whether the reference comes first, by proof and round


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


EARLIER = "earlier: one order"
CHOSEN = "both kinds in each eight rounds"
DESIGNS: dict[str, Draw] = {
    EARLIER: _drawn_by_plan(order_in_pair, plans=1),
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
        float(judge_at(gains[:, :count], student_quantile(count - 1), _slack_of(kind))[0].mean()) for count in FIXED
    ]  # fmt: skip
    return Rates(float(claimed.mean()), float(rounds.mean()), tuple(fixed))


@dataclass(frozen=True)
class Simulated:
    """Proofs of 24 rounds: which runs are the candidate's, their log times, and the log ratios of the rounds."""

    candidate: Bools
    logs: Array
    gains: Array

    def split(self) -> tuple[Array, Array]:
        """Return the log times of the reference and of the candidate, by proof and round."""
        shape = self.gains.shape
        return self.logs[~self.candidate].reshape(shape), self.logs[self.candidate].reshape(shape)


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
        differs, equivalent = judge_at(gains[:, :look], critical, slack)
        claimed = np.where(differs | equivalent, differs, claimed)
        ended = np.where(differs | equivalent, look, ended)
    return claimed, ended


def judge_at(gains: Array, critical: float, slack: float) -> tuple[Bools, Bools]:
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
    """Shares of proofs by the whole rule, mean number of rounds, and the claims of a Mann–Whitney U test on the same runs."""

    claimed: float
    contested: float
    rounds: float
    ranks_stopped: float  # the test's claims after as many rounds as the proof had
    ranks_all: float  # and after 24


@cache
def prove(kind: Kind, proofs: int, effect: float = 0.0) -> Outcomes:
    """Return what becomes of proofs if rounds go on while a gain seems to rest on what ran before."""
    found = simulate(kind, DESIGNS[CHOSEN], proofs, np.random.default_rng(SEED), effect)
    claimed, contested, ended = judge_proofs(found, _slack_of(kind))
    reference, candidate = found.split()
    ranks = differ_by_rank_at(reference, candidate, ended), differ_by_rank(reference, candidate)
    return Outcomes(*(float(of_all.mean()) for of_all in (claimed, contested, ended, *ranks)))


def judge_proofs(found: Simulated, slack: float) -> tuple[Bools, Bools, NDArray[np.int64]]:
    """Return which proofs claim a difference, which are contested, and after how many rounds each ends."""
    proofs = len(found.gains)
    claimed, contested = np.zeros(proofs, bool), np.zeros(proofs, bool)
    ended, runs_on = np.full(proofs, MOST_PAIRS), np.ones(proofs, bool)
    for look, critical in CRITICAL.items():
        differs, equivalent = judge_at(found.gains[:, :look], critical, slack)
        decided = runs_on & (differs | equivalent)
        for proof in np.flatnonzero(decided & differs):
            profit = estimate_profit(_order_rounds(found.candidate[proof], found.gains[proof], look))
            decided[proof] = look == MOST_PAIRS or profit is None or not profit.is_most
            contested[proof] = decided[proof] and profit is not None and profit.is_most and profit.significant
        claimed |= decided & differs & ~contested
        ended[decided], runs_on = look, runs_on & ~decided
    return claimed, contested, ended


def differ_by_rank(first: Array, second: Array) -> Bools:
    """Return in which rows two samples differ by a two-sided Mann–Whitney U test, which is exact unless values are equal."""
    ties = (np.diff(np.sort(np.concatenate([first, second], axis=1), axis=1), axis=1) == 0).any()
    return mannwhitneyu(first, second, axis=1, method="asymptotic" if ties else "exact").pvalue <= ERROR


def differ_by_rank_at(first: Array, second: Array, ended: NDArray[np.int64]) -> Bools:
    """Return the same of each row's values up to the round at which its proof ended."""
    differ = np.zeros(len(first), bool)
    for look in np.unique(ended):
        differ[ended == look] = differ_by_rank(first[ended == look, :look], second[ended == look, :look])
    return differ


@dataclass(frozen=True)
class Compared:
    """Shares of proofs that claim a difference by each of four rules, and rounds on average of the first two."""

    rule: float
    earlier: float
    ranks_stopped: float
    ranks_all: float
    rounds: float
    earlier_rounds: float


def compare_rules(kind: Kind, proofs: int, effect: float = 0.0) -> Compared:
    """Return what the rules claim of two commands; the earlier one had one order for all proofs, which was not checked."""
    this = prove(kind, proofs, effect)
    before = measure(kind, DESIGNS[EARLIER], proofs, effect)
    return Compared(this.claimed, before.looks, this.ranks_stopped, this.ranks_all, this.rounds, before.rounds)


def compare_rules_of_several(kind: Kind, candidates: int, proofs: int, effect: float = 0.0) -> Compared:
    """Return what the rules claim of any of several candidates, or, with an effect, of the one that is faster.

    The earlier rule and the U test judge each candidate as if it were the only one.
    """
    times = simulate_several(kind, candidates, proofs, np.random.default_rng(SEED), effect)
    gains = times[:, :1] - times[:, 1:]
    (joint, ended), (alone, ended_alone) = (judge_at_looks(gains, comparisons) for comparisons in (candidates, 1))
    others = range(1, candidates + 1)
    stopped = np.stack([differ_by_rank_at(times[:, 0], times[:, at], ended) for at in others], axis=1)
    after_all = np.stack([differ_by_rank(times[:, 0], times[:, at]) for at in others], axis=1)
    asked = slice(0, 1 if effect else None)
    shares = [float(claims[:, asked].any(axis=1).mean()) for claims in (joint, alone, stopped, after_all)]
    return Compared(*shares, float(ended.mean()), float(ended_alone.mean()))


def simulate_several(kind: Kind, candidates: int, proofs: int, rng: np.random.Generator, effect: float = 0.0) -> Array:
    """Return log times by proof, command and round: those of the reference first, then of the candidate that is faster."""
    places = _list_places(candidates + 1)[rng.integers(0, PLANS, proofs)]
    in_order = kind.noise(rng, np.zeros((proofs, places[0].size), bool)).reshape(places.shape)
    times = np.take_along_axis(in_order, places, axis=2)
    times[:, :, 1] -= effect
    return times.transpose(0, 2, 1)


@cache
def _list_places(commands: int) -> NDArray[np.int64]:
    """Return the place of each command in each round of each plan."""
    labels = [(str(number), False) for number in range(commands)]
    rounds = [[order_in_block(labels, f"{seed}/timed", place) for place in range(MOST_PAIRS)] for seed in range(PLANS)]
    return np.argsort([[[int(name) for name, _ in of_round] for of_round in plan] for plan in rounds], axis=2)


def find_trends(kind: Kind, proofs: int) -> float:
    """Return in which share of proofs of equal variants, all of 24 rounds, a trend of the candidate is named."""
    found = simulate(kind, DESIGNS[CHOSEN], proofs, np.random.default_rng(SEED))
    return float(np.mean([abs(find_trend(row)) > math.log1p(EQUIVALENCE_MARGIN) for row in found.split()[1].tolist()]))


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
    lines = [state_precision(proofs), "", *_tabulate_designs(proofs), "", *_tabulate_chosen(proofs)]
    lines += ["", OTHER_RULES, "", "**Equal variants**: false claims in percent, and rounds on average.", ""]
    lines += _tabulate_rules(proofs)
    lines += ["", f"**Variants that differ by {EFFECT:.0%}**: found, in percent, and rounds on average.", ""]
    return "\n".join(lines + _tabulate_rules(proofs, EFFECT))


def _tabulate_designs(proofs: int) -> list[str]:
    """Return the table of all designs and kinds of noise."""
    kinds = [kind for kind in KINDS if kind.promised]
    by_design = {name: [measure(kind, draw, proofs) for kind in kinds] for name, draw in DESIGNS.items()}
    rows = [[kind.name, *(percent(rates[at].looks) for rates in by_design.values())] for at, kind in enumerate(kinds)]
    rows += [["*worst*", *(percent(max(one.looks for one in rates)) for rates in by_design.values())]]
    rows += [
        [f"*worst, {n} rounds*", *(percent(max(one.fixed[at] for one in rates)) for rates in by_design.values())]
        for at, n in enumerate(FIXED)
    ]
    title = "**False claims by the rule of looks** (4 to 24 rounds) alone, by design, in percent of proofs."
    return [title, "", *make_table(["noise", *DESIGNS], rows)]


def _tabulate_chosen(proofs: int) -> list[str]:
    """Return the table of the chosen order."""
    fixed = [f"claimed, {n} rounds" for n in FIXED]
    head = ["noise", "claimed", "contested", "trend", *fixed, f"{EFFECT:.0%}: claimed", "contested", "rounds"]
    title = f"**The chosen order**, by all of the rule: equal variants, and variants that differ by {EFFECT:.0%}."
    return [title, "", *make_table(head, [_describe_outcomes(kind, proofs) for kind in KINDS])]


def _describe_outcomes(kind: Kind, proofs: int) -> list[str]:
    """Return the row of a kind of noise in the table of the chosen order."""
    equal, fixed = prove(kind, proofs), measure(kind, DESIGNS[CHOSEN], proofs).fixed
    shares = [equal.claimed, equal.contested, find_trends(kind, proofs // 10), *fixed]
    if kind.favours:
        return [kind.name, *map(percent, shares), "", "", ""]
    different = prove(kind, proofs, EFFECT)
    shares += [different.claimed, different.contested]
    return [kind.name, *map(percent, shares), f"{different.rounds:.1f}"]


def _tabulate_rules(proofs: int, effect: float = 0.0) -> list[str]:
    """Return the table of what each rule claims; of equal variants alone if one is favoured by what ran before it."""
    by_name = {kind.name: kind for kind in KINDS if not (kind.favours and effect)}
    found = {name: compare_rules(kind, proofs, effect) for name, kind in by_name.items()}
    found |= {
        f"{name}, {count} candidates": compare_rules_of_several(by_name[name], count, proofs, effect) for name, count in SEVERAL
    }
    head = [
        "noise",
        "this rule",
        "earlier rule",
        "U test, same rounds",
        "U test, 24 rounds",
        "rounds: this rule",
        "earlier rule",
    ]
    return make_table(head, [[name, *_describe_compared(one)] for name, one in found.items()])


def _describe_compared(found: Compared) -> list[str]:
    shares = [found.rule, found.earlier, found.ranks_stopped, found.ranks_all]
    return [*map(percent, shares), f"{found.rounds:.1f}", f"{found.earlier_rounds:.1f}"]


def main() -> None:
    """Print the tables, or also write them into the page."""
    print_or_write(__doc__, tabulate, PROOFS, PAGE, TABLE)


if __name__ == "__main__":
    main()
