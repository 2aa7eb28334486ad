"""Which runs of an interrupted experiment are kept: those that measured what is asked for now, on the same GPU."""

from pathlib import Path

import pytest

from speedproof.results.experiment import PlannedRun
from speedproof.results.run_record import Conditions, Gpu, Run
from speedproof.run.resume import expected_fingerprint
from speedproof_spleen.config import load_config

CONFIG = load_config(Path(__file__).parents[2] / "config.yaml")
GPU = Gpu(name="NVIDIA H200", uuid="GPU-1", driver="580", memory_mib=143771)
CONDITIONS = Conditions(
    gpu=GPU,
    cpu="a processor",
    cores=16,
    python="3.12.3",
    packages={"torch": "2.11.0"},
    cuda="13.0",
    cudnn="91900",
    dataset="abc",
    dataset_name="phantom",
    synthetic_data=True,
    image=None,
    git_commit="123",
    sources="def",
)
PLANNED = PlannedRun(variant="fast", mode="timed", round=0, seed=3)


def run_under(conditions):
    return Run(
        run="01-fast-timed",
        case="spleen",
        variant="fast",
        mode="timed",
        profiler="none",
        round=0,
        seed=3,
        epochs=6,
        validate_every=2,
        techniques=CONFIG.variants["fast"].model_dump(mode="json"),
        workload=CONFIG.workload.model_dump(mode="json"),
        gpu_samples_per_s=10,
        traced=[],
        conditions=conditions,
        warnings=[],
        command=[],
        started="2026-11-21T10:00:00+00:00",
        ended="2026-11-21T10:01:00+00:00",
        start_up_s=1,
        cache_fill_s=1,
        warm_up_s=1,
        training_s=1,
        process_s=1,
        best_quality=None,
        best_quality_epoch=None,
        best_quality_s=None,
        outcome="completed",
        reason="",
    )


def test_an_equal_run_is_kept():
    assert run_under(CONDITIONS).fingerprint == expected_fingerprint(CONFIG, PLANNED, "none", CONDITIONS)


@pytest.mark.parametrize(
    "change",
    [
        {"gpu": GPU.model_copy(update={"uuid": "GPU-2"})},
        {"gpu": GPU.model_copy(update={"driver": "590"})},
        {"gpu": None},
        {"cpu": "another"},
        {"cores": 8},
        {"packages": {"torch": "2.12.0"}},
        {"dataset": "other"},
        {"image": "sha256:1"},
        {"scratch": True},
        {"sources": "edited"},
    ],
)
def test_a_run_under_other_conditions_is_repeated(change):
    other = CONDITIONS.model_copy(update=change)
    assert run_under(CONDITIONS).fingerprint != expected_fingerprint(CONFIG, PLANNED, "none", other)


@pytest.mark.parametrize("change", [{"seed": 4}, {"mode": "profiled"}, {"variant": "baseline"}])
def test_another_run_does_not_stand_in(change):
    other = PLANNED.model_copy(update=change)
    assert run_under(CONDITIONS).fingerprint != expected_fingerprint(CONFIG, other, "none", CONDITIONS)


def test_a_corrected_title_repeats_nothing():
    variants = {**CONFIG.variants, "fast": CONFIG.variants["fast"].model_copy(update={"title": "Another"})}
    corrected = CONFIG.model_copy(update={"variants": variants})
    assert run_under(CONDITIONS).fingerprint == expected_fingerprint(corrected, PLANNED, "none", CONDITIONS)


def test_a_name_or_the_commit_alone_repeats_nothing():
    other = CONDITIONS.model_copy(update={"git_commit": "456", "dataset_name": "the same by another name"})
    assert run_under(CONDITIONS).fingerprint == expected_fingerprint(CONFIG, PLANNED, "none", other)
