"""Conclusions of benchmark tools and of `speedproof prove` from the same simulated runs: false claims, and differences found.

    python -m benchmarks.simulate_tools            # prints the tables
    python -m benchmarks.simulate_tools --write    # and writes them into docs/simulations.md

The rule of each tool is reimplemented from its source, which the first table names. It gets 24 runs of each variant: once as
hyperfine runs them, all of the reference before all of the candidate, and once interleaved.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.noise import KINDS, Array, Kind
from benchmarks.simulate_orders import (
    CHOSEN,
    DESIGNS,
    EFFECT,
    SEED,
    Simulated,
    differ_by_rank,
    judge_at,
    judge_proofs,
    simulate,
)
from benchmarks.tables import make_table, percent, print_or_write, state_precision
from speedproof.stats.estimates import student_quantile
from speedproof.stats.sequential import MOST_PAIRS

PROOFS = 20_000
SHOWN = [kind for kind in KINDS if kind.name in {"normal", "drift", "autocorrelated", "bursts", "steps"}]
PAGE = Path(__file__).parents[1] / "docs/simulations.md"
TABLE = ("tools", "benchmarks/simulate_tools.py")  # its name in the page, and who writes it

Signs = NDArray[np.int64]  # by proof: 1 if the candidate is called faster, -1 if it is called slower, else 0


@dataclass(frozen=True)
class Tool:
    """A tool, where its rule was read, what the rule is, and what it concludes of times of the reference and the candidate."""

    name: str
    source: str
    rule: str
    decide: Callable[[Array, Array], Signs]


def decide_by_pooled_t(reference: Array, candidate: Array) -> Signs:
    """Conclude as pyperf: Student's t of the pooled variance reaches the critical value of a table."""
    pooled = (reference.var(axis=1, ddof=1) + candidate.var(axis=1, ddof=1)) / 2
    gains = reference.mean(axis=1) - candidate.mean(axis=1)
    critical = 2.021  # its table has no 46 degrees of freedom, and takes the 40 below them
    return _sign(gains, np.abs(gains) >= critical * np.sqrt(2 * pooled / reference.shape[1]))


def decide_by_rank(reference: Array, candidate: Array) -> Signs:
    """Conclude as benchstat: a Mann–Whitney U test, and the difference of the medians."""
    return _sign(np.median(reference, axis=1) - np.median(candidate, axis=1), differ_by_rank(reference, candidate))


def name_faster(reference: Array, candidate: Array) -> Signs:
    """Conclude as hyperfine: whichever mean is lower is printed as the faster."""
    return _sign(reference.mean(axis=1) - candidate.mean(axis=1))


def name_faster_beyond_deviation(reference: Array, candidate: Array) -> Signs:
    """Conclude like a reader of hyperfine's ratio who sees that 1 lies outside of the printed deviation."""
    ratios = reference.mean(axis=1) / candidate.mean(axis=1)
    ratios = np.maximum(ratios, 1 / ratios)
    deviations = ratios * np.hypot(_relative_deviation(reference), _relative_deviation(candidate))
    return np.where(ratios - deviations > 1, name_faster(reference, candidate), 0)


def decide_by_noise(reference: Array, candidate: Array) -> Signs:
    """Conclude as nvbench-compare-legacy: the relative difference exceeds the smaller of the two relative deviations."""
    gains = 1 - candidate.mean(axis=1) / reference.mean(axis=1)
    return _sign(gains, np.abs(gains) > np.minimum(_relative_deviation(reference), _relative_deviation(candidate)))


def decide_by_gap(reference: Array, candidate: Array) -> Signs:
    """Conclude as nvbench-compare-robust: the ranges from minimum to third quartile are 0.5 % apart."""
    upper_rank = (75 * (reference.shape[1] - 1) + 50) // 100  # the nearest one, without interpolation
    (low, high), (own_low, own_high) = (
        (np.sort(times, axis=1)[:, 0], np.sort(times, axis=1)[:, upper_rank]) for times in (reference, candidate)
    )
    return np.where(low / own_high >= 1.005, 1, np.where(own_low / high >= 1.005, -1, 0))


def _sign(gains: Array, claimed: NDArray[np.bool_] | bool = True) -> Signs:
    return np.where(claimed, np.sign(gains), 0).astype(np.int64)


def _relative_deviation(times: Array) -> Array:
    return times.std(axis=1, ddof=1) / times.mean(axis=1)


def _cite(repository: str, commit: str, *files: str) -> str:
    """Return links to files of a commit."""
    return ", ".join(f"[`{Path(file).name}`](https://github.com/{repository}/blob/{commit}/{file})" for file in files)


