import json
import os
from dataclasses import replace

import pytest
import yaml

from speedproof.report.findings import describe_verdicts
from speedproof.report.headlines import describe_verdict
from speedproof.results.comparison import Comparison
from speedproof.results.files import read_record
from speedproof.results.folder import read_results
from speedproof.stats.claims import judge_claim
from speedproof.stats.claims_file import ClaimsFile, Level, Speedup, load_claims
from speedproof.stats.found_tables import Findings
from speedproof.stats.stated_number import StatedNumber
from speedproof.util.errors import ConfigError
from speedproof_spleen.config import Workload, load_config
from tests.report.example import (
    CLAIMS,
    CPU_EXAMPLE,
    REPOSITORY,
    SHIPPED_CLAIMS,
    Example,
    read_example,
    vouch_again,
    write_example,
)

BUSY = "GPU busy 47 % in baseline, 74 % in fast (in profiled runs): the ratio measures the processor as well"


@pytest.fixture(scope="module")
def shipped():
    return load_claims(CLAIMS)


def judge(shipped, claim_id, example=None):
    return judge_claim(next(claim for claim in shipped.claims if claim.id == claim_id), shipped, read_example(example))


def with_one(shipped, metric, *variants, unit="×", source="guide", **stated):
    """The shipped file with one claim alone: `stated` of a metric of one variant, or of the ratio of two."""
    quantity = Level(metric=metric, variant=variants[0]) if len(variants) == 1 else None
    quantity = quantity or Speedup(metric=metric, reference=variants[0], candidate=variants[1])
    update = {
        "id": "example",
        "source": source,
        "unit": unit,
        "quantity": quantity,
        "stated": StatedNumber(**stated),
        "also": [],
    }
    return shipped.model_copy(update={"claims": [shipped.claims[0].model_copy(update=update)]})


def test_the_documented_variants_are_those_of_the_configuration():
    shipped = load_claims(SHIPPED_CLAIMS)
    layers = (REPOSITORY / f"workflow/config/{name}.yaml" for name in ("datasets", "mixed_precision"))
    variants = {name: row for layer in layers for name, row in load_config(REPOSITORY / "config.yaml", layer).variants.items()}
    for name, documented in shipped.variants.items():
        actual = variants[name].model_dump(mode="json")
        for key, value in documented.items():
            if isinstance(value, dict):
                assert {inner: actual[key][inner] for inner in value} == value, f"{name}.{key}"
            else:
                assert actual[key] == value, f"{name}.{key}"
    assert shipped.workload == Workload().model_dump(mode="json")


def test_every_documented_number_stands_in_the_file():
    shipped, numbers = load_claims(SHIPPED_CLAIMS), {}
    for claim in shipped.claims:
        numbers.setdefault(claim.source, []).append(shipped.describe(claim).replace("\N{NO-BREAK SPACE}", " "))
    assert numbers["profiling"] == [
        "12–14 s", "6–7 s", "1.7–2.3×", "about 2.1× ± 5 %", "22–23 s", "about 8 s", "2.6–3.1×", "40–50 s", "40–50 s"
    ]  # fmt: skip
    assert numbers["profiling_remark"] == ["more than 90 %"]
    assert numbers["tutorial_profile"] == ["more than 20×"]
    assert numbers["guide"] == ["more than 150×", "165 epochs ± 10 %", "95 epochs ± 10 %", "about 8 GB"]
    assert numbers["guide_datasets"] == [
        "up to 10×", "about 11× ± 5 %", "about 7.6× ± 5 %", "about 18× ± 10 %", "about 13× ± 10 %", "similar, 0.73× ± 10 %"
    ]  # fmt: skip
    assert numbers["tutorial"][:4] == ["more than 50×", "about 63× ± 5 %", "about 79.2 s ± 5 %", "about 1.26 s ± 5 %"]
    assert len(numbers["tutorial"]) == 19
    assert numbers["amp"][3:6] == ["1.58×", "2892 MiB", "1829 MiB"]
    assert numbers["datasets"] == ["about 3×"]


