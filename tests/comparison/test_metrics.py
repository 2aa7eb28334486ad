from dataclasses import replace

import pandas as pd
import pytest

from speedproof.analysis.difference import compare_summaries
from speedproof.analysis.metrics import (
    METRICS,
    epoch_s,
    epochs_to_dice,
    gpu_busy_fraction,
    measure_run,
    training_epoch_s,
    validation_epoch_s,
    validation_share,
)
from speedproof.records.results import read_results
from speedproof.records.run import Part
from tests.report.example import CPU_EXAMPLE, Example, example_summary, write_example


def make_epochs(train_s, validation_s=None, dice=None):
    count = len(train_s)
    return pd.DataFrame(
        {
            "epoch": range(1, count + 1),
            "train_s": train_s,
            "validation_s": pd.Series(validation_s or [None] * count, dtype=float),
            "dice_foreground": pd.Series(dice or [None] * count, dtype=float),
        }
    )


def test_training_epoch_leaves_out_the_warm_up_once_two_others_remain():
    assert training_epoch_s(make_epochs([9.0, 1.0, 2.0, 4.0])) == 2.0
    assert training_epoch_s(make_epochs([9.0, 1.0])) == 5.0
    assert training_epoch_s(make_epochs([9.0])) == 9.0
    assert training_epoch_s(make_epochs([])) is None


def test_validation_epoch_counts_validating_epochs_but_never_the_first():
    epochs = make_epochs([9.0, 1.0, 2.0, 3.0], [5.0, 0.5, None, 0.7])
    assert validation_epoch_s(epochs) == pytest.approx((1.5 + 3.7) / 2)
    assert validation_epoch_s(make_epochs([9.0, 1.0], [5.0, None])) is None


def test_epoch_spreads_validation_over_whole_intervals_after_the_first():
    # Intervals end with epochs 2, 4, 6; the seventh begins one that never ended.
    epochs = make_epochs([9.0, 1.0, 1.0, 1.0, 2.0, 2.0, 50.0], [None, 0.4, None, 0.4, None, 0.8, None])
    assert epoch_s(epochs) == pytest.approx((1.0 + 1.4 + 2.0 + 2.8) / 4)
    assert epoch_s(make_epochs([3.0, 1.0], [None, 0.4])) == pytest.approx(2.2)
    assert epoch_s(make_epochs([3.0, 1.0])) is None


def test_a_traces_epoch_has_validation_at_the_share_of_the_metric():
    # Six epochs of 1.48 s or 1.08 s; every second one validates for 0.22 s or 0.18 s.
    example = Example()
    summaries = [example_summary(variant, example, "1") for variant in ("baseline", "fast")]
    assert [validation_share(summary) for summary in summaries] == [0.5, 0.5]
    difference = compare_summaries(*summaries, names=("a", "b"))
    epochs = [make_epochs([train_s] * 6, [None, more_s] * 3) for train_s, more_s in ((1.48, 0.22), (1.08, 0.18))]
    assert [difference.epoch_a_s, difference.epoch_b_s] == pytest.approx([1.59, 1.17])
    assert [epoch_s(one) for one in epochs] == pytest.approx([1.59, 1.17])


def test_the_first_epoch_of_each_process_warms_up():
    # A second process began with epoch 5; intervals end with epochs 2, 4, 6 and 8.
    epochs = make_epochs([9.0, 1.0, 2.0, 2.0, 8.0, 3.0, 4.0, 5.0], [None, 0.1, None, 0.1, None, 0.1, None, 0.1])
    assert training_epoch_s(epochs, warm_ups={1, 5}) == 2.5  # of 1 2 2 3 4 5
    assert epoch_s(epochs, warm_ups={1, 5}) == pytest.approx((2.0 + 2.1 + 4.0 + 5.1) / 4)
    every = make_epochs([9.0, 1.0, 8.0, 3.0], [0.5, 0.5, 0.5, 0.7])
    assert validation_epoch_s(every, warm_ups={1, 3}) == pytest.approx((1.5 + 3.7) / 2)


def test_where_too_little_remains_beside_the_warm_ups_all_counts_as_it_does_of_one_process():
    epochs = make_epochs([9.0, 1.0, 8.0], [None, 0.5, 0.5])
    assert training_epoch_s(epochs, warm_ups={1, 3}) == 8.0
    assert epoch_s(epochs, warm_ups={1, 3}) == pytest.approx((9.0 + 1.5 + 8.5) / 3)
    assert validation_epoch_s(epochs, warm_ups={1, 2, 3}) is None


def test_epochs_to_dice_is_the_first_validation_that_reaches_it():
    epochs = make_epochs([1.0] * 6, [None, 0.5] * 3, [None, 0.80, None, 0.95, None, 0.90])
    assert epochs_to_dice(epochs, 0.80) == 2
    assert epochs_to_dice(epochs, 0.94) == 4
    assert epochs_to_dice(epochs, 0.96) is None


