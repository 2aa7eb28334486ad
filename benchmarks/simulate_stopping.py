"""By how many standard errors an interval must extend at each look, so that all looks together miss the truth rarely enough.

    python benchmarks/simulate_stopping.py              # prints CRITICAL of src/speedproof/stats/sequential.py

A path is 24 normal differences whose mean is 0. At each look after n of them the quantile is found beyond which so many of the
paths lie that no earlier look has stopped, that the error spent up to here is 0.05 · n / 24 of all paths.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

LOOKS = (4, 6, 8, 10, 12, 16, 20, 24)
ERROR = 0.05
PATHS = 2_000_000  # of 200,000 the first look's value is off by some 0.06
_AT_ONCE = 200_000
SEED = 20_261_123


def find_critical(
    paths: int, rng: np.random.Generator, looks: tuple[int, ...] = LOOKS, error: float = ERROR
) -> dict[int, float]:
    """Return, for each look, by how many standard errors the interval extends to either side of the mean."""
    statistics = student_paths(paths, rng, looks)
    alive = np.ones(paths, bool)
    found = {}
    for number, look in enumerate(looks):
        sizes = np.sort(statistics[alive, number])
        missed = paths - len(sizes)
        spend = round(error * look / looks[-1] * paths) - missed
        found[look] = float(sizes[len(sizes) - spend - 1])
        alive &= statistics[:, number] <= found[look]
    return found


def miss_rate(critical: dict[int, float], paths: int, rng: np.random.Generator) -> dict[int, float]:
    """Return, for each look, which share of normal paths has missed the truth at it or before."""
    beyond = student_paths(paths, rng, tuple(critical)) > np.array(list(critical.values()))
    return dict(zip(critical, np.logical_or.accumulate(beyond, axis=1).mean(axis=0).tolist(), strict=True))


def student_paths(paths: int, rng: np.random.Generator, looks: tuple[int, ...]) -> NDArray[np.float64]:
    """Return |mean| / standard error at each look, of shape (paths, looks)."""
    if paths > _AT_ONCE:
        return np.concatenate([student_paths(count, rng, looks) for count in _split(paths)])
    values = rng.standard_normal((paths, looks[-1]))
    sums, squares = values.cumsum(axis=1), (values**2).cumsum(axis=1)
    counts = np.array(looks)
    means = sums[:, counts - 1] / counts
    variances = (squares[:, counts - 1] - counts * means**2) / (counts - 1)
    return np.abs(means) / np.sqrt(variances / counts)


def _split(paths: int) -> list[int]:
    return [min(_AT_ONCE, paths - begun) for begun in range(0, paths, _AT_ONCE)]


def main() -> None:
    """Print the table, and how often it misses in fresh paths."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paths", type=int, default=PATHS)
    paths = parser.parse_args().paths
    rng = np.random.default_rng(SEED)
    critical = find_critical(paths, rng)
    print("CRITICAL = {" + ", ".join(f"{look}: {value:.2f}" for look, value in critical.items()) + "}")
    for look, rate in miss_rate({n: round(value, 2) for n, value in critical.items()}, paths, rng).items():
        print(f"missed up to {look} pairs: {rate:.4f}, of {ERROR * look / LOOKS[-1]:.4f} spent")


if __name__ == "__main__":
    main()
