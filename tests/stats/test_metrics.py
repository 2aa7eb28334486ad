import ast
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from pydantic import ValidationError
from rich.console import Console

import speedproof
from speedproof.report.markdown import write_report
from speedproof.report.ratio_phrases import describe_main
from speedproof.report.report_tables import list_further, list_levels, list_ratios
from speedproof.report.terminal import print_metrics
from speedproof.results.comparison import COMPARISON_FILE, read_comparison
from speedproof.results.quality import Quality
from speedproof.results.run_record import Part
from speedproof.run.proof.request import ProofRequest
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.stats.finding import Reader
from speedproof.stats.found_tables import Findings
from speedproof.stats.main_ratios import list_headline_ratios
from speedproof.stats.metrics import METRICS, Metric, measure_run
from speedproof.stats.run_values import (
    epoch_s,
    epochs_to_quality,
    gpu_busy_fraction,
    samples_per_s,
    training_epoch_s,
    validation_epoch_s,
)
from speedproof.trace.diff import compare_summaries
from speedproof.util.errors import RecordError
from tests.report.conftest import compose_figures
from tests.report.example import CLAIMS, CPU_EXAMPLE, Example, read_example, write_example
from tests.report.example_trace import example_summary


def make_epochs(train_s, validation_s=None, quality=None):
    count = len(train_s)
    return pd.DataFrame(
        {
            "epoch": range(1, count + 1),
            "train_s": train_s,
            "validation_s": pd.Series(validation_s or [None] * count, dtype=float),
            "quality": pd.Series(quality or [None] * count, dtype=float),
        }
    )


def test_training_epoch_leaves_out_the_warm_up_once_two_others_remain():
    assert training_epoch_s(make_epochs([9.0, 1.0, 2.0, 6.0])) == 3.0
    assert training_epoch_s(make_epochs([9.0, 1.0])) == 5.0
    assert training_epoch_s(make_epochs([9.0])) == 9.0
    assert training_epoch_s(make_epochs([])) is None


def test_a_costly_epoch_counts_as_much_as_it_takes():
    # Of 40 steps every fifth takes 0.4 s, the others 0.02 s; without the first 8 × 0.4 + 31 × 0.02 = 3.82 s of 39.
    steps = [0.4 if step % 5 == 4 else 0.02 for step in range(40)]
    assert training_epoch_s(make_epochs(steps)) == pytest.approx(3.82 / 39)


def test_a_rate_is_of_all_samples_over_all_of_their_time():
    # 10 samples in 1 s, then 90 in 3 s: 100 in 4 s, though the mean of 10/s and 30/s is 20/s. The first epoch warms up.
    epochs = make_epochs([9.0, 1.0, 3.0]).assign(samples_per_s=[1.0, 10.0, 30.0])
    assert samples_per_s(epochs) == pytest.approx(25.0)
    # An epoch of which no samples are known counts in neither.
    assert samples_per_s(epochs.assign(samples_per_s=[1.0, math.nan, 30.0])) == pytest.approx(30.0)
    assert math.isnan(samples_per_s(epochs.assign(samples_per_s=math.nan)))
    # Printed rates stand for a sample each: 2 samples in 1/10 + 1/30 s.
    assert samples_per_s(make_epochs([1.0, 1 / 10, 1 / 30]).assign(samples_per_s=[1.0, 10.0, 30.0])) == pytest.approx(15.0)


def test_validation_epoch_counts_validating_epochs_but_never_the_first():
    epochs = make_epochs([9.0, 1.0, 2.0, 3.0], [5.0, 0.5, None, 0.7])
    assert validation_epoch_s(epochs) == pytest.approx((1.5 + 3.7) / 2)
    several = make_epochs([9.0, 1.0, 2.0, 6.0], [5.0, 0.5, 0.5, 0.5])
    assert validation_epoch_s(several) == pytest.approx((1.5 + 2.5 + 6.5) / 3)
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
    assert [summary.validation_share for summary in summaries] == [0.5, 0.5]
    difference = compare_summaries(*summaries, names=("a", "b"))
    epochs = [make_epochs([train_s] * 6, [None, more_s] * 3) for train_s, more_s in ((1.48, 0.22), (1.08, 0.18))]
    assert [difference.epoch_a_s, difference.epoch_b_s] == pytest.approx([1.59, 1.17])
    assert [epoch_s(one) for one in epochs] == pytest.approx([1.59, 1.17])