def test_a_number_that_two_documents_state_is_one_claim_with_two_places():
    shipped = load_claims(SHIPPED_CLAIMS)
    claim = next(claim for claim in shipped.claims if claim.id == "tutorial_epoch_ratio_introduction")
    assert [place.source for place in claim.places] == ["tutorial", "guide"]
    assert shipped.describe_source(claim).startswith(
        "MONAI tutorials, acceleration/fast_training_tutorial.ipynb, introduction; "
    )
    assert shipped.describe_subject(claim).endswith("fast=False / acceleration/fast_training_tutorial.ipynb, fast=True")


def test_a_profiled_claim_is_compared_with_the_documented_mode_where_it_ran(shipped):
    example = Example(modes=("timed", "profiled", "documented"))
    result = judge(shipped, "profiling_training_epoch_fast", example)
    assert result.measured == pytest.approx(1.08 * 1.3)
    assert result.verdict == "not comparable"
    assert "training epoch on NVIDIA H200: not comparable with one V100 of a DGX-2" in result.reason
    assert "documented mode" in result.reason
    assert not any("NVTX" in condition for condition in result.conditions)


def test_without_the_documented_mode_the_profiled_one_is_used_and_said_so(shipped):
    result = judge(shipped, "profiling_training_epoch_ratio")
    assert result.measured == pytest.approx(1.48 / 1.08)
    assert result.verdict == "inconclusive"
    assert "a verdict needs 4 pairs" in result.reason
    assert "profiled mode" in result.reason
    assert "profiled without autograd's own NVTX ranges" in result.conditions


@pytest.mark.parametrize(("metric", "compared"), [("fill_and_epochs_s", False), ("epoch_s", True)])
def test_a_total_of_other_epochs_is_not_compared_and_an_epoch_is(shipped, metric, compared):
    """A fill of the cache weighs more in six epochs than in thirty: the ratio is another."""
    quantity = Speedup(metric=metric, reference="baseline", candidate="fast")
    source = next(iter(shipped.sources.values())).model_copy(update={"epochs": 30, "profiled": False})
    claim = shipped.claims[0].model_copy(update={"id": "of_all", "source": "longer", "quantity": quantity})
    claims = shipped.model_copy(update={"sources": {"longer": source}, "claims": [claim]})
    result = judge(claims, "of_all")
    assert (result.verdict != "not comparable") == compared
    assert ("of 6 epochs: not comparable with that of 30" in result.reason) != compared


def test_without_any_profiled_run_the_timed_ones_are_used_and_said_so(shipped):
    result = judge(shipped, "profiling_training_epoch_ratio", Example(modes=("timed",)))
    assert "timed mode" in result.reason
    assert "not profiled, though the documented runs were" in result.conditions


def test_conditions_name_gpu_data_software_and_what_was_changed(shipped):
    example = Example(techniques=(("batch_size", 3),))
    conditions = judge(shipped, "profiling_training_epoch_ratio", example).conditions
    assert "NVIDIA H200 (Example CPU, 16 cores) instead of one V100 of a DGX-2" in conditions
    assert "synthetic data (phantom-full) instead of Task09_Spleen" in conditions
    assert "baseline.batch_size 3 instead of 4" in conditions
    assert "fast.batch_size 3 instead of 8" in conditions
    assert any("monai 1.6.1, torch 2.11.0" in condition for condition in conditions)


def test_a_list_where_a_run_has_a_number_is_a_condition_that_differs(shipped):
    """As in somebody else's claims, which nobody held against these runs."""
    listed = shipped.model_copy(update={"variants": {"baseline": {"batch_size": [4]}}})
    conditions = judge(listed, "profiling_training_epoch_ratio").conditions
    assert "baseline.batch_size 4 instead of 4" in conditions


