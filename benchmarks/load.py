"""Growth of time and memory with the input: millions of events, many ranks, many runs, many variants.

`python benchmarks/load.py` prints a row for each load. Each command runs in its own process. Its CPU time counts, which other
work on the machine changes less than the wall time, and its peak memory. Results folders are copies of one kept run under other
names and with other times. Ranks are copies of one generated trace.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
from generated_export import KERNELS, MIXES, write_export

from speedproof.results.experiment import EXPERIMENT_FILE, PLAN_FILE, RUNS_FOLDER, Plan, PlannedRun, read_experiment
from speedproof.results.files import read_text, sha256_of, write_json, write_text
from speedproof.results.folder import EXPERIMENTS_FOLDER
from speedproof.results.run_record import EPOCHS_FILE, GPU_FILE, LOG_FILE, RUN_FILE, read_epochs, read_run, write_csv

REPOSITORY = Path(__file__).parents[1]
KEPT_EXPERIMENT = REPOSITORY / "records/2026-11-22-h200-sides/experiments/experiment-1"
KEPT_RUN = "01-fast-timed"
CLAIMS = REPOSITORY / "workloads/spleen/claims.yaml"
ROUNDS = 5
HEADER = ["load", "command", "time", "CPU time", "peak memory", "written"]


class Cost(NamedTuple):
    """What a command took."""

    wall_s: float
    processor_s: float
    peak_mib: float


def run_measured(*words: str | Path) -> Cost:
    """Run a command of ours and return what it took."""
    begin_s = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "speedproof", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"{words[0]} failed: {said}")
    return Cost(time.monotonic() - begin_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def make_results(folder: Path, variants: int, experiments: int) -> None:
    """Write a results folder of so many variants in so many experiments, five runs of each variant in each."""
    template, random = KEPT_EXPERIMENT / RUNS_FOLDER / KEPT_RUN, np.random.default_rng(0)
    run, epochs, kept = read_run(template), read_epochs(template), read_experiment(KEPT_EXPERIMENT)
    names = [f"variant_{number:03d}" for number in range(variants)]
    for experiment in (f"experiment-{number}" for number in range(1, experiments + 1)):
        place = folder / EXPERIMENTS_FOLDER / experiment
        order = [
            PlannedRun(variant=name, mode="timed", round=number, seed=number) for number in range(ROUNDS) for name in names
        ]
        plan = Plan(experiment=experiment, order=order, quality=kept.quality)
        for planned, run_name in zip(order, plan.folders(), strict=True):
            own = place / RUNS_FOLDER / run_name
            own.mkdir(parents=True)
            factor = (1 - names.index(planned.variant) / (2 * variants)) * random.normal(1, 0.01)
            times = {column: epochs[column] * factor for column in ("train_s", "validation_s")}
            write_csv(own / EPOCHS_FILE, epochs.assign(**times, samples_per_s=epochs["samples_per_s"] / factor))
            techniques = run.techniques | {"title": planned.variant}
            about = {"run": run_name, "variant": planned.variant, "round": planned.round, "seed": planned.seed}
            write_json(own / RUN_FILE, run.model_copy(update={**about, "techniques": techniques}))
            for name in (GPU_FILE, LOG_FILE):
                write_text(own / name, read_text(template / name))
        tables = [path for path in sorted(place.rglob("*")) if path.suffix in {".csv", ".json"}]
        digests = {path.relative_to(place).as_posix(): sha256_of(path) for path in tables}
        write_json(place / PLAN_FILE, plan)
        settings = {
            "experiment": experiment,
            "variants": names,
            "pairs": [],
            "ablation": [],
            "order": order,
            "runs": plan.folders(),
        }
        lists = {"kept": [], "left_out": [], "undone": {}, "prepared": [], "digests": digests}
        write_json(place / EXPERIMENT_FILE, kept.model_copy(update={**settings, **lists}))


def measure_results(folder: Path, variants: int, experiments: int) -> Iterator[list[str]]:
    """Measure what judges and shows a results folder."""
    make_results(folder, variants, experiments)
    load = f"{variants} variants × {ROUNDS} runs × {experiments} experiments"
    cost = run_measured("verdicts", "--from", folder, "--claims", CLAIMS)
    yield row(load, "verdicts", cost, folder / "comparison.json")
    cost = run_measured("results", "report", "--from", folder)
    yield row(load, "report", cost, folder / "report.md", folder / "report.html")


def measure_ranks(folder: Path, ranks: int, events: int) -> Iterator[list[str]]:
    """Measure who waits for whom among ranks, each of so many events, one kernel of fifty communicating."""
    export, trace = folder / "rank.sqlite", folder / "trace"
    made = write_export(export, events, MIXES["launches"])
    with closing(sqlite3.connect(export)) as connection, connection:
        connection.execute("UPDATE StringIds SET value = 'ncclDevKernel_AllReduce' WHERE value = ?", [KERNELS[0]])
    run_measured("trace", "convert", export, "--out", trace)
    cost = run_measured("trace", "ranks", *[trace] * ranks, "--out", folder / "out")
    yield row(f"{ranks} ranks × {made:,} events", "ranks", cost, folder / "out/ranks.json")


def measure_events(folder: Path, events: int, mix: str) -> Iterator[list[str]]:
    """Measure what reads an export of so many events."""
    export, trace = folder / "generated.sqlite", folder / "trace"
    made = write_export(export, events, MIXES[mix])
    load = f"{made:,} events, {mix}"
    yield row(load, "convert", run_measured("trace", "convert", export, "--out", trace), *trace.iterdir())
    export.unlink()
    yield row(
        load,
        "analyze",
        run_measured("trace", "analyze", trace, "--out", folder / "out", "--no-page"),
        folder / "out/summary.json",
    )


def row(load: str, command: str, cost: Cost, *written: Path) -> list[str]:
    """Return a row of the table."""
    size_mib = sum(path.stat().st_size for path in written) / 2**20
    seconds = [f"{cost.wall_s:.1f} s", f"{cost.processor_s:.1f} s"]
    return [load, f"`{command}`", *seconds, f"{cost.peak_mib:,.0f} MiB", f"{size_mib:.1f} MiB"]


LOADS: dict[str, list[Callable[[Path], Iterator[list[str]]]]] = {
    "results": [
        lambda folder: measure_results(folder, 25, 1),
        lambda folder: measure_results(folder, 50, 1),
        lambda folder: measure_results(folder, 100, 1),
        lambda folder: measure_results(folder, 100, 2),
        lambda folder: measure_results(folder, 4, 50),
    ],
    "ranks": [
        lambda folder: measure_ranks(folder, 8, 300_000),
        lambda folder: measure_ranks(folder, 64, 300_000),
    ],
    "events": [
        lambda folder: measure_events(folder, 2_000_000, "launches"),
        lambda folder: measure_events(folder, 20_000_000, "launches"),
        lambda folder: measure_events(folder, 20_000_000, "documented"),
    ],
}


def main() -> None:
    """Print a table of what each load takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loads", nargs="*", default=list(LOADS), choices=list(LOADS))
    parser.add_argument("--first", type=int, help="run only this many of each kind, the smallest first")
    options = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
    for kind in options.loads:
        for measure in LOADS[kind][: options.first]:
            with tempfile.TemporaryDirectory() as folder:
                for cells in measure(Path(folder)):
                    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
