"""How often the report's intervals and claims are correct, over thousands of simulations with a known truth.

    python benchmarks/simulate_intervals.py                 # prints the tables of docs/simulations.md and draws its figure

An experiment is a plan of real rounds (`plan_experiment`) on simulated machines, judged by the report's own rule. A machine's
ratio deviates from that of its GPU model. One experiment is about its machine, so its truth is the machine's ratio. Several
machines are about their GPU model, so their truth is the model's ratio.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

from speedproof.config.model import Config
from speedproof.report.figures.style import GREY, figure_style, list_markers, new_figure
from speedproof.run.plan import plan_experiment
from speedproof.stats.estimates import LEAST_HOSTS, LEAST_PAIRS, student_quantile

NOISE = 0.02  # relative deviation of a run's time; on an H200 a run's median epoch varies by 1 to 2 %
DEVIATIONS = (0.01, 0.02, 0.05, 0.10)  # of a machine's ratio; between H200s of the records 7 to 9 % were seen
ROUNDS = (4, 6, 8, 10)
EXPERIMENTS = range(1, 7)
SIMULATIONS = 20_000
SEED = 20_261_123
DOCS = Path(__file__).parents[1] / "docs"

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int, int]], Array]


@dataclass(frozen=True)
class Machine:
    """How the log of a run's time varies: by noise of shape (simulations, experiments, runs in order), and by a drift."""

    name: str
    noise: Noise
    drift: float = 0.0  # from an experiment's first run to its last


@dataclass(frozen=True)
class Rates:
    """Shares of all simulations, with `rounds` pairs in each of `experiments` experiments, each on a machine of its own."""

    machine: str
    experiments: int
    rounds: int
    deviation: float
    coverage: float  # the interval holds the truth: of one experiment its machine's ratio, of several the model's
    claimed: float  # the interval excludes 1


def normal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Return normal deviations."""
    return NOISE * rng.standard_normal(shape)


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Return Student's t with three degrees of freedom, scaled to the same deviation (its own is √3)."""
    return NOISE / math.sqrt(3) * rng.standard_t(3, shape)