def test_the_first_epoch_of_each_process_warms_up():
    # A second process began with epoch 5; intervals end with epochs 2, 4, 6 and 8.
    epochs = make_epochs([9.0, 1.0, 2.0, 2.0, 8.0, 3.0, 4.0, 5.0], [None, 0.1, None, 0.1, None, 0.1, None, 0.1])
    assert training_epoch_s(epochs, warm_ups={1, 5}) == pytest.approx(17 / 6)  # of 1 2 2 3 4 5
    assert epoch_s(epochs, warm_ups={1, 5}) == pytest.approx((2.0 + 2.1 + 4.0 + 5.1) / 4)
    every = make_epochs([9.0, 1.0, 8.0, 3.0], [0.5, 0.5, 0.5, 0.7])
    assert validation_epoch_s(every, warm_ups={1, 3}) == pytest.approx((1.5 + 3.7) / 2)


def test_where_too_little_remains_beside_the_warm_ups_all_counts_as_it_does_of_one_process():
    epochs = make_epochs([9.0, 1.0, 8.0], [None, 0.5, 0.5])
    assert training_epoch_s(epochs, warm_ups={1, 3}) == pytest.approx((9.0 + 1.0 + 8.0) / 3)
    assert epoch_s(epochs, warm_ups={1, 3}) == pytest.approx((9.0 + 1.5 + 8.5) / 3)
    assert validation_epoch_s(epochs, warm_ups={1, 2, 3}) is None


def test_epochs_to_quality_is_the_first_validation_that_reaches_it():
    run = read_example().runs[0]
    rising = replace(run, epochs=make_epochs([1.0] * 6, [None, 0.5] * 3, [None, 0.80, None, 0.95, None, 0.90]))
    assert [epochs_to_quality(rising, target) for target in (0.80, 0.94, 0.96)] == [2, 4, None]
    falling = replace(
        rising,
        quality=Quality(better="lower"),
        epochs=make_epochs([1.0] * 6, [None, 0.5] * 3, [None, 31.0, None, 12.0, None, 14.0]),
    )
    assert [epochs_to_quality(falling, target) for target in (31.0, 12.5, 11.0)] == [2, 4, None]


def test_time_to_dice_sums_training_and_validation_up_to_that_epoch():
    # The fast variant's first run: training 2.08 s, then 1.08 s an epoch; every second one 0.18 s of validation; Dice 0.08 more
    # an epoch.
    run = next(run for run in read_example().runs if run.run.variant == "fast")
    # Its first step took 1.1 s; 28 s passed before the first epoch.
    assert measure_run(run, "time_to_quality_s", target=0.3) == pytest.approx(2.08 + 3 * 1.08 + 2 * 0.18 - 1.1)
    assert measure_run(run, "process_to_quality_s", target=0.3) == pytest.approx(28 + 2.08 + 3 * 1.08 + 2 * 0.18)
    assert measure_run(run, "epochs_to_quality", target=0.3) == 4
    assert measure_run(run, "time_to_quality_s", target=0.94) is None


def test_a_continued_run_has_each_epoch_once_no_first_step_and_no_time_from_a_process_start():
    run = next(run for run in read_example().runs if run.run.variant == "fast")
    part = Part(first_epoch=4, reason="received SIGTERM", start_up_s=30.0, cache_fill_s=24.0, warm_up_s=0.5)
    continued = replace(run, run=run.run.model_copy(update={"continued": [part]}))
    # Epoch 1 took a second more; epochs 3 and 4 are the interval in which the second process warmed up.
    slower = run.epochs.assign(train_s=run.epochs["train_s"].where(run.epochs["epoch"] != 4, 50.0))
    assert measure_run(replace(continued, epochs=slower), "epoch_s") == pytest.approx(1.08 + 0.18 / 2)
    assert measure_run(replace(continued, epochs=slower), "validation_epoch_s") == pytest.approx(1.08 + 0.18)
    assert measure_run(replace(continued, epochs=slower), "training_epoch_s") == pytest.approx(1.08)
    # Dice 0.3 is reached in epoch 4, of which 0.5 s are the second process' first step; 0.16 in epoch 2, before it began.
    assert measure_run(continued, "time_to_quality_s", target=0.3) == pytest.approx(2.08 + 3 * 1.08 + 2 * 0.18 - 1.1 - 0.5)
    assert measure_run(continued, "time_to_quality_s", target=0.16) == pytest.approx(2.08 + 1.08 + 0.18 - 1.1)
    assert measure_run(continued, "epochs_to_quality", target=0.3) == 4
    assert measure_run(continued, "process_to_quality_s", target=0.3) is None
    assert measure_run(continued, "process_s") is None


