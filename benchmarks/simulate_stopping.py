"""Critical values of the repeated intervals: how wide they must be so that all looks together rarely miss the truth.

    python benchmarks/simulate_stopping.py              # prints CRITICAL of src/speedproof/stats/sequential.py
    python benchmarks/simulate_stopping.py --joint      # prints JOINT_CRITICAL

A path is 24 normal differences with a mean of 0. A path that exceeds the critical value at a look has missed the truth and
stops. After n differences, 0.05 · n / 24 of all paths may have missed. So a look's critical value is the quantile among the
paths that have not stopped. For k intervals that hold together, the share is 0.05 / k · n / 24.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

LOOKS = (4, 6, 8, 10, 12, 16, 20, 24)
ERROR = 0.05
PATHS = 2_000_000  # with 200,000, the first look's value is off by about 0.06
_AT_ONCE = 200_000
SEED = 20_261_123
COMPARISONS = (*range(2, 11), 12, 15, 20, 25)
JOINT_PATHS = 16_000_000  # each of 25 intervals may miss in 0.2 % of them
_TAIL = 2.3  # below every critical value: paths that never reach it are dropped


def find_critical(
    paths: int, rng: np.random.Generator, looks: tuple[int, ...] = LOOKS, error: float = ERROR
) -> dict[int, float]:
    """Return, for each look, half the width of the interval in standard errors."""
    return _spend_error(student_paths(paths, rng, looks), paths, looks, error)


def find_joint(paths: int, rng: np.random.Generator) -> dict[int, dict[int, float]]:
    """Return the same for each number of intervals that hold together."""
    parts = (student_paths(count, rng, LOOKS).astype(np.float32) for count in _split(paths))
    tail = np.concatenate([part[(part > _TAIL).any(axis=1)] for part in parts])
    return {count: _spend_error(tail, paths, LOOKS, ERROR / count) for count in COMPARISONS}


def _spend_error(statistics: NDArray[np.floating], paths: int, looks: tuple[int, ...], error: float) -> dict[int, float]:
    """Return each look's critical value; `statistics` has at least those of so many paths that may exceed one."""
    alive = np.ones(len(statistics), bool)
    found = {}
    for number, look in enumerate(looks):
        sizes = np.sort(statistics[alive, number])
        spend = round(error * look / looks[-1] * paths) - (len(statistics) - len(sizes))
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
    parser.add_argument("--joint", action="store_true")
    asked = parser.parse_args()
    paths, rng = asked.paths, np.random.default_rng(SEED)
    if asked.joint:
        for count, row in find_joint(JOINT_PATHS, rng).items():
            print(f"    {count}: ({', '.join(f'{value:.2f}' for value in row.values())}),")
        return
    critical = find_critical(paths, rng)
    print("CRITICAL = {" + ", ".join(f"{look}: {value:.2f}" for look, value in critical.items()) + "}")
    for look, rate in miss_rate({n: round(value, 2) for n, value in critical.items()}, paths, rng).items():
        print(f"missed up to {look} pairs: {rate:.4f}, of {ERROR * look / LOOKS[-1]:.4f} spent")


if __name__ == "__main__":
    main()
