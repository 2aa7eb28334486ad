"""Rate of false claims of a proof with several candidates, if all commands are equal.

    python benchmarks/simulate_candidates.py            # prints the table of docs/simulations.md

Each round gives every command a log-normal time. The candidates share their reference, so their ratios are correlated. A claim
is an interval that excludes 1. Rounds end by the real rule: at the first look at which all candidates are decided.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

from speedproof.stats.estimates import student_quantile
from speedproof.stats.sequential import MOST_PAIRS, critical_values

CANDIDATES = (1, 3, 10, 25)
NOISES = (0.005, 0.02, 0.10)  # deviation of a run's log time
FIXED = (4, 8)
PROOFS = 20_000
SEED = 20_261_126
_MARGIN = float(np.log(1.02))

Array = NDArray[np.float64]


def make_logs(candidates: int, noise: float, proofs: int, rng: np.random.Generator) -> Array:
    """Return log ratios of shape (proofs, candidates, rounds): one reference's times less each candidate's."""
    times = noise * rng.standard_normal((proofs, candidates + 1, MOST_PAIRS))
    return times[:, :1] - times[:, 1:]


def judge_at_looks(logs: Array, comparisons: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which candidates are claimed to differ, by proof, and the look at which all are decided, or the last one."""
    proofs, candidates = logs.shape[:2]
    claimed, ended = np.zeros((proofs, candidates), bool), np.full(proofs, MOST_PAIRS)
    open_yet = np.ones(proofs, bool)
    for look, critical in critical_values(comparisons).items():
        mean = logs[:, :, :look].mean(axis=2)
        half_width = critical * logs[:, :, :look].std(axis=2, ddof=1) / np.sqrt(look)
        equivalent = np.abs(mean) + half_width <= _MARGIN
        differs = (np.abs(mean) > half_width) & ~equivalent
        ends = open_yet & ((differs | equivalent).all(axis=1) | (look == MOST_PAIRS))
        claimed[ends], ended[ends] = differs[ends], look
        open_yet &= ~ends
    return claimed, ended


def claim_at_looks(logs: Array, comparisons: int) -> NDArray[np.bool_]:
    """Return which proofs claim a difference of any candidate at the look at which all are decided, or at the last."""
    return judge_at_looks(logs, comparisons)[0].any(axis=1)


def claim_after(logs: Array, rounds: int, comparisons: int) -> NDArray[np.bool_]:
    """Return which proofs of a fixed number of rounds claim a difference of any candidate, by Student's intervals."""
    mean, deviation = logs[:, :, :rounds].mean(axis=2), logs[:, :, :rounds].std(axis=2, ddof=1)
    half_width = student_quantile(rounds - 1, comparisons) * deviation / np.sqrt(rounds)
    return ((np.abs(mean) > half_width) & (np.abs(mean) + half_width > _MARGIN)).any(axis=1)


def main() -> None:
    """Print a row for each number of candidates and noise: false claims without joint intervals, and with them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--proofs", type=int, default=PROOFS)
    proofs = parser.parse_args().proofs
    rng = np.random.default_rng(SEED)
    heads = ["until decided", *(f"{rounds} rounds" for rounds in FIXED)]
    print(f"| candidates | runs vary by | {' | '.join(f'{head}: each alone, adjusted' for head in heads)} |")
    print("| --- | --- | --- |" + " --- |" * len(FIXED))
    for count in CANDIDATES:
        for noise in NOISES:
            parts = [make_logs(count, noise, min(2000, proofs - begun), rng) for begun in range(0, proofs, 2000)]
            found = [
                *(np.concatenate([claim_at_looks(logs, k) for logs in parts]).mean() for k in (1, count)),
                *(np.concatenate([claim_after(logs, n, k) for logs in parts]).mean() for n in FIXED for k in (1, count)),
            ]
            cells = [f"{alone:.1%}, {joint:.1%}" for alone, joint in zip(found[::2], found[1::2], strict=True)]
            print(f"| {count} | {noise:.1%} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
