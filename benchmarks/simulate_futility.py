"""Cost and savings of ending early, if the remaining rounds would hardly decide.

    python benchmarks/simulate_futility.py              # prints the table of docs/simulations.md

A proof is 24 pairs of normal log ratios around an effect. It ends at a look at which two programs are faster, slower or
equivalent by the real rule, or at which :class:`speedproof.stats.sequential.Question` finds that they hardly ever will be. Both
are computed here for all proofs at once; a test compares them with the real ones.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from speedproof.stats.sequential import CRITICAL, DEVIATION_CONFIDENCE, LEAST_CHANCE, MOST_PAIRS

NOISES = (0.01, 0.02, 0.03, 0.05, 0.10, 0.30)
EFFECTS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.10, 0.20, 0.50)
MARGIN = float(np.log(1.02))
PROOFS = 40_000
SEED = 20_261_126
COUNTS_FROM = 0.05  # the share of a rare outcome means nothing

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Shares of all proofs, and their mean number of rounds, without giving up and with it."""

    right: float  # decide correctly by the last look
    given_up: float  # of those that would decide correctly
    wrong: tuple[float, float]
    ended: float  # as futile, of those that would not decide
    rounds: tuple[float, float]


def is_decided(mean: Array, half_width: Array) -> NDArray[np.int64]:
    """Return 1 for a difference above 0, -1 for one below, 2 for equivalence, 0 for none."""
    low, high = mean - half_width, mean + half_width
    return np.select([(low >= -MARGIN) & (high <= MARGIN), low >= 0, high <= 0], [2, 1, -1], 0)


def chance_at_last(mean: Array, deviation: Array, count: int) -> Array:
    """Return how likely the last look decides, by the mean and sample deviation of so many pairs."""
    degrees = count - 1
    scale = np.maximum(deviation, 1e-300) * np.sqrt(1 / count - 1 / MOST_PAIRS)
    chances = []
    for share in (1.0, np.sqrt(degrees / special.chdtri(degrees, 1 - DEVIATION_CONFIDENCE))):
        half_width = CRITICAL[MOST_PAIRS] * deviation * share / np.sqrt(MOST_PAIRS)
        room = np.maximum(MARGIN - half_width, 0.0)
        beyond = special.stdtr(degrees, (mean - half_width) / scale) + special.stdtr(degrees, (-mean - half_width) / scale)
        within = special.stdtr(degrees, (room - mean) / scale) - special.stdtr(degrees, (-room - mean) / scale)
        chances.append(beyond + within)
    return np.maximum(*chances)


def simulate(noise: float, effect: float, proofs: int, rng: np.random.Generator, least: float = LEAST_CHANCE) -> Rates:
    """Return how proofs end whose pairs vary by `noise` about `effect`, if they are given up below a chance of `least`."""
    logs = effect + noise * rng.standard_normal((proofs, MOST_PAIRS))
    found, ended, given_up = np.zeros(proofs, np.int64), np.full(proofs, MOST_PAIRS), np.full(proofs, MOST_PAIRS + 1)
    for look, critical in CRITICAL.items():
        mean, deviation = logs[:, :look].mean(axis=1), logs[:, :look].std(axis=1, ddof=1)
        new = np.where(found == 0, is_decided(mean, critical * deviation / np.sqrt(look)), 0)
        found, ended = np.where(new != 0, new, found), np.where(new != 0, look, ended)
        if look < MOST_PAIRS:
            futile = (found == 0) & (given_up > MOST_PAIRS) & (chance_at_last(mean, deviation, look) < least)
            given_up = np.where(futile, look, given_up)
    right = ((found == 1) & (effect > 0)) | ((found == 2) & (effect <= MARGIN))
    wrong, up = (found != 0) & ~right, given_up <= MOST_PAIRS
    undecided = found == 0
    return Rates(
        right=float(right.mean()),
        given_up=float((right & up).sum() / max(1, right.sum())),
        wrong=(float(wrong.mean()), float((wrong & ~up).mean())),
        ended=float((up & undecided).sum() / max(1, undecided.sum())),
        rounds=(float(ended.mean()), float(np.minimum(ended, given_up).mean())),
    )


def main() -> None:
    """Print a row for each noise and effect, and the largest share that is given up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--proofs", type=int, default=PROOFS)
    parser.add_argument("--least", type=float, default=LEAST_CHANCE, help="chance below which a proof is given up")
    asked = parser.parse_args()
    rng, worst = np.random.default_rng(SEED), 0.0
    print("| pairs vary by | effect | decided rightly | of these given up | wrongly: before, now | rounds: before, now |")
    print("| --- | --- | --- | --- | --- | --- |")
    for noise in NOISES:
        for effect in EFFECTS:
            found = simulate(noise, effect, asked.proofs, rng, asked.least)
            worst = max(worst, found.given_up) if found.right >= COUNTS_FROM else worst
            print(
                f"| {noise:.0%} | {effect:.1%} | {found.right:.1%} | {found.given_up:.2%} | {found.wrong[0]:.2%}, "
                f"{found.wrong[1]:.2%} | {found.rounds[0]:.1f}, {found.rounds[1]:.1f} |"
            )
    print(f"given up at most: {worst:.2%} of what would have been decided rightly")


if __name__ == "__main__":
    main()
