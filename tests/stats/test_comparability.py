import json

import pytest

from speedproof.stats.comparability import differing_conditions
from speedproof.stats.compare import compare_experiments
from tests.report.example import CLAIMS, Example, compare_example, example_conditions, vouch_again, write_example

ONE_EXPERIMENT = Example(experiments=1, rounds=2)


def change_runs(results, pattern, change, experiment="*"):
    """Change the records of the runs that match `pattern`."""
    paths = sorted(results.glob(f"experiments/{experiment}/runs/{pattern}/run.json"))
    assert paths
    for path in paths:
        run = json.loads(path.read_text())
        change(run)
        path.write_text(json.dumps(run))
    vouch_again(results)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: run["conditions"]["gpu"].update(uuid="GPU-2"), "gpu.uuid: GPU-1 against GPU-2"),
        (lambda run: run["conditions"]["gpu"].update(power_limit_w=500.0), "gpu.power_limit_w: 700.0 against 500.0"),
        (lambda run: run["conditions"]["packages"].update(torch="2.9"), "packages.torch: 2.11.0 against 2.9"),
        (lambda run: run["conditions"].update(image="sha256:1"), "image: None against sha256:1"),
        (lambda run: run["conditions"].update(dataset="f0"), "dataset: 0123456789abcdef against f0"),
        (lambda run: run["conditions"].update(cores=8), "cores: 16 against 8"),
    ],
)
def test_a_difference_inside_an_experiment_stops_the_ratio_and_is_named(tmp_path, change, said):
    write_example(tmp_path, ONE_EXPERIMENT)
    change_runs(tmp_path, "02-fast-timed", change)
    comparison = compare_experiments(tmp_path, CLAIMS)
    assert [row.differences for row in comparison.incomparable if row.mode == "timed"] == [[said]]
    assert not any(ratio.mode == "timed" for ratio in comparison.ratios)
    assert any(ratio.mode == "profiled" for ratio in comparison.ratios)
    assert any(measured.mode == "timed" for measured in comparison.measured)


def test_a_claim_on_variants_that_cannot_be_compared_is_not_measured_for_that_reason(tmp_path):
    write_example(tmp_path, Example(experiments=1, rounds=3, modes=("timed",)))
    change_runs(tmp_path, "*-fast-timed", lambda run: run["conditions"]["gpu"].update(ecc=True))
    claims = {claim.id: claim for claim in compare_experiments(tmp_path, CLAIMS).claims}
    claim = claims["profiling_training_epoch_ratio"]
    assert (claim.verdict, claim.measured) == ("not measured", None)
    assert claim.reason == "not comparable in experiment-1: gpu.ecc: None against True"


def test_where_the_code_came_from_is_no_difference(tmp_path):
    write_example(tmp_path, ONE_EXPERIMENT)
    change_runs(tmp_path, "*-fast-timed", lambda run: run["conditions"].update(git_commit=None, dataset_name="a copy"))
    assert compare_experiments(tmp_path, CLAIMS).incomparable == []


@pytest.mark.parametrize(
    ("halved", "said"),
    [(slice(1, None), "64"), (slice(1, 2), "64 in the first, then 128"), (slice(2, None), "128 in the first, then 64")],
)
def test_a_variant_that_trains_on_fewer_samples_is_not_compared(tmp_path, halved, said):
    write_example(tmp_path, ONE_EXPERIMENT)
    path = tmp_path / "experiments/experiment-1/runs/02-fast-timed/epochs.csv"
    lines = path.read_text().splitlines()
    column = lines[0].split(",").index("samples_per_s")
    rows = [line.split(",") for line in lines]
    for cells in rows[halved]:
        cells[column] = str(float(cells[column]) / 2)
    path.write_text("".join(f"{','.join(cells)}\n" for cells in rows))
    rows = compare_experiments(vouch_again(tmp_path), CLAIMS).incomparable
    assert [row.differences for row in rows] == [[f"training samples per epoch: 128 against {said}"]]


def test_a_gpu_against_a_processor_differs_in_all_that_a_gpu_has():
    gpu, processor = example_conditions(Example()), example_conditions(Example(gpu=False))
    assert {"GPU card", "GPU model", "cuda"} <= set(differing_conditions(gpu, processor))
    assert differing_conditions(gpu, gpu) == []


