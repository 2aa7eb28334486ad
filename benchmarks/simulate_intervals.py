"""How often the intervals and claims of the report are right, over thousands of made-up experiments whose truth is known.

    python benchmarks/simulate_intervals.py                 # prints the table of docs/statistics.md and draws its figure

An experiment is a plan of real rounds (`plan_block`), run on a made-up machine, and judged by the report's own functions.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speedproof.analysis.statistics import Interval, merged_interval
from speedproof.config.model import Config
from speedproof.measuring.plan import plan_block
from speedproof.report.figures.style import GREY, figure_style, new_figure, side_colours, side_markers

NOISE = 0.02  # relative deviation of a run's time; on an H200 a run's median epoch varies by 1 to 2 %
REPEATS = range(3, 11)
EXPERIMENTS = 20_000
SEED = 20_261_121
DOCS = Path(__file__).parents[1] / "docs"

Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


@dataclass(frozen=True)
class Machine:
    """A made-up machine: how the log of a run's time varies.

    `drift` is the slowdown from the first run of a block to its last; `block_deviation` how much a block's ratio as a whole
    differs from another block's.
    """

    name: str
    noise: Noise
    drift: float = 0.0
    block_deviation: float = 0.0


@dataclass(frozen=True)
class Rates:
    """Shares of all experiments, with `repeats` pairs in each of `blocks` blocks."""

    machine: str
    blocks: int
    repeats: int
    coverage: float  # the interval holds the truth
    claimed: float  # the interval excludes 1


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal deviations."""
    return NOISE * rng.standard_normal(shape)


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return Student's t with three degrees of freedom, scaled to the same deviation (its own is √3)."""
    return NOISE / math.sqrt(3) * rng.standard_t(3, shape)


def disturbed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal deviations where one run in ten takes 5 to 30 % longer, as beside a neighbour's job."""
    slowdown = np.log1p(rng.uniform(0.05, 0.30, shape))
    return normal(rng, shape) + np.where(rng.random(shape) < 0.1, slowdown, 0.0)


MACHINES = (
    Machine("normal", normal),
    Machine("heavy tails", heavy_tailed),
    Machine("disturbed", disturbed),
    Machine("drift", normal, drift=0.20),
)
BLOCK_MACHINE = Machine("blocks differ", normal, block_deviation=0.01)


def simulate(machine: Machine, speedup: float, blocks: int, repeats: int, experiments: int, rng: np.random.Generator) -> Rates:
    """Return how often the report is right where the second side is truly `speedup` times as fast."""
    positions = _positions(blocks, repeats)
    seconds = _make_seconds(machine, speedup, positions, experiments, rng)
    intervals = [_interval(experiment) for experiment in seconds]
    holds_truth = [interval.holds(speedup) for interval in intervals]
    holds_one = [interval.holds(1.0) for interval in intervals]
    return Rates(machine.name, blocks, repeats, float(np.mean(holds_truth)), 1 - float(np.mean(holds_one)))


def bootstrap_false_claims(repeats: int, experiments: int, rng: np.random.Generator) -> float:
    """Return how often a percentile bootstrap of the pairs' ratios excludes a truth of 1: what this project does not do."""
    logs = normal(rng, (experiments, repeats)) - normal(rng, (experiments, repeats))
    drawn = rng.integers(0, repeats, (1000, repeats))
    means = np.sort(logs[:, drawn].mean(axis=2), axis=1)
    return float(np.mean((means[:, 25] > 0) | (means[:, 974] < 0)))


def _positions(blocks: int, repeats: int) -> np.ndarray:
    """Return when each run comes in its block, from 0 to 1, by the real plan: shape (blocks, repeats, sides)."""
    config = Config.model_validate(
        {
            "completed": {"sides": {name: {"title": name, "epochs": 1, "validate_every": 1} for name in ("a", "b")}},
            "measurement": {"variants": ["a", "b"], "blocks": blocks, "repeats": repeats, "profiled": 0},
        }
    )
    found = np.zeros((blocks, repeats, 2))
    for number, block in enumerate(config.blocks()):
        order = plan_block(config, block).order
        for place, run in enumerate(order):
            found[number, run.repeat, run.variant == "b"] = place / (len(order) - 1)
    return found


