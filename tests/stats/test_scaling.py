"""A variant on two GPUs against the same on one: efficiency is worked out from the example's epochs."""

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from speedproof.report.markdown import write_report
from speedproof.stats.compare import compare_experiments, write_comparison
from tests.report.conftest import compose_figures
from tests.report.example import CLAIMS, Example, compare_example, rule_with, vouch_again, write_example

TWO_GPU_EPOCH_S = 1.5  # against 1.48 s on one; factors of the rounds are 1, 1.01, 0.99 and 1, 0.99, 1.02
EXAMPLE = Example(experiments=1, rounds=3, modes=("timed",), epoch_s=(("fast", TWO_GPU_EPOCH_S),))


def make_two_gpus_of_fast(results, samples):
    """Say that `fast` is `baseline` on two GPUs, which train on `samples` patches an epoch between them."""
    reference = json.loads(next(results.glob("experiments/*/runs/*-baseline-timed/run.json")).read_text())
    for folder in results.glob("experiments/*/runs/*-fast-timed"):
        run = json.loads((folder / "run.json").read_text())
        run["techniques"] = reference["techniques"] | {"title": "Two GPUs", "gpus": 2, "shard": samples == 128}
        (folder / "run.json").write_text(json.dumps(run | {"ranks": 2}))
        epochs = pd.read_csv(folder / "epochs.csv")
        epochs.assign(samples_per_s=samples / epochs["train_s"]).to_csv(folder / "epochs.csv", index=False)
        for rank in range(2):
            (folder / f"rank{rank}").mkdir()
            shutil.copy(folder / "gpu.csv", folder / f"rank{rank}")
        (folder / "gpu.csv").unlink()
    return vouch_again(results)


def test_weak_scaling_is_the_ratio_of_the_epochs_times_and_not_called_a_speedup(tmp_path):
    results = make_two_gpus_of_fast(write_example(tmp_path, EXAMPLE), samples=256)
    comparison = compare_experiments(results, CLAIMS)
    (scaling,) = comparison.scaling
    assert (scaling.kind, scaling.smaller_ranks, scaling.larger_ranks, scaling.pairs) == ("weak", 1, 2, 3)
    assert scaling.efficiency == pytest.approx(1.48 / 1.5, rel=1e-4)
    assert scaling.low is not None and scaling.high is not None
    assert scaling.low < 1.48 / 1.5 < scaling.high
    assert not comparison.ratios  # of epochs that hold different work
    assert not comparison.incomparable


def test_where_all_gpus_share_the_work_of_one_their_time_counts_as_often_as_there_are(tmp_path):
    results = make_two_gpus_of_fast(write_example(tmp_path, EXAMPLE), samples=128)
    comparison = compare_experiments(results, CLAIMS)
    (scaling,) = comparison.scaling
    assert scaling.kind == "strong"
    assert scaling.efficiency == pytest.approx(1.48 / 1.5 / 2, rel=1e-4)
    assert any(ratio.metric == "training_epoch_s" for ratio in comparison.ratios)  # the same work: a speedup, too


def test_variants_of_other_techniques_do_not_scale():
    assert compare_example(EXAMPLE).scaling == []


def test_another_condition_inside_the_experiment_is_still_named(tmp_path):
    results = make_two_gpus_of_fast(write_example(tmp_path, EXAMPLE), samples=256)
    for path in results.glob("experiments/*/runs/*-fast-timed/run.json"):
        run = json.loads(path.read_text())
        run["conditions"]["cores"] = 8
        path.write_text(json.dumps(run))
    comparison = compare_experiments(vouch_again(results), CLAIMS)
    assert comparison.scaling == []
    assert comparison.incomparable[0].differences[0] == "cores: 16 against 8"


def test_a_rank_that_was_throttled_is_named_by_its_file(tmp_path):
    results = make_two_gpus_of_fast(write_example(tmp_path, EXAMPLE), samples=256)
    for path in results.glob("experiments/*/runs/*-fast-timed/rank1/gpu.csv"):
        samples = pd.read_csv(path)
        samples["throttle_reasons"] = samples["throttle_reasons"].replace("none", "power cap")
        samples.to_csv(path, index=False)
    rows = compare_experiments(vouch_again(results), CLAIMS).throttled
    assert {row.share for row in rows} == {0.5}  # of both ranks' samples
    assert all(row.origin.files[1].endswith("-fast-timed/rank1/gpu.csv") for row in rows)


def test_the_report_prints_the_efficiency_with_its_interval_and_no_ratio_to_a_dice(tmp_path):
    # Both variants end at 0.48 and 0.01 more for each round.
    example = replace(EXAMPLE, dice_per_epoch=(("baseline", 0.08), ("fast", 0.08)), quality=rule_with(targets=[0.49]))
    results = make_two_gpus_of_fast(write_example(tmp_path, example), samples=256)
    write_comparison(compare_experiments(results, CLAIMS), results)
    compose_figures(results)
    write_report(results, results / "report.md")
    text = (results / "report.md").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    first = next(line for line in text.splitlines() if line.startswith("**"))
    assert first.startswith(
        "**No verdict yet: each of 2 GPUs of Two GPUs has 0.987× the throughput of one of MONAI baseline script on this "
        "machine.**"
    )
    assert (
        "Weak scaling, MONAI baseline script on 1 to Two GPUs on 2 (the same work per GPU): each has 0.987× the throughput "
        in text
    )
    # With other work in their epochs the variants have no ratio that could be withheld.
    assert "(0.49): the ratio MONAI baseline script / Two GPUs" not in text
    assert "The noise floor was not measured" in text and "| Metric | Variants | Ratio |" not in text
    assert "| MONAI baseline script | Two GPUs | 1 → 2 | weak | 0.987× |" in text