def test_gpu_busy_is_the_mean_over_time_after_the_first_epoch():
    # Fast: busy 0.8 of (1.08 - 0.04) s training, in epochs that validate also 0.8 × 0.6 of 0.18 s. After the first epoch there
    # are two epochs without and three with validation.
    busy_s, validation_busy_s = 0.8 * 1.04, 0.8 * 0.6 * 0.18
    expected = (5 * busy_s + 3 * validation_busy_s) / (5 * 1.08 + 3 * 0.18)
    assert gpu_busy_fraction(example_summary("fast", Example(), "1")) == pytest.approx(expected)
    assert gpu_busy_fraction(example_summary("fast", CPU_EXAMPLE, "1")) is None


def test_without_a_cache_there_is_no_time_to_fill_it():
    run = read_example().runs[0]
    assert measure_run(run, "cache_fill_s") == 25.0
    uncached = replace(run, run=run.run.model_copy(update={"cache_fill_s": 0.0}), summary=None)
    assert measure_run(uncached, "cache_fill_s") is None


def test_the_memory_of_a_cached_set_is_what_the_run_told():
    run = read_example().runs[0]
    assert measure_run(run, "cache_gb") == 7.9
    assert measure_run(replace(run, run=run.run.model_copy(update={"cache_bytes": None})), "cache_gb") is None


def test_a_metric_of_the_way_to_a_quality_without_its_target_is_a_mistake_of_the_caller():
    run = read_example().runs[0]
    with pytest.raises(ValueError, match="quality to reach"):
        measure_run(run, "epochs_to_quality")


def test_every_metric_has_a_rule_and_a_file_that_a_run_leaves():
    runs = [run for example in (Example(), CPU_EXAMPLE) for run in read_example(example).runs]
    for name, metric in METRICS.items():
        run = next(run for run in runs if measure_run(run, name, target=0.1) is not None)
        assert all((run.results / run.file(file)).exists() for file in metric.files)


def test_a_metric_is_measured_in_its_modes_alone():
    run = next(run for run in read_example().runs if run.summary)
    assert measure_run(run, "epochs_to_quality", target=0.1) is None
    assert measure_run(run, "training_epoch_s") == pytest.approx(1.48 * 1.05)


def test_peak_memory_is_the_fullest_epochs_and_named_for_the_device():
    on_gpu = next(run for run in read_example().runs if run.run.mode == "timed")
    fuller = replace(on_gpu, epochs=on_gpu.epochs.assign(peak_memory_mib=[9500.0, 9000.0, 9001.5, 9000.0, 9000.0, 9000.0]))
    assert (measure_run(fuller, "peak_memory_mib"), measure_run(fuller, "peak_resident_mib")) == (9500.0, None)
    on_cpu = next(run for run in read_example(CPU_EXAMPLE).runs if run.run.mode == "timed")
    assert (measure_run(on_cpu, "peak_memory_mib"), measure_run(on_cpu, "peak_resident_mib")) == (None, 9000.0)
    untold = replace(on_gpu, epochs=on_gpu.epochs.assign(peak_memory_mib=float("nan")))
    assert measure_run(untold, "peak_memory_mib") is None


