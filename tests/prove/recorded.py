"""An experiment that measures nothing: it leaves an experiment whose runs have the times and qualities that a test says."""

from pathlib import Path

import pytest

from speedproof.config.model import Config
from speedproof.results.experiment import EXPERIMENT_FILE, PLAN_FILE, RUNS_FOLDER, Experiment
from speedproof.results.files import write_json
from speedproof.results.folder import CONFIG_FILE, read_results
from speedproof.results.observations import Observations
from speedproof.results.run_record import GPU_COLUMNS, GPU_FILE, RUN_FILE, TITLE, Conditions, Run, write_epochs
from speedproof.run.archive.rebuild import compare_results
from speedproof.run.plan import plan_experiment
from speedproof.run.proof.executor import LocalExecutor
from speedproof.run.proof.warm_up import WarmUp
from speedproof.run.resume import digest_tables

EPOCHS = "for n in 1 2 3; do echo epoch took $1 us acc $2; done\n"  # a program's, a shell script
CONDITIONS = Conditions(
    gpu=None, cpu="Example", cores=2, python="3.12", packages={}, cuda=None, cudnn=None, dataset="0", dataset_name="own",
    synthetic_data=False, image=None, git_commit=None, sources="0",
)  # fmt: skip


_warmed: dict[str, WarmUp] = {}


def share_warm_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have alike commands warmed up once for all tests that ask what is made of the runs after it."""
    warm_up = LocalExecutor.warm_up

    def warm_up_once(executor, setup):
        asked = executor._request.model_dump_json(include={"commands", "epoch_s", "quality"})
        if asked not in _warmed:
            _warmed[asked] = warm_up(executor, setup)
        return _warmed[asked]

    monkeypatch.setattr(LocalExecutor, "warm_up", warm_up_once)


def leave_experiment(out: Path, config: Config, epoch_s, quality=None, resolution_s=None):
    """Leave the experiment of a proof, and return it with its comparison; `epoch_s` and `quality` give a run's values.

    `resolution_s` is that of the epochs, if they are printed with few digits.
    """
    write_json(out / "results" / CONFIG_FILE, config)
    plan = plan_experiment(config, "experiment-1")
    folder = out / "results/experiments/experiment-1"
    write_json(folder / PLAN_FILE, plan)
    for name, planned in zip(plan.folders(), plan.order, strict=True):
        epochs, run = config.epochs_of(planned.variant), folder / RUNS_FOLDER / name
        taken_s = epoch_s(planned.variant, planned.round)
        variant = config.completed_variants[planned.variant]
        best = quality(planned.variant, planned.round) if quality else None
        cells = {"validation_s": None, "loss": None, "steps": None, "samples_per_s": None, "peak_memory_mib": None}
        run.mkdir(parents=True)
        write_epochs(run, [{"epoch": n + 1, "train_s": taken_s, "quality": best, **cells} for n in range(epochs)])
        (run / GPU_FILE).write_text(",".join(GPU_COLUMNS) + "\n")
        record = Run(
            run=name, case=config.workload_name, variant=planned.variant, mode=planned.mode, profiler="none",
            round=planned.round, seed=planned.seed, epochs=epochs, validate_every=1,
            techniques={TITLE: variant.title, **variant.settings}, workload={},
            gpu_samples_per_s=10, traced=[], conditions=CONDITIONS, warnings=[], command=["x"], clock="launcher",
            started="2026-11-23T00:00:00+00:00", ended="2026-11-23T00:00:09+00:00", start_up_s=0, cache_fill_s=0,
            warm_up_s=None, resolution_s=resolution_s,
            training_s=taken_s * epochs, process_s=taken_s * max(epochs, 1), best_quality=best,
            best_quality_epoch=1 if best is not None and epochs else None, best_quality_s=None, outcome="completed", reason="",
            observed=Observations(),
        )  # fmt: skip
        (run / RUN_FILE).write_text(record.model_dump_json())
    experiment = Experiment(
        experiment="experiment-1", variants=config.measurement.variants, quality=plan.quality, design=plan.design,
        equivalence_margin=plan.equivalence_margin, comparisons=plan.comparisons,
        order=plan.order, runs=plan.folders(), kept=[], conditions=CONDITIONS, digests=digest_tables(folder, plan.folders()),
    )  # fmt: skip
    write_json(folder / EXPERIMENT_FILE, experiment)
    return compare_results(read_results(out / "results"), out / "programs/claims.yaml")
