"""How often quality is misjudged by the rule of docs/statistics.md, if one variant is worse by exactly the margin.

    python benchmarks/simulate_quality.py

prints two tables. For one experiment, by number of seeds and their deviation: how often the outcome is *no worse*, and how
often a quality measures better by more than the margin. For several machines: how often the outcome is *no worse* by the
machines' means alone, and by the wider of their interval and that of the seeds.
"""

import numpy as np
from numpy.typing import NDArray

from speedproof.stats.estimates import student_quantile

PATHS = 200_000
Values = NDArray[np.float64]


def half_width(values: Values) -> Values:
    """Return half the 95 % t interval of each row's mean."""
    count = values.shape[1]
    return np.asarray(student_quantile(count - 1) * values.std(axis=1, ddof=1) / np.sqrt(count))


def draw_machines(random: np.random.Generator, machines: int, seeds: int, of_machine: float, shared: bool) -> Values:
    """Return differences of quality (path, machine, seed) in margins, of a mean of -1; seeds deviate by 1."""
    of_seeds = random.normal(0, 1, (PATHS, 1 if shared else machines, seeds))
    return -1 + random.normal(0, of_machine, (PATHS, machines, 1)) + np.broadcast_to(of_seeds, (PATHS, machines, seeds))


def main() -> None:
    """Print both tables."""
    random = np.random.default_rng(1)
    print("| seeds | deviation / margin | no worse | better by more than the margin |\n| --- | --- | --- | --- |")
    for seeds in (4, 8):
        for deviation in (1, 2, 4):
            differences = random.normal(-1, deviation, (PATHS, seeds))
            mean, no_worse = differences.mean(axis=1), differences.mean(axis=1) - half_width(differences) >= -1
            print(f"| {seeds} | {deviation} | {no_worse.mean():.1%} | {(~no_worse & (mean > 1)).mean():.1%} |")
    print(
        "\n| machines, seeds on each | machines deviate by | machines' means alone | wider of two |\n| --- | --- | --- | --- |"
    )
    for machines, seeds, shared in ((3, 2, False), (3, 4, True), (5, 2, False), (5, 4, True)):
        for of_machine in (0, 1):
            differences = draw_machines(random, machines, seeds, of_machine, shared)
            by_seed = differences.mean(axis=1) if shared else differences.reshape(PATHS, -1)
            means = differences.mean(axis=2)
            widths = half_width(means), np.maximum(half_width(means), half_width(by_seed))
            alone, wider = (f"{(means.mean(axis=1) - width >= -1).mean():.1%}" for width in widths)
            print(f"| {machines}, {seeds} {'equal' if shared else 'own'} | {of_machine} | {alone} | {wider} |")


if __name__ == "__main__":
    main()