def test_on_a_cpu_under_kineto_the_conditions_say_so(shipped):
    conditions = judge(shipped, "profiling_training_epoch_fast", CPU_EXAMPLE).conditions
    assert "CPU (Example CPU, 16 cores) instead of one V100 of a DGX-2" in conditions
    assert "profiled by kineto (torch.profiler) instead of Nsight Systems" in conditions


def test_the_real_dataset_is_no_condition(shipped):
    conditions = judge(shipped, "profiling_training_epoch_fast", Example(synthetic=False)).conditions
    assert not any("Task09_Spleen" in condition for condition in conditions)


def test_gpu_use_needs_a_trace_of_a_gpu(shipped):
    result = judge(shipped, "profiling_gpu_busy_tutorial", CPU_EXAMPLE)
    assert (result.verdict, result.measured) == ("not measured", None)
    assert "needs a profiled run on a GPU" in result.reason


def test_a_variant_that_did_not_run_is_named(shipped):
    result = judge(shipped, "tutorial_epoch_ratio_introduction")
    assert result.verdict == "not measured"
    assert result.reason == "no completed run of regular and fast_tutorial"


def with_claim(shipped, epochs, dice):
    """The shipped file with one claim more: the epochs that the baseline needs to a Dice, timed."""
    values = shipped.model_dump()
    values["sources"]["example"] = {**values["sources"]["guide"], "epochs": epochs}
    values["claims"].append(
        {
            **dict.fromkeys(("id", "text", "source", "place"), "example"),
            "unit": "epochs",
            "quantity": {"metric": "epochs_to_quality", "variant": "baseline", "target": dice},
            "stated": {"comparator": "exactly", "value": "4"},
        }
    )
    return ClaimsFile.model_validate(values)


def test_a_dice_out_of_reach_is_unmeasured_if_the_source_trained_longer_and_not_reproduced_if_not(shipped):
    too_short = judge(with_claim(shipped, epochs=300, dice=0.94), "example")
    assert too_short.verdict == "not measured"
    assert "not reached by every run in 6 epochs, and the source trained 300" in too_short.reason
    missed = judge(with_claim(shipped, epochs=6, dice=0.94), "example")
    assert missed.verdict == "not comparable"
    assert missed.conditions
    on_the_data = judge(with_claim(shipped, epochs=6, dice=0.94), "example", Example(synthetic=False))
    assert on_the_data.verdict == "not reproduced here"


def speedup_to(shipped, dice, metric="process_to_quality_s"):
    """The shipped file with one claim more: a speedup of the fast variant, of the way to a Dice or of another metric."""
    values = with_claim(shipped, epochs=6, dice=0.9).model_dump()
    values["claims"][-1] |= {
        "unit": "×",
        "quantity": {"metric": metric, "reference": "baseline", "candidate": "fast", "target": dice},
    }
    return ClaimsFile.model_validate(values)


