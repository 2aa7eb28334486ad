"""A small results folder whose every number is known, written through the records' own writers.

`write_example` makes an experiment of 2 variants, six timed rounds and one profiled run of each, with traces of six epochs.
A timed training epoch takes `EPOCH_S` seconds times a factor of its round, the first epoch a second more. In a trace every
step's phases have the lengths of `PHASES_S`, and the GPU works for the `GPU_SHARE` of `forward`, `backward` and `update`.
"""

import hashlib
import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from speedproof.results.comparison import Comparison
from speedproof.results.experiment import (
    EXPERIMENT_FILE,
    PLAN_FILE,
    RUNS_FOLDER,
    Experiment,
    Plan,
    PlannedRun,
    PreparedFolder,
    Until,
)
from speedproof.results.files import sha256_of, write_json
from speedproof.results.folder import ANALYSIS_FOLDER, EXPERIMENTS_FOLDER, Results, read_results
from speedproof.results.quality import Quality
from speedproof.results.run_record import (
    EPOCH_COLUMNS,
    EPOCHS_FILE,
    GPU_COLUMNS,
    GPU_FILE,
    RUN_FILE,
    STATS_FOLDER,
    TRACE_FOLDER,
    Backend,
    Conditions,
    Gpu,
    Mode,
    Run,
    RunOutcome,
    write_csv,
)
from speedproof.results.summary import SUMMARY_FILE
from speedproof.results.trace_tables import TABLES, TraceInfo, write_trace
from speedproof.stats.compare import compare_experiments
from speedproof.trace.diff import compare_stages
from speedproof_spleen.config import load_config
from tests.report.example_trace import example_summary, example_trace
from tests.report.example_variants import (
    CACHE_FILL_S,
    CONTROL_FACTOR,
    DICE_PER_EPOCH,
    EPOCH_S,
    EPOCHS,
    GPU_SHARE,
    PROFILER_SLOWDOWN,
    ROUND_FACTOR,
    STEPS,
    VALIDATE_EVERY,
    VALIDATION_CASES,
    VALIDATION_S,
)
from tests.session_folders import make_session_folder

REPOSITORY = Path(__file__).parents[2]
SHIPPED_CLAIMS = REPOSITORY / "workloads/spleen/claims.yaml"


_OF_THE_EXAMPLE = {
    "baseline_2021": "baseline",
    "{metric: gpu_busy_sampled_fraction, variant: fast_tutorial}": "{metric: gpu_busy_fraction, variant: fast}",
    "source: profiling_remark": "source: profiling",
}


def _write_claims() -> Path:
    """Write the shipped claims as if they were about the example's variants, and return the file."""
    path = make_session_folder("speedproof-example-") / "claims.yaml"
    text = SHIPPED_CLAIMS.read_text(encoding="utf-8")
    for shipped, own in _OF_THE_EXAMPLE.items():
        text = text.replace(shipped, own)
    path.write_text(text, encoding="utf-8")
    return path


CLAIMS = _write_claims()
_WRITTEN = make_session_folder("speedproof-examples-")  # many tests change one thing of the same example


RULE = load_config(REPOSITORY / "config.yaml").measurement.quality


def rule_with(**changes: Any) -> Quality:
    """The rule of quality of the repository's configuration, changed."""
    return Quality(**(RULE.model_dump() | changes))


