"""Runs of another configuration are never shown as those of the one beside them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from speedproof.cli.application import app
from speedproof.results.experiment import EXPERIMENT_FILE, LOST_TRACE, Experiment
from speedproof.results.files import read_record, write_json
from speedproof.results.run_record import RUN_FILE
from speedproof.run import staleness
from speedproof.run.plan import plan_experiment
from speedproof.run.staleness import check_current
from speedproof.util.errors import RecordError
from speedproof_spleen.config import check_config, load_config
from tests.run.test_resume import CONDITIONS, run_under

ROOT = Path(__file__).parents[2]


def config_with(measurement=None, **sections):
    values = load_config(ROOT / "config.yaml").model_dump(mode="json")
    values["measurement"] |= {"variants": ["fast", "baseline"], "rounds": 1, "control": False, "documented": 0} | (
        measurement or {}
    )
    for name, changed in sections.items():
        values[name] |= changed
    return check_config(values)


@pytest.fixture
def results(tmp_path):
    """An experiment of two variants, a timed and a profiled run each, with its records and nothing else."""
    config = config_with()
    folder, plan = tmp_path / "experiments/experiment-1", plan_experiment(config, "experiment-1")
    for name, planned in zip(plan.folders(), plan.order, strict=True):
        timed = planned.mode == "timed"
        update = {"variant": planned.variant, "mode": planned.mode, "seed": planned.seed, "run": name}
        update |= {"techniques": config.variants[planned.variant].model_dump(mode="json")}
        update |= {"profiler": "none" if timed else "nsys", "traced": [] if timed else ["cuda", "nvtx"]}
        write_json(folder / "runs" / name / RUN_FILE, run_under(CONDITIONS).model_copy(update=update))
    experiment = Experiment(
        experiment="experiment-1", variants=["fast", "baseline"], quality=plan.quality, order=plan.order, runs=plan.folders(),
        kept=[], conditions=CONDITIONS, digests={},
    )  # fmt: skip
    write_json(folder / EXPERIMENT_FILE, experiment)
    write_json(tmp_path / "config.json", config)
    return tmp_path


def check_nothing_is_refused(results):
    """The report goes on, to what this folder lacks: nobody vouches for its runs."""
    with pytest.raises(RecordError, match="has no checksum of it") as caught:
        app(["results", "report", f"--from={results}"], standalone_mode=False)
    assert "another configuration" not in str(caught.value)


CHANGES = {
    "a run more": {"measurement": {"rounds": 2}},
    "another variant": {"measurement": {"variants": ["fast", "regular"]}},
    "variants the other way round": {"measurement": {"variants": ["baseline", "fast"]}},
    "epochs": {"measurement": {"epochs": 7}},
    "a margin": {"measurement": {"quality": {"margin": 0.5}}},
    "the device": {"measurement": {"device": "cpu"}},
    "the profiler": {"profiling": {"backend": "kineto"}},
    "what is traced": {"profiling": {"trace": ["cuda", "nvtx", "osrt"]}},
    "samples": {"profiling": {"gpu_samples_per_s": 20}},
    "the workload": {"workload": {"validation_cases": 8}},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", ["report --from", "verdicts --claims none.yaml --from", "rebuild --claims none.yaml --from"])
def test_runs_of_another_configuration_are_refused(results, change, step):
    write_json(results / "config.json", config_with(**CHANGES[change]))
    with pytest.raises(RecordError, match="experiment-1: was measured under another configuration") as caught:
        app([*step.split(), str(results)], standalone_mode=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", [{}, {"measurement": {"experiments": 3}}, {"resources": {"scratch": "/tmp"}}])
def test_what_changes_no_run_refuses_none(results, change):
    write_json(results / "config.json", config_with(**change))
    check_nothing_is_refused(results)


def test_without_a_configuration_beside_them_runs_stand_for_themselves(results):
    (results / "config.json").unlink()
    check_nothing_is_refused(results)


def test_results_of_before_are_held_against_their_configuration_too(results):
    """Versions before 0.3 numbered blocks."""
    (results / "experiments").rename(results / "blocks")
    (results / "blocks/experiment-1").rename(results / "blocks/block-1")
    written = results / "blocks/block-1" / EXPERIMENT_FILE
    experiment = read_record(written, Experiment)
    write_json(written.with_name("block.json"), experiment.model_copy(update={"experiment": "block-1"}))
    written.unlink()
    check_nothing_is_refused(results)
    write_json(results / "config.json", config_with({"epochs": 7}))
    with pytest.raises(RecordError, match="block-1: was measured under another configuration"):
        check_current(results)


@pytest.mark.parametrize(
    ("undone", "reason", "measured"),
    [
        ({}, "budget", True),
        ({"10-b-profiled": LOST_TRACE}, None, False),  # of a fixed number of rounds
        ({"10-b-profiled": LOST_TRACE}, "decided", False),  # the same rounds decide it again
        ({"10-b-profiled": LOST_TRACE}, "budget", True),  # the time for more rounds would begin anew
    ],
)
def test_a_lost_trace_is_tried_again_unless_a_time_limit_ended_the_rounds(monkeypatch, tmp_path, undone, reason, measured):
    stopped = SimpleNamespace(reason=reason) if reason else None
    experiment = SimpleNamespace(undone=undone, stopped=stopped, conditions=SimpleNamespace(sources="digest"))
    read = SimpleNamespace(experiments=[experiment], runs=[])
    monkeypatch.setattr(staleness, "read_results", lambda *_, **__: read)
    monkeypatch.setattr(staleness, "_find_difference", lambda *_: None)
    assert (staleness.read_measured(tmp_path, SimpleNamespace(), "digest") is read) is measured
