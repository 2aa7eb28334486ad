"""How often a proof decides after as many pairs as were forecast.

    python benchmarks/simulate_forecast.py              # prints the table of docs/simulations.md

A proof is up to 24 pairs of log ratios around an effect. At each look that leaves it open, we forecast the first later look
that would decide it. The forecast keeps the mean and assumes either the measured deviation or its upper limit;
:func:`speedproof.stats.measurements.estimate_needed` uses the limit. A forecast is right if the proof is decided by then.
"""

import math
from collections import Counter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulate_futility import is_decided
from speedproof.stats.sequential import CRITICAL, MOST_PAIRS, Noise

LOOKS = list(CRITICAL)
NOISES = (0.01, 0.03, 0.10, 0.30)
LARGEST_EFFECT = 2.0  # in deviations
PROOFS = 20_000
SEED = 20_261_126

Kind = Literal["normal", "t with 3 degrees of freedom"]
Array = NDArray[np.float64]


def draw(kind: Kind, noise: float, proofs: int, rng: np.random.Generator) -> Array:
    """Return the log ratios of proofs, each with an effect of its own."""
    shape = (proofs, MOST_PAIRS)
    values = rng.standard_normal(shape) if kind == "normal" else rng.standard_t(3, shape) / math.sqrt(3)
    return noise * (values + rng.uniform(0, LARGEST_EFFECT, (proofs, 1)))


def forecast(mean: Array, deviation: Array, look: int) -> NDArray[np.int64]:
    """Return after how many pairs a proof would be decided with this mean and deviation; 0: not at any look."""
    found = np.zeros(len(mean), np.int64)
    for later in (one for one in LOOKS if one > look):
        decided = is_decided(mean, CRITICAL[later] * deviation / math.sqrt(later)) != 0
        found = np.where((found == 0) & decided, later, found)
    return found


def simulate(kind: Kind, noise: float, proofs: int, rng: np.random.Generator) -> dict[int, Counter[str]]:
    """Return, for each look, how many forecasts there are and how many are right: of the deviation, and of its upper limit."""
    logs = draw(kind, noise, proofs, rng)
    seen = {look: (logs[:, :look].mean(axis=1), logs[:, :look].std(axis=1, ddof=1)) for look in LOOKS}
    decided = np.zeros(proofs, np.int64)  # after how many pairs
    for look, (mean, deviation) in seen.items():
        now = is_decided(mean, CRITICAL[look] * deviation / math.sqrt(look)) != 0
        decided = np.where((decided == 0) & now, look, decided)
    counts: dict[int, Counter[str]] = {}
    for look in LOOKS[:-1]:
        is_open = (decided == 0) | (decided > look)
        mean, deviation = (values[is_open] for values in seen[look])
        ends = np.where(decided == 0, MOST_PAIRS + 1, decided)[is_open]
        counts[look] = Counter()
        for name, factor in (("measured", 1.0), ("limit", Noise(1.0, look - 1).limit)):
            told = forecast(mean, factor * deviation, look)
            counts[look] += Counter({name: int((told > 0).sum()), f"{name}, right": int(((told > 0) & (ends <= told)).sum())})
    return counts


def main() -> None:
    """Print a row for each look."""
    rng = np.random.default_rng(SEED)
    kinds: tuple[Kind, ...] = ("normal", "t with 3 degrees of freedom")
    print("| after | pairs' noise | right, by the measured deviation | right, by its upper limit | have such a forecast |")
    print("| --- | --- | --- | --- | --- |")
    found: dict[tuple[int, Kind], Counter[str]] = {}
    for kind in kinds:
        for noise in NOISES:
            for look, counts in simulate(kind, noise, PROOFS, rng).items():
                found[look, kind] = found.get((look, kind), Counter()) + counts
    for (look, kind), counts in sorted(found.items()):
        right = [f"{counts[f'{name}, right'] / counts[name]:.0%}" if counts[name] else "–" for name in ("measured", "limit")]
        print(f"| {look} pairs | {kind} | {' | '.join(right)} | {counts['limit'] / counts['measured']:.0%} |")


if __name__ == "__main__":
    main()