@dataclass(frozen=True)
class Example:
    """What an example results folder is made of."""

    experiments: int = 1
    rounds: int = 6
    modes: tuple[Mode, ...] = ("timed", "profiled")
    gpu: bool = True
    synthetic: bool = True
    outcome: RunOutcome = "completed"  # of the fast variant's last timed run
    profiler: Backend = "nsys"
    variants: tuple[str, ...] = ("baseline", "fast")
    epoch_s: tuple[tuple[str, float], ...] = tuple(EPOCH_S.items())
    techniques: tuple[tuple[str, Any], ...] = ()  # laid over those of every variant
    control: bool = False
    pairs: tuple[tuple[str, str], ...] = ()
    ablation: tuple[str, ...] = ()
    dice_per_epoch: tuple[tuple[str, float], ...] = tuple(DICE_PER_EPOCH.items())
    quality: Quality = RULE
    mirrored: bool = False  # the quality is what the Dice lacks to 1
    prepared: tuple[PreparedFolder, ...] = ()  # of the first experiment; the next ones find all volumes there
    throttle_reasons: str = "none"  # of every GPU sample while training
    until: Until | None = None  # decided: runs' folders have the names of an experiment whose rounds are not known beforehand
    order: tuple[PlannedRun, ...] = ()  # of each experiment's runs; none: by mode and round, as listed
    day: int = 21  # of the month on which it ran, each experiment an hour after the one before


CPU_EXAMPLE = Example(experiments=1, rounds=3, gpu=False, profiler="kineto")


def write_example(results: Path, example: Example | None = None) -> Path:
    """Write the experiments and the analysis of an example into `results`, and return it."""
    return shutil.copytree(_write_once(example or Example()), results, dirs_exist_ok=True)


def _write_once(example: Example) -> Path:
    written = Path(_WRITTEN, hashlib.sha256(repr(example).encode()).hexdigest()[:16])
    if not written.exists():
        for number in range(1, example.experiments + 1):
            _write_experiment(written, f"experiment-{number}", example)
    return written


# Of the examples that many tests read and compare as they are.
_READ: dict[str, Results] = {}
_COMPARED: dict[str, Comparison] = {}


def read_example(example: Example | None = None) -> Results:
    """Return an example's results, which no test may change: they are read once for all tests of a process."""
    key = repr(example or Example())
    if key not in _READ:
        _READ[key] = read_results(_write_once(example or Example()))
    return _READ[key]


def compare_example(example: Example | None = None, claims: Path = CLAIMS, traced: bool = False) -> Comparison:
    """Return the comparison of an example of which nothing was changed, if wanted with its traces' differences.

    It is made once for all tests of a process: none that changes what compares may ask for it.
    """
    key = repr((example or Example(), claims.read_text(encoding="utf-8"), traced))
    if key not in _COMPARED:
        read = read_example(example)
        _COMPARED[key] = compare_experiments(read, claims, compare_stages(read) if traced else {})
    return _COMPARED[key].model_copy(deep=True)


def vouch_again(results: Path) -> Path:
    """Have every experiment vouch for its files as they are now, as if they had been measured so; return the results."""
    for path in [*results.glob(f"{EXPERIMENTS_FOLDER}/*/{EXPERIMENT_FILE}"), *results.glob("blocks/*/block.json")]:
        experiment = json.loads(path.read_text(encoding="utf-8"))
        tables = sorted(file for file in (path.parent / RUNS_FOLDER).rglob("*") if file.suffix in {".csv", ".json", ".parquet"})
        experiment["digests"] = {file.relative_to(path.parent).as_posix(): sha256_of(file) for file in tables}
        write_json(path, experiment)
    return results


def example_conditions(example: Example) -> Conditions:
    gpu = Gpu(name="NVIDIA H200", uuid="GPU-1", driver="580.1", memory_mib=143_771, power_limit_w=700.0, max_sm_clock_mhz=1980)
    return Conditions(
        gpu=gpu if example.gpu else None,
        cpu="Example CPU",
        cores=16,
        python="3.12.3",
        packages={"torch": "2.11.0", "monai": "1.6.1", "nvtx": "0.2.11"},
        cuda="13.0" if example.gpu else None,
        cudnn="9.13" if example.gpu else None,
        dataset="0123456789abcdef",
        dataset_name="phantom-full" if example.synthetic else "Task09_Spleen",
        synthetic_data=example.synthetic,
        image=None,
        git_commit="6b153f1",
        sources="fedcba9876543210",
    )


