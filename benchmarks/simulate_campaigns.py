"""How often a campaign keeps a change that does nothing, and how often one that helps.

    python benchmarks/simulate_campaigns.py            # prints the tables of docs/simulations.md

A campaign of 50 tries compares each change with what was kept before it, by pairs of runs with log-normal noise. speedproof
looks after 4 to 24 pairs and spends the campaign's error as :mod:`speedproof.stats.false_discoveries` says. It is compared with
two rules that people use: a t-test at 5 % of five runs each, and whether the mean of three runs is better.
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from speedproof.stats.false_discoveries import count_comparisons
from speedproof.stats.sequential import CRITICAL, MOST_PAIRS, critical_values

TRIES = 50
CAMPAIGNS = 1000
SEED = 20_261_127
NOISES = (0.005, 0.02, 0.10)  # deviation of a run's log time
GAINS = (0.03, 0.10)
LEAST = 0.01  # a change that gains less is dropped

Array = NDArray[np.float64]
Rule = Callable[[Array, Array, NDArray[np.int64]], tuple[NDArray[np.bool_], NDArray[np.int64]]]


def decide_by_looks(reference: Array, changed: Array, kept: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which campaigns keep the change, and after how many runs, by intervals that hold at each look."""
    logs = reference - changed
    keeps, runs = np.zeros(len(logs), bool), np.full(len(logs), 2 * MOST_PAIRS)
    for number in np.unique(kept):
        own = kept == number
        open_yet = own.copy()
        for look, critical in critical_values(count_comparisons(TRIES, int(number))).items():
            mean = logs[:, :look].mean(axis=1)
            half_width = critical * logs[:, :look].std(axis=1, ddof=1) / np.sqrt(look)
            faster = open_yet & (mean > half_width)
            dropped = open_yet & ~faster & (mean + half_width < np.log1p(LEAST))
            keeps |= faster
            runs[faster | dropped] = 2 * look
            open_yet &= ~(faster | dropped)
    return keeps, runs


def decide_by_test(reference: Array, changed: Array, kept: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which campaigns keep the change, by a one-sided t-test at 5 % of five runs each."""
    tested = stats.ttest_ind(reference[:, :5], changed[:, :5], axis=1, alternative="greater")
    return tested.pvalue < 0.05, np.full(len(kept), 10)


def decide_by_mean(reference: Array, changed: Array, kept: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which campaigns keep the change, by whether the mean of three runs is better."""
    return reference[:, :3].mean(axis=1) > changed[:, :3].mean(axis=1), np.full(len(kept), 6)


RULES: dict[str, Rule] = {
    "speedproof": decide_by_looks,
    "t-test at 5 %, 5 runs each": decide_by_test,
    "mean of 3 runs is better": decide_by_mean,
}


def run_campaigns(rule: Rule, noise: float, gains: Array, campaigns: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Return which tries are kept, of shape (campaigns, tries), and the mean number of runs of a campaign.

    `gains` has the shape (campaigns, tries): by which share a change makes its program faster.
    """
    kept, spent = np.zeros((campaigns, TRIES), bool), 0.0
    for number in range(TRIES):
        reference, changed = noise * rng.standard_normal((2, campaigns, max(CRITICAL)))
        changed -= np.log1p(gains[:, number])[:, None]
        kept[:, number], runs = rule(reference, changed, kept[:, :number].sum(axis=1))
        spent += float(runs.mean())
    return kept, spent


def place_gains(gain: float, good: int, campaigns: int, rng: np.random.Generator) -> Array:
    """Return the gains of tries of which so many, at random, are good and the others do nothing."""
    order = rng.permuted(np.tile(np.arange(TRIES), (campaigns, 1)), axis=1)
    return np.where(order < good, gain, 0.0)


def main() -> None:
    """Print campaigns of null changes; then of one and of ten good changes among them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=CAMPAIGNS)
    campaigns = parser.parse_args().campaigns
    rng = np.random.default_rng(SEED)
    print("| runs vary by | rule | campaigns that keep a null change | 95 % interval | runs |")
    print("| --- | --- | --- | --- | --- |")
    for noise in NOISES:
        for name, rule in RULES.items():
            kept, runs = run_campaigns(rule, noise, np.zeros((campaigns, TRIES)), campaigns, rng)
            false = int(kept.any(axis=1).sum())
            low, high = stats.binomtest(false, campaigns).proportion_ci()
            print(f"| {noise:.1%} | {name} | {false / campaigns:.1%} | {low:.1%} to {high:.1%} | {runs:.0f} |", flush=True)
    print("\n| runs vary by | good changes | rule | good ones kept | false share of kept | runs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for noise in NOISES:
        for gain in GAINS:
            for good in (1, 10):
                for name, rule in RULES.items():
                    gains = place_gains(gain, good, campaigns, rng)
                    kept, runs = run_campaigns(rule, noise, gains, campaigns, rng)
                    found, false = (kept & (gains > 0)).sum(), (kept & (gains == 0)).sum()
                    share = false / max(1, found + false)
                    cells = f"{good} of {gain:.0%} | {name} | {found / (good * campaigns):.1%} | {share:.1%} | {runs:.0f}"
                    print(f"| {noise:.1%} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