def _make_seconds(
    machine: Machine, speedup: float, positions: np.ndarray, experiments: int, rng: np.random.Generator
) -> np.ndarray:
    """Return seconds of shape (experiments, blocks, repeats, sides); the first side takes 1 s but for all disturbances."""
    shape = (experiments, *positions.shape)
    logs = machine.noise(rng, shape) + math.log1p(machine.drift) * positions
    logs[..., 1] -= math.log(speedup)
    logs[..., 1] += machine.block_deviation * rng.standard_normal(shape[:2])[..., None]
    return np.exp(logs)


def _interval(experiment: np.ndarray) -> Interval:
    interval = merged_interval([[(float(a), float(b)) for a, b in block] for block in experiment])
    assert interval is not None
    return interval


def _draw(rates: dict[float, list[Rates]], bootstrap: dict[int, float]) -> None:
    colours, markers = side_colours(MACHINES), side_markers(MACHINES)
    with figure_style():
        figure = new_figure(2.9)
        false, power = figure.subplots(1, 2)
        for axes, truth in ((false, 1.0), (power, 1.1)):
            for machine in MACHINES:
                rows = [row for row in rates[truth] if row.machine == machine.name]
                style = {"color": colours[machine], "marker": markers[machine], "markersize": 4, "label": machine.name}
                axes.plot([row.repeats for row in rows], [100 * row.claimed for row in rows], **style)
            axes.set(xlabel="repeats")
            axes.grid()
        false.plot(
            list(bootstrap), [100 * share for share in bootstrap.values()], "x--", color=GREY, label="bootstrap, not used"
        )
        false.axhline(5, color="black", linewidth=0.8)
        false.set(title="no difference: claimed", ylabel="percent of experiments", ylim=(0, None))
        power.set(title="10 % faster: found", ylim=(0, 102))
        figure.legend(*false.get_legend_handles_labels(), loc="outside lower center", ncols=5)
        figure.savefig(DOCS / "statistics.svg", metadata={"Date": None, "Creator": None})


def _print_table(title: str, rows: list[Rates]) -> None:
    """Print, for each number of blocks and repeats, on each machine: how often the truth is covered / a difference claimed."""
    machines = list(dict.fromkeys(row.machine for row in rows))
    print(f"\n{title}\n\n| blocks × repeats | {' | '.join(machines)} |\n|{' --- |' * (len(machines) + 1)}")
    for shape in dict.fromkeys((row.blocks, row.repeats) for row in rows):
        cells = [f"{row.coverage:.1%} / {row.claimed:.1%}" for row in rows if (row.blocks, row.repeats) == shape]
        print(f"| {shape[0]} × {shape[1]} | {' | '.join(cells)} |")


def main() -> None:
    """Print all rates and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    experiments = parser.parse_args().experiments
    rng = np.random.default_rng(SEED)
    rates = {
        truth: [simulate(machine, truth, 1, repeats, experiments, rng) for machine in MACHINES for repeats in REPEATS]
        for truth in (1.0, 1.1)
    }
    print("covered / claimed")
    _print_table("No difference, one block", rates[1.0])
    _print_table("10 % faster, one block", rates[1.1])
    shapes = [(2, 3), (2, 5), (3, 1), (3, 3), (4, 1), (5, 1), (5, 3)]
    for truth in (1.0, 1.1):
        machines = (MACHINES[0], BLOCK_MACHINE)
        rows = [simulate(machine, truth, *shape, experiments, rng) for machine in machines for shape in shapes]
        _print_table(f"Several blocks, truth {truth:g}", rows)
    bootstrap = {repeats: bootstrap_false_claims(repeats, min(experiments, 4000), rng) for repeats in REPEATS}
    print("\nPercentile bootstrap, no difference: " + ", ".join(f"{n}: {share:.1%}" for n, share in bootstrap.items()))
    _draw(rates, bootstrap)


if __name__ == "__main__":
    main()