def _write_experiment(results: Path, experiment: str, example: Example) -> None:
    folder = results / EXPERIMENTS_FOLDER / experiment
    variants = [(variant, False) for variant in dict.fromkeys([*example.variants, *example.ablation])]
    controls = [(example.variants[0], True)] if example.control else []
    order = list(example.order) or [
        PlannedRun(variant=variant, mode=mode, round=repeat, seed=repeat, control=control)
        for mode in example.modes
        for repeat in range(example.rounds if mode == "timed" else 1)
        for variant, control in (variants + controls if mode == "timed" else variants)
    ]
    plan = Plan(
        experiment=experiment, order=order, ablation=list(example.ablation), quality=example.quality, until=example.until
    )
    hour = datetime(2026, 11, example.day, 9 + int(experiment.removeprefix("experiment-")), tzinfo=UTC)
    for number, (name, planned) in enumerate(zip(plan.folders(), order, strict=True), 1):
        _write_run(results, experiment, name, planned, example, hour + timedelta(seconds=number % 60))
    runs = [folder / RUNS_FOLDER / name for name in plan.folders()]
    tables = sorted(path for run in runs for path in run.rglob("*") if path.suffix in {".csv", ".json", ".parquet"})
    write_json(folder / PLAN_FILE, plan)
    write_json(
        folder / EXPERIMENT_FILE,
        Experiment(
            experiment=experiment,
            variants=list(example.variants),
            pairs=list(example.pairs),
            ablation=plan.ablation,
            quality=plan.quality,
            order=order,
            runs=plan.folders(),
            prepared=[_refill(filled) if experiment != "experiment-1" else filled for filled in example.prepared],
            kept=[],
            conditions=example_conditions(example),
            digests={path.relative_to(folder).as_posix(): sha256_of(path) for path in tables},
        ),
    )


def _refill(filled: PreparedFolder) -> PreparedFolder:
    return filled.model_copy(update={"seconds": filled.seconds / 8, "from_store": filled.volumes})


def _write_run(results: Path, experiment: str, name: str, planned: PlannedRun, example: Example, begun: datetime) -> None:
    folder = results / EXPERIMENTS_FOLDER / experiment / RUNS_FOLDER / name
    epochs = example_epochs(
        planned, (EPOCH_S | dict(example.epoch_s))[planned.variant], dict(example.dice_per_epoch)[planned.variant]
    )
    if example.mirrored:
        epochs["quality"] = 1 - epochs["quality"]
    write_csv(folder / EPOCHS_FILE, epochs)
    samples = _gpu_samples(planned.variant, epochs, example.throttle_reasons)
    write_csv(folder / GPU_FILE, samples if example.gpu else pd.DataFrame(columns=GPU_COLUMNS))
    run = _run(name, planned, epochs, example, begun)
    write_json(folder / RUN_FILE, run)
    (folder / "log.txt").write_text("made by the tests\n", encoding="utf-8")
    if planned.mode != "timed":
        tables = example_trace(planned.variant, example.gpu)
        rows = {table: len(tables[table]) if table in tables else 0 for table in TABLES}
        version = "2025.3.1" if example.profiler == "nsys" else "2.11.0"
        write_trace(
            folder / TRACE_FOLDER,
            tables,
            TraceInfo(profiler=example.profiler, profiler_version=version, source_schema="3.20.0", rows=rows, warnings=[]),
        )
        (folder / STATS_FOLDER).mkdir()
        write_json(
            results / ANALYSIS_FOLDER / experiment / name / SUMMARY_FILE, example_summary(planned.variant, example, version)
        )