def in_bursts(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Return normal deviations; now and then three runs in a row take 5 to 30 % longer, as if another job ran."""
    begins = rng.random(shape) < 0.05
    slowdown = np.where(begins, np.log1p(rng.uniform(0.05, 0.30, shape)), 0.0)
    later = [np.pad(slowdown, ((0, 0), (0, 0), (lag, 0)))[..., : shape[2]] for lag in (0, 1, 2)]
    return normal(rng, shape) + np.maximum.reduce(later)


def autocorrelated(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Return an autoregression of first order: a run resembles the one before it, correlation 0.7, of the same deviation."""
    steps, values = normal(rng, shape), np.empty(shape)
    values[..., 0] = steps[..., 0]
    for run in range(1, shape[2]):
        values[..., run] = 0.7 * values[..., run - 1] + math.sqrt(1 - 0.7**2) * steps[..., run]
    return values


MACHINES = (
    Machine("normal", normal),
    Machine("heavy tails", heavy_tailed),
    Machine("bursts", in_bursts),
    Machine("autocorrelated", autocorrelated),
    Machine("drift", normal, drift=0.20),
)


def simulate(
    machine: Machine,
    speedup: float,
    experiments: int,
    rounds: int,
    deviation: float,
    simulations: int,
    rng: np.random.Generator,
) -> Rates:
    """Return how often the report is right if the second variant is truly `speedup` times as fast on its model of GPU."""
    own = math.log(speedup) + deviation * rng.standard_normal((simulations, experiments))
    logs = _make_logs(machine, own, _positions(experiments, rounds), rng)
    low, high = interval_of(logs)
    truth = own[:, 0] if experiments == 1 else np.full(simulations, math.log(speedup))
    # One experiment claims for its own machine, so its claim is false if that machine's ratio is beyond 1.
    wrong_side = (low > 0) | (high < 0)
    return Rates(
        machine.name, experiments, rounds, deviation,
        float(np.mean((low <= truth) & (truth <= high))), float(np.mean(wrong_side)),
    )  # fmt: skip


def interval_of(logs: Array) -> tuple[Array, Array]:
    """Return the report's intervals of log ratios of shape (simulations, experiments, pairs), without its loops."""
    values = logs[:, 0] if logs.shape[1] == 1 else logs.mean(axis=2)
    return student_interval(values)


def student_interval(values: Array) -> tuple[Array, Array]:
    """Return Student's t interval of the mean of each row."""
    count = values.shape[1]
    half_width = student_quantile(count - 1) * values.std(axis=1, ddof=1) / math.sqrt(count)
    return values.mean(axis=1) - half_width, values.mean(axis=1) + half_width


def pooled_false_claims(experiments: int, rounds: int, deviation: float, simulations: int, rng: np.random.Generator) -> float:
    """Return how often all pairs of several machines, taken for one experiment's, exclude a truth of 1: what is not done."""
    own = deviation * rng.standard_normal((simulations, experiments))
    logs = _make_logs(MACHINES[0], own, _positions(experiments, rounds), rng)
    low, high = student_interval(logs.reshape(simulations, -1))
    return float(np.mean((low > 0) | (high < 0)))


def _positions(experiments: int, rounds: int) -> NDArray[np.int64]:
    """Return the place of each run in its experiment's order, by the real plan: shape (experiments, rounds, variants)."""
    config = Config.model_validate(
        {
            "case": "simulated",
            "completed": {"variants": {name: {"title": name, "epochs": 1, "validate_every": 1} for name in ("a", "b")}},
            "measurement": {
                "variants": ["a", "b"], "experiments": experiments, "rounds": rounds, "profiled": 0, "documented": 0,
                "control": False,
            },
        }
    )  # fmt: skip
    found = np.zeros((experiments, rounds, 2), np.int64)
    for number, experiment in enumerate(config.experiments()):
        for place, run in enumerate(plan_experiment(config, experiment).order):
            found[number, run.round, int(run.variant == "b")] = place
    return found


def _make_logs(machine: Machine, own: Array, places: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Return log ratios of shape (simulations, experiments, rounds), of machines whose own log ratios are `own`."""
    experiments, rounds, _ = places.shape
    noise = machine.noise(rng, (len(own), experiments, 2 * rounds))
    noise += math.log1p(machine.drift) * np.arange(2 * rounds) / (2 * rounds - 1)
    experiment = np.arange(experiments)[:, None]
    ratios: Array = noise[:, experiment, places[..., 0]] - noise[:, experiment, places[..., 1]] + own[..., None]
    return ratios


def _draw(here: list[Rates], model: list[Rates], pooled: dict[tuple[float, int], float]) -> None:
    with figure_style():
        figure = new_figure(2.9)
        left, right = figure.subplots(1, 2)
        for machine, marker in zip(MACHINES, list_markers(len(MACHINES)), strict=True):
            style = {"marker": marker, "markersize": 4, "label": machine.name}
            rows = [row for row in here if row.machine == machine.name]
            left.plot([row.rounds for row in rows], [100 - 100 * row.coverage for row in rows], **style)
            rows = [row for row in model if row.machine == machine.name and row.deviation == DEVIATIONS[-1]]
            right.plot([row.experiments for row in rows], [100 * row.claimed for row in rows], **style)
        worst = [(experiments, share) for (deviation, experiments), share in pooled.items() if deviation == DEVIATIONS[-1]]
        right.plot(
            [n for n, _ in worst], [100 * share for _, share in worst], "x--", color=GREY, label="all pairs as one, not used"
        )
        for axes in (left, right):
            axes.axhline(5, color="black", linewidth=0.8)
        left.set(title="one experiment: ratio missed", xlabel="pairs", ylabel="percent of simulations", ylim=(0, None))
        right.set(title="machines vary by 10 %: false claims", xlabel="machines", yscale="log")
        right.yaxis.set_major_formatter("{x:g}")  # the default writes dollar signs, which the figures' style prints as they are
        right.yaxis.set_minor_formatter(NullFormatter())
        right.set_yticks([5, 10, 20, 50])
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(DOCS / "simulations.svg", metadata={"Date": None, "Creator": None})


def _print_table(title: str, head: str, rows: list[Rates], key: Callable[[Rates], str], cell: Callable[[Rates], str]) -> None:
    machines = list(dict.fromkeys(row.machine for row in rows))
    print(f"\n{title}\n\n| {head} | {' | '.join(machines)} |\n|{' --- |' * (len(machines) + 1)}")
    for name in dict.fromkeys(map(key, rows)):
        print(f"| {name} | {' | '.join(cell(row) for row in rows if key(row) == name)} |")


def main() -> None:
    """Print all rates and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=SIMULATIONS)
    simulations = parser.parse_args().simulations
    rng = np.random.default_rng(SEED)
    here = [simulate(machine, 1.0, 1, rounds, 0.0, simulations, rng) for machine in MACHINES for rounds in ROUNDS]
    found = [simulate(machine, 1.1, 1, rounds, 0.0, simulations, rng) for machine in MACHINES for rounds in ROUNDS]
    shapes = [(deviation, experiments) for deviation in DEVIATIONS for experiments in EXPERIMENTS if experiments >= LEAST_HOSTS]
    model = [
        simulate(machine, 1.0, experiments, LEAST_PAIRS, deviation, simulations, rng)
        for machine in MACHINES
        for deviation, experiments in shapes
    ]
    power = [
        simulate(machine, 1.1, experiments, LEAST_PAIRS, deviation, simulations, rng)
        for machine in MACHINES
        for deviation, experiments in shapes
    ]
    single = [simulate(machine, 1.0, 1, LEAST_PAIRS, d, simulations, rng) for machine in MACHINES for d in DEVIATIONS]
    pooled = {
        (deviation, experiments): pooled_false_claims(experiments, LEAST_PAIRS, deviation, simulations, rng)
        for deviation in DEVIATIONS
        for experiments in EXPERIMENTS
    }

    def pairs(row: Rates) -> str:
        return str(row.rounds)

    def machines(row: Rates) -> str:
        return f"{row.deviation:.0%}, {row.experiments}"

    _print_table(
        "**No difference here**, one experiment: intervals that exclude 1.",
        "pairs",
        here,
        pairs,
        lambda row: f"{row.claimed:.1%}",
    )
    _print_table("**10 % faster here**, one experiment: found.", "pairs", found, pairs, lambda row: f"{row.claimed:.1%}")
    _print_table(
        "**One experiment of four pairs**: its machine's own ratio held / its claim wrong if made for the model of GPU.",
        "machines vary by", single, lambda row: f"{row.deviation:.0%}", lambda row: f"{row.coverage:.1%} / {row.claimed:.1%}",
    )  # fmt: skip
    _print_table(
        "**No difference on this model of GPU**, four pairs per machine: intervals that exclude 1.",
        "machines vary by, number", model, machines, lambda row: f"{row.claimed:.1%}",
    )  # fmt: skip
    _print_table(
        "**10 % faster on this model of GPU**, four pairs a machine: found.",
        "machines vary by, number", power, machines, lambda row: f"{row.claimed:.1%}",
    )  # fmt: skip
    print(
        "\n**All pairs of all machines taken for one experiment's**, which is not done, normal noise, no difference: claimed.\n"
    )
    print(f"| machines vary by | {' | '.join(map(str, EXPERIMENTS))} machines |\n|{' --- |' * (len(EXPERIMENTS) + 1)}")
    for deviation in DEVIATIONS:
        print(f"| {deviation:.0%} | {' | '.join(f'{pooled[deviation, experiments]:.1%}' for experiments in EXPERIMENTS)} |")
    _draw(here, model, pooled)


if __name__ == "__main__":
    main()