def test_time_to_dice_sums_training_and_validation_up_to_that_epoch(tmp_path):
    # The fast side's first run: training 2.08 s, then 1.08 s an epoch; every second epoch 0.18 s of validation; Dice 0.08 more
    # an epoch.
    run = next(run for run in read_results(write_example(tmp_path)).runs if run.run.variant == "fast")
    # Its first step took 1.1 s; 28 s passed before the first epoch.
    assert measure_run(run, "time_to_dice_s", dice=0.3) == pytest.approx(2.08 + 3 * 1.08 + 2 * 0.18 - 1.1)
    assert measure_run(run, "process_to_dice_s", dice=0.3) == pytest.approx(28 + 2.08 + 3 * 1.08 + 2 * 0.18)
    assert measure_run(run, "epochs_to_dice", dice=0.3) == 4
    assert measure_run(run, "time_to_dice_s", dice=0.94) is None


def test_a_continued_run_has_each_epoch_once_no_first_step_and_no_time_from_a_process_start(tmp_path):
    run = next(run for run in read_results(write_example(tmp_path)).runs if run.run.variant == "fast")
    part = Part(first_epoch=4, reason="received SIGTERM", start_up_s=30.0, cache_fill_s=24.0, warm_up_s=0.5)
    continued = replace(run, run=run.run.model_copy(update={"continued": [part]}))
    # Epoch 1 took a second more; epochs 3 and 4 are the interval in which the second process warmed up.
    slower = run.epochs.assign(train_s=run.epochs["train_s"].where(run.epochs["epoch"] != 4, 50.0))
    assert measure_run(replace(continued, epochs=slower), "epoch_s") == pytest.approx(1.08 + 0.18 / 2)
    assert measure_run(replace(continued, epochs=slower), "validation_epoch_s") == pytest.approx(1.08 + 0.18)
    assert measure_run(replace(continued, epochs=slower), "training_epoch_s") == pytest.approx(1.08)
    # Dice 0.3 is reached in epoch 4, of which 0.5 s are the second process' first step; 0.16 in epoch 2, before it began.
    assert measure_run(continued, "time_to_dice_s", dice=0.3) == pytest.approx(2.08 + 3 * 1.08 + 2 * 0.18 - 1.1 - 0.5)
    assert measure_run(continued, "time_to_dice_s", dice=0.16) == pytest.approx(2.08 + 1.08 + 0.18 - 1.1)
    assert measure_run(continued, "epochs_to_dice", dice=0.3) == 4
    assert measure_run(continued, "process_to_dice_s", dice=0.3) is None
    assert measure_run(continued, "process_s") is None


def test_gpu_busy_is_the_mean_over_time_after_the_first_epoch():
    # Fast: busy 0.8 of (1.08 - 0.04) s training, in epochs that validate also 0.8 × 0.6 of 0.18 s. After the first epoch there
    # are two epochs without and three with validation.
    busy_s, validation_busy_s = 0.8 * 1.04, 0.8 * 0.6 * 0.18
    expected = (5 * busy_s + 3 * validation_busy_s) / (5 * 1.08 + 3 * 0.18)
    assert gpu_busy_fraction(example_summary("fast", Example(), "1")) == pytest.approx(expected)
    assert gpu_busy_fraction(example_summary("fast", CPU_EXAMPLE, "1")) is None


def test_without_a_cache_there_is_no_time_to_fill_it(tmp_path):
    run = read_results(write_example(tmp_path)).runs[0]
    assert measure_run(run, "cache_fill_s") == 25.0
    uncached = replace(run, run=run.run.model_copy(update={"cache_fill_s": 0.0}), summary=None)
    assert measure_run(uncached, "cache_fill_s") is None


def test_a_dice_metric_without_its_target_is_a_mistake_of_the_caller(tmp_path):
    run = read_results(write_example(tmp_path)).runs[0]
    with pytest.raises(ValueError, match="Dice to reach"):
        measure_run(run, "epochs_to_dice")


def test_every_metric_has_a_rule_and_a_file_that_a_run_leaves(tmp_path):
    runs = [run for run in read_results(write_example(tmp_path)).runs if run.run.arm == "timed" or run.summary]
    for name, metric in METRICS.items():
        run = next(run for run in runs if measure_run(run, name, dice=0.1) is not None)
        assert all((tmp_path / run.file(file)).exists() for file in metric.files)


def test_a_metric_is_measured_in_its_arms_alone(tmp_path):
    run = next(run for run in read_results(write_example(tmp_path)).runs if run.summary)
    assert measure_run(run, "epochs_to_dice", dice=0.1) is None
    assert measure_run(run, "training_epoch_s") == pytest.approx(1.48 * 1.05)