def write_apart(results):
    """The example with its variants in an experiment each."""
    write_example(results, Example(experiments=1, rounds=3, variants=("baseline",)))
    other = write_example(results.parent / "other", Example(experiments=1, rounds=3, variants=("fast",)))
    moved = (other / "experiments/experiment-1").rename(results / "experiments/experiment-2")
    for path in (moved / "experiment.json", moved / "plan.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"experiment": "experiment-2"}))
    return read_results(results)


@pytest.mark.parametrize(("dice", "metric"), [(0.2, "process_to_quality_s"), (None, "training_epoch_s")])
def test_variants_that_never_shared_an_experiment_have_no_measured_speedup(tmp_path, shipped, dice, metric):
    file = speedup_to(shipped, dice, metric)
    result = judge_claim(file.claims[-1], file, write_apart(tmp_path / "results"))
    assert result.verdict == "not measured"
    assert result.reason == "baseline and fast never ran in the same experiment, inside of which a ratio is formed"


def test_variants_whose_rounds_differ_have_no_pair(shipped):
    results = read_example(Example(experiments=1, rounds=3, modes=("timed",)))
    kept = [run for run in results.runs if (run.run.round == 0) == (run.run.variant == "fast")]
    file = speedup_to(shipped, 0.2)
    result = judge_claim(file.claims[-1], file, replace(results, runs=kept))
    said = "no completed runs of baseline and fast share an experiment, a mode and a round, of which a ratio is formed"
    assert (result.verdict, result.reason) == ("not measured", said)


@pytest.mark.parametrize(
    ("turned", "rounds", "dice", "verdict"),
    [
        (False, 6, 0.4, "inconclusive"),  # as much larger as anybody likes
        (True, 6, 0.4, "not reproduced here"),
        (True, 3, 0.4, "inconclusive"),  # fewer than four pairs
        (True, 6, 0.9, "inconclusive"),  # neither variant reached it
        (True, 6, 0.31, "inconclusive"),  # some runs did
    ],
)
def test_a_speedup_to_a_dice_is_not_reproduced_where_the_variant_that_is_to_be_faster_alone_misses_it(
    shipped, turned, rounds, dice, verdict
):
    # The baseline ends at 0.30, 0.31 and 0.32, the fast variant at 0.48 and more.
    values = speedup_to(shipped, dice).model_dump()
    if turned:
        values["claims"][-1]["quantity"] |= {"reference": "fast", "candidate": "baseline"}
    example = Example(modes=("timed",), rounds=rounds, synthetic=False)
    result = judge(ClaimsFile.model_validate(values), "example", example)
    assert (result.verdict, result.reason) == (verdict, f"Dice {dice:g} was not reached by every run in 6 epochs")


@pytest.mark.parametrize(("low", "verdict"), [("1.5", "not reproduced here"), ("0.5", "inconclusive")])
def test_a_speedup_to_a_dice_is_not_reproduced_by_what_the_runs_that_missed_it_took(shipped, low, verdict):
    """By epochs: the fast variant reaches 0.4 in all six, the baseline in none, so that the ratio is less than 1."""
    values = speedup_to(shipped, 0.4, "epochs_to_quality").model_dump()
    values["claims"][-1]["quantity"] |= {"reference": "fast", "candidate": "baseline"}
    values["claims"][-1]["stated"] = {"comparator": "more than", "value": low}
    example = Example(modes=("timed",), synthetic=False)
    assert judge(ClaimsFile.model_validate(values), "example", example).verdict == verdict


@pytest.mark.parametrize(
    ("value", "verdict"),
    [("1", "reproduced"), ("1.2", "exceeded"), ("10", "inconclusive")],  # 1.48 / 1.08 = 1.37, and 1× is 0.5 to 1.5×
)
def test_less_than_what_a_source_calls_possible_does_not_contradict_it(shipped, value, verdict):
    file = with_one(shipped, "training_epoch_s", "baseline", "fast", comparator="up to", value=value)
    result = judge(file, "example", Example(modes=("timed",)))
    assert (result.verdict, result.documented) == (verdict, f"up to {value}×")
    assert ("so a lower value does not contradict it" in result.reason) == (verdict == "inconclusive")
    assert result.needed is None


def test_what_a_source_states_exactly_is_not_reproduced_where_it_is_not_reached(shipped):
    file = with_one(shipped, "training_epoch_s", "baseline", "fast", comparator="more than", value="10")
    result = judge(file, "example", Example(modes=("timed",)))
    assert result.verdict == "not reproduced here"
    assert describe_verdict(result) == f"not reproduced here, {len(result.conditions)} conditions differ"


def test_how_busy_each_variants_gpu_was_is_a_condition_of_a_ratio_of_times(shipped):
    """In the example's traces `baseline` keeps the GPU busy for less of an epoch than `fast` does."""
    file = with_one(shipped, "training_epoch_s", "baseline", "fast", comparator="more than", value="10")
    *_, bottleneck = judge(file, "example").conditions
    assert bottleneck.replace("\N{NO-BREAK SPACE}", " ") == BUSY
    memory = with_one(shipped, "peak_memory_mib", "baseline", "fast", comparator="more than", value="10")
    assert not any("busy" in condition for condition in judge(memory, "example").conditions)
    assert not any("busy" in condition for condition in judge(file, "example", CPU_EXAMPLE).conditions)


def test_a_way_to_a_dice_of_which_a_run_diverged_is_inconclusive(shipped):
    example = Example(modes=("timed",), synthetic=False, outcome="not_a_number")
    result = judge(speedup_to(shipped, 0.2), "example", example)
    said = "Dice 0.2 was not reached by every run in 6 epochs, and 1 run diverged"
    assert (result.verdict, result.reason) == ("inconclusive", said)


def test_a_dice_that_some_runs_reached_leaves_the_way_to_it_open(shipped):
    result = judge(with_claim(shipped, epochs=6, dice=0.31), "example", Example(synthetic=False))
    assert result.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("gpu", "gpus", "verdict"), [("H200", 1, "inconclusive"), ("H20", 1, "not comparable"), ("H200", 8, "not comparable")]
)
def test_seconds_are_compared_on_the_documented_gpu_and_as_many_of_it(shipped, gpu, gpus, verdict):
    source = shipped.sources["guide"].model_copy(update={"gpu": gpu, "gpus": gpus})
    quantity = Level(metric="training_epoch_s", variant="fast")
    claim = shipped.claims[0].model_copy(update={"id": "seconds", "source": "one", "quantity": quantity, "unit": "s"})
    claims = shipped.model_copy(update={"sources": {"one": source}, "claims": [claim]})
    assert judge(claims, "seconds", Example(modes=("timed",), rounds=3)).verdict == verdict