_HYPERFINE = "1.20.0: " + _cite("sharkdp/hyperfine", "327d5f4", "src/benchmark/relative_speed.rs", "src/benchmark/scheduler.rs")
TOOLS = (
    Tool(
        "pyperf compare_to",
        "2.10.0: " + _cite("psf/pyperf", "ab7fd04", "pyperf/_utils.py", "pyperf/_compare.py"),
        "faster or slower if Student's two-sample t test, two-sided at 95 % with a pooled variance, is significant",
        decide_by_pooled_t,
    ),
    Tool(
        "benchstat",
        "2026-06-10: " + _cite("golang/perf", "712aea8", "benchmath/anone.go", "benchmath/sample.go"),
        "a change of the median if p ≤ 0.05 in a Mann–Whitney U test, exact up to 50 values; its manual advises interleaving",
        decide_by_rank,
    ),
    Tool(
        "hyperfine",
        _HYPERFINE,
        "“ran 1.02 ± 0.03 times faster than”, always, unless the means are equal",
        name_faster,
    ),
    Tool(
        "hyperfine, read with its ±",
        _HYPERFINE,
        "our reading: faster if the ratio less the deviation that is printed with it exceeds 1",
        name_faster_beyond_deviation,
    ),
    Tool(
        "nvbench-compare-legacy",
        "python-0.3.0: " + _cite("NVIDIA/nvbench", "66212f1", "python/scripts/nvbench_compare.py"),
        "fast or slow if the means differ by more than the smaller of the two relative standard deviations",
        decide_by_noise,
    ),
    Tool(
        "nvbench-compare-robust",
        "python-0.3.0: "
        + _cite("NVIDIA/nvbench", "66212f1", "docs/nvbench_compare_robust.md", "python/scripts/nvbench_compare_robust.py"),
        "fast or slow if the stretches from the least time to the third quartile are 0.5 % apart; that clock rates confirm it, "
        "which it asks for too, is taken for granted",
        decide_by_gap,
    ),
)


def simulate_in_turn(kind: Kind, proofs: int, effect: float = 0.0) -> tuple[Array, Array]:
    """Return log times of all runs of the reference, and after them those of a candidate that is faster by `effect`."""
    candidate = np.tile(np.repeat([False, True], MOST_PAIRS), (proofs, 1))
    logs = kind.noise(np.random.default_rng(SEED), candidate)
    return logs[:, :MOST_PAIRS], logs[:, MOST_PAIRS:] - effect


def simulate_rounds(kind: Kind, proofs: int, effect: float = 0.0) -> Simulated:
    """Return proofs in the order of `speedproof prove`."""
    return simulate(kind, DESIGNS[CHOSEN], proofs, np.random.default_rng(SEED), effect)


def conclude(tool: Tool, logs: tuple[Array, Array]) -> Signs:
    """Return what a tool concludes of log times."""
    return tool.decide(np.exp(logs[0]), np.exp(logs[1]))


def prove_by_looks(found: Simulated) -> tuple[Signs, NDArray[np.int64]]:
    """Return what `speedproof prove` concludes, and after how many rounds."""
    claimed, _, ended = judge_proofs(found, 0.0)
    up_to_here = np.cumsum(found.gains, axis=1)[np.arange(len(ended)), ended - 1]
    return _sign(up_to_here, claimed), ended


def prove_all_rounds(found: Simulated) -> Signs:
    """Return what it concludes of 24 rounds, a number that was fixed beforehand."""
    claimed, _ = judge_at(found.gains, student_quantile(MOST_PAIRS - 1), 0.0)
    return _sign(found.gains.mean(axis=1), claimed)


def tabulate(proofs: int) -> str:
    """Return all tables as Markdown."""
    lines = make_table(["tool", "version and source", "what it says"], [[one.name, one.source, one.rule] for one in TOOLS])
    lines += ["", state_precision(proofs), "", "**Equal variants, 24 runs of each**: false claims, in percent.", ""]
    lines += _tabulate_conclusions(proofs, 0.0, lambda signs: percent(np.mean(signs != 0)))
    lines += ["", f"**The candidate is {100 * EFFECT:.0f} % faster**: called faster / called slower, in percent.", ""]
    lines += _tabulate_conclusions(
        proofs, EFFECT, lambda signs: f"{percent(np.mean(signs > 0))} / {percent(np.mean(signs < 0))}"
    )
    return "\n".join(lines)


def _tabulate_conclusions(proofs: int, effect: float, describe: Callable[[Signs], str]) -> list[str]:
    """Return a table of what all tools conclude."""
    columns = [_describe_kind(kind, proofs, effect, describe) for kind in SHOWN]
    rows = [[*label, *(column[label] for column in columns)] for label in columns[0]]
    return make_table(["tool", "order of runs", *(kind.name for kind in SHOWN)], rows)


def _describe_kind(kind: Kind, proofs: int, effect: float, describe: Callable[[Signs], str]) -> dict[tuple[str, str], str]:
    """Return the cells of a kind of noise, by tool and order."""
    in_turn, rounds = simulate_in_turn(kind, proofs, effect), simulate_rounds(kind, proofs, effect)
    cells = {}
    for tool in TOOLS:
        cells[tool.name, "all A, then all B"] = describe(conclude(tool, in_turn))
        cells[tool.name, "interleaved"] = describe(conclude(tool, rounds.split()))
    signs, ended = prove_by_looks(rounds)
    cells["speedproof, 24 rounds", "interleaved"] = describe(prove_all_rounds(rounds))
    cells["speedproof, until decided", "interleaved"] = describe(signs)
    cells["*its rounds on average*", ""] = f"{ended.mean():.1f}"
    return cells


def main() -> None:
    """Print the tables, or also write them into the page."""
    print_or_write(__doc__, tabulate, PROOFS, PAGE, TABLE)


if __name__ == "__main__":
    main()