def example_epochs(planned: PlannedRun, epoch_s: float, dice_per_epoch: float) -> pd.DataFrame:
    """A run's epochs: `epoch_s` × the round's factor, the first a second longer, every second one validating."""
    factors = CONTROL_FACTOR if planned.control else ROUND_FACTOR[planned.variant]
    factor = factors[planned.round % 3] * PROFILER_SLOWDOWN[planned.mode]
    rows = []
    for epoch in range(1, EPOCHS + 1):
        validates = epoch % VALIDATE_EVERY == 0
        dice = epoch * dice_per_epoch + 0.01 * (planned.round % 3) if validates else None
        train_s = epoch_s * factor + (1.0 if epoch == 1 else 0.0)
        rows.append(
            {
                "epoch": epoch,
                "train_s": train_s,
                "validation_s": VALIDATION_S[planned.variant] * factor if validates else None,
                "loss": 0.7 / epoch,
                "quality": dice,
                "steps": STEPS[planned.variant],
                "samples_per_s": 128 / train_s,
                "peak_memory_mib": 9000.0,
            }
        )
    return pd.DataFrame(rows, columns=EPOCH_COLUMNS)


def _run(name: str, planned: PlannedRun, epochs: pd.DataFrame, example: Example, begun: datetime) -> Run:
    fill_s = CACHE_FILL_S[planned.variant]
    last = (planned.variant, planned.mode, planned.round) == ("fast", "timed", example.rounds - 1)
    training_s = float(epochs["train_s"].sum() + epochs["validation_s"].sum())
    return Run(
        run=name,
        case="spleen",
        variant=planned.variant,
        mode=planned.mode,
        profiler="none" if planned.mode == "timed" else example.profiler,
        round=planned.round,
        seed=planned.seed,
        epochs=EPOCHS,
        validate_every=VALIDATE_EVERY,
        techniques=_techniques(planned.variant) | dict(example.techniques),
        workload={
            "validation_cases": VALIDATION_CASES,
            "spacing_mm": [1.5, 1.5, 2.0],
            "intensity_range": [-57.0, 164.0],
            "patch_size": [96, 96, 96],
            "patches_per_volume": 4,
            "window_size": [160, 160, 160],
            "window_overlap": 0.25,
            "window_batch": 4,
        },
        gpu_samples_per_s=10,
        traced=["cuda", "nvtx"] if planned.mode != "timed" and example.profiler == "nsys" else [],
        conditions=example_conditions(example),
        warnings=[],
        command=["python", "-m", "speedproof", "train"],
        started=begun.isoformat(),
        ended=(begun + timedelta(minutes=1)).isoformat(),
        start_up_s=fill_s + 4.0,
        cache_fill_s=fill_s,
        cache_bytes=7_900_000_000,
        clock="launcher",
        warm_up_s=1.1,
        training_s=training_s,
        process_s=fill_s + 4.0 + training_s,
        best_quality=float(epochs["quality"].min() if example.mirrored else epochs["quality"].max()),
        best_quality_epoch=EPOCHS,
        best_quality_s=fill_s + 4.0 + training_s,
        outcome=example.outcome if last else "completed",
        reason="as the example wants" if last and example.outcome != "completed" else "",
    )


def _techniques(variant: str) -> dict[str, Any]:
    """What the repository's configuration says of a variant."""
    if variant == "cached":
        return _variants()["baseline"] | {"title": "+ cache on the GPU", "cache": "gpu"}
    return _variants()[variant]


@cache
def _variants() -> dict[str, dict[str, Any]]:
    config = load_config(REPOSITORY / "config.yaml")
    return {name: variant.model_dump(mode="json") for name, variant in config.variants.items()}


def _gpu_samples(variant: str, epochs: pd.DataFrame, reasons: str) -> pd.DataFrame:
    """Ten samples a second: idle while the cache fills, then busy around the variant's share, one second late."""
    start_s = CACHE_FILL_S[variant] + 4.0
    end_s = start_s + float(epochs["train_s"].sum() + epochs["validation_s"].sum())
    time_s = np.arange(0.0, end_s, 0.1)
    busy = np.where(time_s > start_s, 100 * GPU_SHARE[variant] * (1 - 0.3 * np.abs(np.sin(time_s))), 0).round()
    table = pd.DataFrame(dict.fromkeys(GPU_COLUMNS, 0), index=range(len(time_s)))
    throttling = np.where(busy > 0, reasons, "gpu idle")
    return table.assign(time_s=time_s, gpu_busy_percent=busy, power_w=300.0, throttle_reasons=throttling)