def test_other_epochs_of_either_variant_and_a_warm_up_that_counts_in_one_alone_are_conditions(tmp_path, shipped):
    results = write_example(tmp_path, Example(experiments=1, rounds=4, modes=("timed",)))
    for folder in results.glob("experiments/*/runs/*-baseline-timed"):  # the first interval is the only one
        lines = (folder / "epochs.csv").read_text().splitlines(keepends=True)
        (folder / "epochs.csv").write_text("".join(lines[:3]))
        run = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(run | {"epochs": 2, "best_quality": 0.1, "best_quality_epoch": 2}))
    file = speedup_to(shipped, None, "epoch_s")
    conditions = judge_claim(file.claims[-1], file, read_results(vouch_again(results))).conditions
    assert "2 epochs of baseline instead of 6" in conditions
    assert "the first (warm-up) epoch is included for baseline only" in conditions


def test_a_dice_that_a_continued_run_reached_has_no_time_but_was_reached(tmp_path, shipped):
    results = write_example(tmp_path, Example(experiments=1, rounds=3, modes=("timed",)))
    path = results / "experiments/experiment-1/runs/01-baseline-timed/run.json"
    part = {"first_epoch": 3, "reason": "killed", "start_up_s": 1.0, "cache_fill_s": 0.0, "warm_up_s": 0.1}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"continued": [part]}))
    file = speedup_to(shipped, 0.2)
    result = judge_claim(file.claims[-1], file, read_results(vouch_again(results)))
    assert result.verdict == "not measured"
    assert result.reason.startswith("no value of time to Dice from the start of the process in 1 of 6 runs: a run that")