def test_another_gpu_is_one_difference_and_another_besides_it_too():
    here = example_conditions(Example())
    one, other, two = (
        here.model_copy(update={"gpu": here.gpu.model_copy(update={"uuid": uuids[0]}), "gpu_uuids": uuids})
        for uuids in (["GPU-1"], ["GPU-2"], ["GPU-1", "GPU-2"])
    )
    assert differing_conditions(one, other) == ["GPU card"]
    assert differing_conditions(one, two) == ["gpu_uuids"]


def test_experiments_under_other_conditions_are_a_condition_of_the_verdict(tmp_path):
    write_example(tmp_path, Example(experiments=2, rounds=3, modes=("timed",)))
    for path in (tmp_path / "experiments/experiment-2").glob("runs/*/run.json"):
        run = json.loads(path.read_text())
        run["conditions"]["gpu"]["driver"] = "590.1"
        path.write_text(json.dumps(run))
    comparison = compare_experiments(vouch_again(tmp_path), CLAIMS)
    assert comparison.incomparable == []
    claim = next(claim for claim in comparison.claims if claim.id == "profiling_training_epoch_ratio")
    assert "measured with more than one gpu.driver" in claim.conditions


def test_clocks_that_were_held_down_flag_the_run():
    example = Example(experiments=1, rounds=1, throttle_reasons="power cap|power brake")
    comparison = compare_example(example)
    runs = ["01-baseline-timed", "02-fast-timed", "03-baseline-profiled", "04-fast-profiled"]
    assert [row.run for row in comparison.throttled] == runs
    assert all((row.share, row.reasons) == (1.0, ["power brake", "power cap"]) for row in comparison.throttled)


@pytest.mark.parametrize("reasons", ["none", "application clocks", "gpu idle"])
def test_settings_and_idle_gpus_flag_nothing(reasons):
    assert compare_example(Example(experiments=1, rounds=3, throttle_reasons=reasons)).throttled == []


def warnings_after(results, pattern, change):
    """The warnings on an ablation of which the second experiment's runs that match `pattern` were changed."""
    write_example(results, Example(experiments=2, rounds=4, ablation=("baseline", "cached", "fast"), modes=("timed",)))
    change_runs(results, pattern, change, experiment="experiment-2")
    return compare_experiments(results, CLAIMS).warnings


def test_a_stage_of_other_techniques_or_workload_over_experiments_is_warned_about(tmp_path):
    merged = "but their runs are merged; keep them in separate results"
    assert warnings_after(tmp_path / "a", "*-cached-timed", lambda run: run["techniques"].update(batch_size=3)) == [
        f"cached: batch_size is 4 in experiment-1 and 3 in experiment-2, {merged}"
    ]
    assert warnings_after(tmp_path / "b", "*-fast-timed", lambda run: run["workload"].update(patch_size=[64, 64, 64])) == [
        f"fast: workload.patch_size is [96, 96, 96] in experiment-1 and [64, 64, 64] in experiment-2, {merged}"
    ]
    assert warnings_after(tmp_path / "c", "*-fast-timed", lambda run: run["techniques"].update(title="Faster")) == []
    assert warnings_after(tmp_path / "d", "*-fast-timed", lambda run: run["techniques"].update(new=True)) == [
        f"fast: new is not recorded in experiment-1 and True in experiment-2, {merged}"
    ]


def test_a_stage_that_trained_for_other_numbers_of_epochs_is_warned_about(tmp_path):
    write_example(tmp_path, Example(experiments=2, rounds=4, ablation=("baseline", "cached", "fast"), modes=("timed",)))
    (run, *_) = sorted(tmp_path.glob("experiments/experiment-2/runs/*-cached-timed"))
    lines = (run / "epochs.csv").read_text().splitlines()
    (run / "epochs.csv").write_text("\n".join([*lines, lines[-2].replace("5,", "7,", 1), ""]))
    change_runs(tmp_path, run.name, lambda found: found.update(epochs=7), experiment="experiment-2")
    assert compare_experiments(tmp_path, CLAIMS).warnings == [
        "+ cache on the GPU: timed runs of 6 and 7 epochs are merged; keep them in separate records"
    ]


def test_an_experiment_that_the_configuration_no_longer_plans_is_warned_about(tmp_path):
    write_example(tmp_path, Example(experiments=2, rounds=3, modes=("timed",)))
    for experiments, found in ((2, []), (1, ["experiment-2"])):
        (tmp_path / "config.json").write_text(json.dumps({"measurement": {"experiments": experiments}}))
        warnings = compare_experiments(tmp_path, CLAIMS).warnings
        assert [
            text.split()[0] for text in warnings if "left over: measurement.experiments is 1 in config.json" in text
        ] == found
        assert len(warnings) == len(found)