def test_samples_a_second_and_the_totals_of_a_run():
    # Fast: 128 samples in 1.08 s; six epochs, a second more for the first; three validations; a fill of 24 s.
    run = next(run for run in read_example().runs if run.run.variant == "fast")
    total_s = 6 * 1.08 + 1 + 3 * 0.18
    assert measure_run(run, "samples_per_s") == pytest.approx(128 / 1.08)
    assert measure_run(run, "all_epochs_s") == pytest.approx(total_s)
    assert measure_run(run, "fill_and_epochs_s") == pytest.approx(24 + total_s)
    part = Part(first_epoch=4, reason="received SIGTERM", start_up_s=30.0, cache_fill_s=24.0, warm_up_s=0.5)
    continued = replace(run, run=run.run.model_copy(update={"continued": [part]}))
    assert measure_run(continued, "all_epochs_s") == pytest.approx(total_s)
    assert measure_run(continued, "fill_and_epochs_s") is None


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_adding_a_metric_touches_one_place(tmp_path, monkeypatch, better):
    """What is registered stands in the comparison, the report, on the terminal and in claims."""
    losses = Metric(
        "final loss", "nats", ("epochs.csv",), "loss of the last epoch", lambda run: 0.5 * run.run.epochs, better, further=True
    )
    monkeypatch.setitem(METRICS, "final_loss", losses)
    results = write_example(tmp_path / "results", Example(modes=("timed",), synthetic=False))
    claims = yaml.safe_load(CLAIMS.read_text(encoding="utf-8"))
    claims["claims"] = [
        claims["claims"][0]
        | {
            "id": "loss",
            "unit": "nats",
            "quantity": {"metric": "final_loss", "variant": "fast"},
            "stated": {"comparator": "exactly", "value": "3"},
        }
    ]
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump(claims, allow_unicode=True), encoding="utf-8")
    write_comparison(compare_experiments(results, tmp_path / "claims.yaml"), results)
    comparison = read_comparison(results / COMPARISON_FILE)
    assert {row.variant: row.centre for row in comparison.measured if row.metric == "final_loss"} == {
        "baseline": 3.0,
        "fast": 3.0,
    }
    ratio = next(row for row in comparison.ratios if row.metric == "final_loss")
    assert (ratio.reference, ratio.candidate) == (("baseline", "fast") if better == "lower" else ("fast", "baseline"))
    assert [claim.verdict for claim in comparison.claims] == ["reproduced"]
    row = ["final loss", "MONAI fast script", "3.00\N{NO-BREAK SPACE}nats", "3.00–3.00\N{NO-BREAK SPACE}nats", "6"]
    assert [cells[:5] for cells in list_further(Findings(comparison)) if cells[0] == "final loss"][1] == row
    assert not any("final loss" in cells for cells in [*list_levels(Findings(comparison)), *list_ratios(Findings(comparison))])
    compose_figures(results)
    write_report(results, results / "report.md")
    report = (results / "report.md").read_text(encoding="utf-8")
    assert f"| {' | '.join(row)} |".replace("\N{NO-BREAK SPACE}", " ") + " 1.00× (1.00–1.00×: equivalent) |" in report
    assert "| final loss | loss of the last epoch | epochs.csv |" in report
    print_metrics(Findings(comparison), console := Console(record=True, width=200))
    assert "final loss" in console.export_text()


def test_an_entry_alone_puts_a_metric_into_headlines_sentences_and_options(tmp_path, monkeypatch):
    """Nothing but the entry knows its verb, its place among headlines, and that `--metric` takes it."""
    of_steps = Metric(
        "step",
        "s",
        ("epochs.csv",),
        "the training epoch / 4",
        lambda run: training_epoch_s(run.epochs) / 4,
        verb="makes a step",
        headline=-1,
        judged=True,
        in_containers=True,
    )
    with pytest.raises(ValidationError, match="metric: 'step_s' is not one of training_epoch_s, "):
        ProofRequest.model_validate({"commands": ["a", "b"], "metric": "step_s"})
    monkeypatch.setitem(METRICS, "step_s", of_steps)
    assert ProofRequest.model_validate({"commands": ["a", "b"], "metric": "step_s"}).metric == "step_s"
    comparison = compare_experiments(write_example(tmp_path, Example(modes=("timed",))), CLAIMS)
    step, epoch = (next(one for one in comparison.ratios if one.metric == name) for name in ("step_s", "training_epoch_s"))
    assert (step.centre, step.quality, step.work) == (pytest.approx(epoch.centre), epoch.quality, epoch.work)
    assert [ratio.metric for ratio in list_headline_ratios(comparison)] == ["step_s"]
    assert "makes a step" in "".join(describe_main(Reader(comparison).read(step)))


# They are also what columns, keys or fields are called.
SHARED_NAMES = {
    "epoch_s",
    "first_epoch_s",
    "process_s",
    "samples_per_s",
    "cache_fill_s",
    "peak_memory_mib",
    "gpu_busy_fraction",
}


def test_a_metric_is_named_in_the_module_of_the_entries_alone():
    package = Path(speedproof.__file__).parent
    named = {
        (path.relative_to(package).as_posix(), node.value)
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in METRICS.keys() - SHARED_NAMES
    }
    assert {path for path, _ in named} == {"stats/metrics.py"}


def test_a_comparison_that_names_a_metric_without_a_word_on_it_is_refused(tmp_path):
    results = write_example(tmp_path, Example(modes=("timed",), experiments=1, rounds=3))
    comparison = compare_experiments(results, CLAIMS)
    del comparison.metrics["epoch_s"]
    write_comparison(comparison, results)
    with pytest.raises(RecordError, match="metrics: lacks the metric epoch_s"):
        read_comparison(results / COMPARISON_FILE)