def test_a_metric_that_one_variant_lacks_is_said_to_be_lacking_in_its_runs_only(tmp_path, shipped):
    results = write_example(tmp_path, Example(experiments=1, rounds=3, modes=("timed",)))
    for path in results.glob("experiments/experiment-1/runs/*-baseline-timed/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"cache_fill_s": 0.0}))
    file = speedup_to(shipped, None, "cache_fill_s")
    result = judge_claim(file.claims[-1], file, read_results(vouch_again(results)))
    assert result.reason == "no value of fill of the cache in 3 of 6 runs: nothing was cached"


def test_a_dice_that_was_reached_is_measured(shipped):
    # 0.05 an epoch and 0.01 more for each round: 0.2 is reached with the fourth epoch.
    result = judge(with_claim(shipped, epochs=6, dice=0.2), "example", Example(synthetic=False))
    assert (result.measured, result.verdict) == (pytest.approx(4), "reproduced")


def stating(**stated):
    return lambda values: values["claims"][0].update(stated=stated)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["claims"][0].update(source="nowhere"), "unknown source `nowhere`"),
        (lambda values: values["claims"][0].update(unit="MiB"), "its unit is `s`"),
        (lambda values: values["claims"].append(values["claims"][0]), "duplicate id"),
        (lambda values: values["claims"][0].update(verdict="reproduced"), "claims.0.verdict"),
        (lambda values: values["claims"][0].update(expected={"low": 2}), "`expected` is now `stated`, with a `comparator`"),
        (stating(comparator="exactly", value=float("nan")), "claims.0.stated.value: must be a finite"),
        (stating(comparator="exactly", value=2.8), "claims.0.stated.value: Input should be a valid string"),
        (stating(comparator="exactly", value="2.8x"), "claims.0.stated.value: String should match pattern"),
        (stating(comparator="between", low="2", high="1"), "`low` 2 is above `high` 1"),
        (stating(comparator="between", low="2"), "`between` needs `low` and `high`"),
        (stating(comparator="more than", low="2"), "`more than` needs a `value`"),
        (stating(comparator="more than", value="2", tolerance="figure"), "`more than` has no `tolerance`"),
        (stating(comparator="about", value="2", tolerance="none"), "unknown tolerance `none`"),
        (lambda values: values["claims"][0].update(also=[{"source": "nowhere", "place": "x"}]), "unknown source `nowhere`"),
        (lambda values: values["claims"][0].update(date="2021"), "claims.0.date: String should match pattern"),
        (lambda values: values["claims"][0].update(text="\x1b[2J"), "claims.0.text: cannot be printed"),
        (lambda values: values["claims"][0].update({1: 2}), "claims.0.1: a key must be a text"),
        (lambda values: values["claims"][0]["quantity"].update(target=0.9), "training_epoch_s has no `target` to reach"),
        (lambda values: values["claims"][0]["quantity"].update(dice=0.9), "`dice` is now `target`"),
        (
            lambda values: values["claims"][0]["quantity"].update(metric="epoch_h"),
            "unknown metric `epoch_h`; known are training_epoch_s, ",
        ),
        (
            lambda values: values["claims"][0]["quantity"].update(metric="epochs_to_quality"),
            "epochs_to_quality needs a `target` to reach",
        ),
    ],
)
def test_a_faulty_file_is_one_clear_line(tmp_path, change, message):
    values = yaml.safe_load(CLAIMS.read_text(encoding="utf-8"))
    change(values)
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_claims(path)
    assert message in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_pipe_in_place_of_a_file_is_named_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "claims.yaml")
    with pytest.raises(ConfigError, match=r"claims\.yaml: is not a file"):
        load_claims(tmp_path / "claims.yaml")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_claims(tmp_path / "none.yaml")


def test_a_file_without_claims_is_one(tmp_path):
    (tmp_path / "claims.yaml").write_text("claims: []\n")
    assert load_claims(tmp_path / "claims.yaml").claims == []


def test_without_a_claim_there_is_a_sentence():
    comparison = read_record(REPOSITORY / "records/2026-11-22-h200-sides/comparison.json", Comparison)
    assert describe_verdicts(Findings(comparison.model_copy(update={"claims": []}))) == "No documented number to judge."
