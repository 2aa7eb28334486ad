"""How often `speedproof bisect` names the right commit, and after how many runs, beside `git bisect` with fixed repeats.

    python benchmarks/simulate_bisect.py              # prints the rows of the table in docs/bisect.md
    python benchmarks/simulate_bisect.py --histories 300

A history has 8 to 128 commits after the reference, one of which makes runs longer. The runs of a commit vary by normal noise.
With drift, the machine also takes a random walk of 0.1 % per run. With outliers, one run in 20 takes 10 % longer.
"""

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from speedproof.run.bisect.search import ChangeSearch

SEED = 20_261_127
REPEATS = (5, 20, 50)


@dataclass(frozen=True)
class Case:
    """What is simulated; effects and noise are fractions."""

    effect: float
    noise: float
    drift: float = 0.0
    outliers: float = 0.0
    kind: str = "one"  # or: none, halves, ramp


CASES = {
    "2 % effect, 2 % noise": Case(0.02, 0.02),
    "… with drift": Case(0.02, 0.02, drift=0.001),
    "… with outliers": Case(0.02, 0.02, outliers=0.05),
    "5 % effect, 2 % noise": Case(0.05, 0.02),
    "30 % effect, 2 % noise": Case(0.30, 0.02),
    "10 % in two halves, 2 % noise": Case(0.10, 0.02, kind="halves"),
    "10 % over all commits, 2 % noise": Case(0.10, 0.02, kind="ramp"),
    "no effect, 2 % noise": Case(0.0, 0.02, kind="none"),
}


class History:
    """A simulated history; `measure` runs commits."""

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self._case, self._rng = case, rng
        self.commits = round(math.exp(rng.uniform(math.log(8), math.log(128)))) + 1
        self.culprit = int(rng.integers(1, self.commits))
        total = math.log1p(case.effect)
        self._levels = np.zeros(self.commits)
        match case.kind:
            case "one":
                self._levels[self.culprit :] = total
            case "halves":
                third = max(1, self.commits // 3)
                self._levels[third:] += total / 2
                self._levels[2 * third :] += total / 2
            case "ramp":
                self._levels = np.linspace(0, total, self.commits)
        self._drift = 0.0
        self.runs = 0

    def measure(self, places: Sequence[int]) -> list[float]:
        costs = [0.0] * len(places)
        for number in self._rng.permutation(len(places)):
            self._drift += self._case.drift * self._rng.standard_normal()
            late = math.log(1.1) if self._rng.random() < self._case.outliers else 0.0
            noise = self._case.noise * self._rng.standard_normal()
            costs[number] = float(self._levels[places[number]] + self._drift + noise + late)
            self.runs += 1
        return costs


def bisect_fixed(history: History, repeats: int) -> int:
    """Return the commit that `git bisect` names, if each is run so often and compared with the middle of the ends."""

    def mean(place: int) -> float:
        return fmean(history.measure([place] * repeats))

    low, high = 0, history.commits - 1
    threshold, slower = (mean(low) + mean(high)) / 2, None
    while high - low > 1:
        middle = (low + high) // 2
        slower = mean(middle) > threshold
        low, high = (low, middle) if slower else (middle, high)
    return high


def try_case(case: Case, histories: int, seed: int) -> list[str]:
    """Return the cells of a case's row."""
    outcomes: Counter[str] = Counter()
    runs, covered, steps = [], 0, 0
    for number in range(histories):
        history = History(case, np.random.default_rng([seed, number]))
        found = ChangeSearch(history.commits, history.measure, lambda: 1e9).run()
        outcome = found.outcome if found.outcome != "found" else "right" if found.place == history.culprit else "wrong"
        outcomes[outcome if case.kind == "one" or found.outcome != "found" else "named one"] += 1
        runs.append(history.runs)
        if outcome == "right" and found.step and found.step.interval:
            steps, covered = steps + 1, covered + found.step.interval.holds(math.log1p(case.effect))
    cells = [", ".join(f"{count} {name}" for name, count in outcomes.most_common()), f"{median(runs):.0f}"]
    cells.append(f"{100 * covered / steps:.0f} %" if steps else "–")
    return [*cells, *(_try_fixed(case, histories, seed, repeats) for repeats in REPEATS)] if case.kind == "one" else cells


def _try_fixed(case: Case, histories: int, seed: int, repeats: int) -> str:
    wrong, runs = 0, []
    for number in range(histories):
        history = History(case, np.random.default_rng([seed, number]))
        wrong += bisect_fixed(history, repeats) != history.culprit
        runs.append(history.runs)
    return f"{wrong} wrong, {median(runs):.0f} runs"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=30)
    parser.add_argument("--case", choices=CASES, action="append")
    asked = parser.parse_args()
    for name, case in CASES.items():
        if not asked.case or name in asked.case:
            print(f"| {name} | {' | '.join(try_case(case, asked.histories, SEED))} |", flush=True)


if __name__ == "__main__":
    main()
