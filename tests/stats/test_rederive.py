"""Every number of `comparison.json`, computed again from the files that it names: by csv, json, statistics and scipy alone."""

import csv
import json
import math
import shutil
from itertools import groupby
from statistics import fmean, geometric_mean, median

import pytest
import yaml
from scipy import integrate, interpolate, stats

from speedproof.report.markdown import write_report
from speedproof.results.comparison import COMPARISON_FILE
from speedproof.results.experiment import PreparedFolder
from speedproof.stats.compare import compare_experiments, write_comparison
from tests.report.example import CLAIMS, Example, rule_with, write_example

pytestmark = pytest.mark.xdist_group("rederive")

EXAMPLE = Example(
    experiments=2,
    rounds=4,
    modes=("timed", "profiled", "documented"),
    control=True,
    ablation=("baseline", "cached", "fast"),
    quality=rule_with(targets=[0.2, 0.3, 0.49]),
    prepared=(PreparedFolder(variant="fast", seconds=40.0, volumes=41, from_store=0),),
    throttle_reasons="power cap",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = write_example(tmp_path_factory.mktemp("rederive") / "results", EXAMPLE)
    write_comparison(compare_experiments(folder, CLAIMS), folder)
    return folder


@pytest.fixture(scope="module")
def comparison(results):
    return json.loads((results / COMPARISON_FILE).read_text())


def number(text):
    return float(text) if text else None


def read_epochs(folder):
    with (folder / "epochs.csv").open() as file:
        return [{key: number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def whole_epoch_s(epoch):
    return epoch["train_s"] + (epoch["validation_s"] or 0)


def integrate_samples(folder, column, begin, end):
    with (folder / "gpu.csv").open() as file:
        samples = [(float(row["time_s"]), float(row[column])) for row in csv.DictReader(file)]
    line = interpolate.make_interp_spline(*zip(*samples, strict=True), k=1)
    at_s = [begin, *(time_s for time_s, _ in samples if begin < time_s < end), end]
    return integrate.trapezoid([line(min(time_s, samples[-1][0])) for time_s in at_s], at_s)


def value_of(results, file, metric, target):
    """A run's value of a metric, from the files in the folder of `file`."""
    folder = (results / file).parent
    if metric == "gpu_busy_fraction":
        later = json.loads((results / file).read_text())["epochs"][1:]
        return sum(e["gpu_busy_fraction"] * e["duration_s"] for e in later) / sum(e["duration_s"] for e in later)
    run, epochs = json.loads((folder / "run.json").read_text()), read_epochs(folder)
    if metric in ("cache_fill_s", "process_s"):
        return run[metric]
    if metric in ("energy_per_epoch_j", "gpu_busy_sampled_fraction"):
        begin = run["start_up_s"] + sum(map(whole_epoch_s, epochs[:2]))
        end = begin + sum(map(whole_epoch_s, epochs[2:]))
        if metric == "energy_per_epoch_j":
            return integrate_samples(folder, "power_w", begin, end) / len(epochs[2:])
        return integrate_samples(folder, "gpu_busy_percent", begin, end) / 100 / (end - begin)
    if target is not None:
        reached = next(n for n, epoch in enumerate(epochs, 1) if (epoch["quality"] or 0) >= target)
        clock_s = sum(map(whole_epoch_s, epochs[:reached]))
        return {
            "epochs_to_quality": reached,
            "time_to_quality_s": clock_s - run["warm_up_s"],
            "process_to_quality_s": run["start_up_s"] + clock_s,
        }[metric]
    return {
        "first_epoch_s": epochs[0]["train_s"],
        "training_epoch_s": fmean(epoch["train_s"] for epoch in epochs[1:]),
        "validation_epoch_s": fmean(whole_epoch_s(epoch) for epoch in epochs[1:] if epoch["validation_s"]),
        "epoch_s": fmean(whole_epoch_s(epoch) for epoch in epochs[2:]),  # every second epoch validates
        "samples_per_s": sum(epoch["samples_per_s"] * epoch["train_s"] for epoch in epochs[1:])
        / sum(epoch["train_s"] for epoch in epochs[1:]),
        "all_epochs_s": sum(map(whole_epoch_s, epochs)),
        "cache_gb": run["cache_bytes"] / 1e9,
        "fill_and_epochs_s": run["cache_fill_s"] + sum(map(whole_epoch_s, epochs)),
        "peak_memory_mib": max(epoch["peak_memory_mib"] for epoch in epochs),
    }[metric]


def runs_of(row):
    """One file of each run that a number names, in order."""
    return [next(files) for _, files in groupby(row["origin"]["files"], key=lambda file: file.rsplit("/", 1)[0])]


def pairs_of(results, row):
    """The pairs of values behind a ratio, by experiment."""
    values = [(file.split("/")[1], value_of(results, file, row["metric"], row.get("target"))) for file in runs_of(row)]
    pairs = [(experiment, above / below) for (experiment, above), (_, below) in zip(values[::2], values[1::2], strict=True)]
    return {experiment: [ratio for _, ratio in group] for experiment, group in groupby(pairs, key=lambda pair: pair[0])}


def interval(logs):
    if len(set(logs)) == 1:
        return logs[0], logs[0]
    return tuple(stats.ttest_1samp(logs, 0).confidence_interval(0.95))


def check_ratio(results, row):
    experiments = pairs_of(results, row)
    ratios = [ratio for experiment in experiments.values() for ratio in experiment]
    assert list(experiments) == [row["experiment"]] and row["scope"] == "here"
    assert row["centre"] == pytest.approx(geometric_mean(ratios))
    assert row["pairs"] == len(ratios)
    if len(ratios) == 1:
        assert (row["low"], row["high"]) == (None, None)
    else:
        ends = interval([math.log(ratio) for ratio in ratios])
        assert (math.log(row["low"]), math.log(row["high"])) == pytest.approx(ends, abs=1e-6)
    return ratios


def best_quality(results, row, variant, mode, over=fmean):
    runs = [
        json.loads(path.read_text())
        for path in results.glob(f"experiments/{row['experiment']}/runs/*-{variant}-{mode}/run.json")
    ]
    return pytest.approx(over(run["best_quality"] for run in runs))


def test_levels(results, comparison):
    assert {row["metric"] for row in comparison["measured"]} >= {
        "training_epoch_s",
        "gpu_busy_fraction",
        "process_to_quality_s",
    }
    for row in comparison["measured"]:
        values = [value_of(results, file, row["metric"], row["target"]) for file in runs_of(row)]
        assert row["values"] == pytest.approx(values)
        if row["metric"] in ("gpu_busy_fraction", "gpu_busy_sampled_fraction"):
            ends = None if len(values) < 2 else [min(max(end, 0), 1) for end in interval(values)]
            centre = fmean(values)
        else:
            ends = None if len(values) < 2 else [math.exp(end) for end in interval([math.log(value) for value in values])]
            centre = geometric_mean(values)
        assert row["centre"] == pytest.approx(centre)
        assert [row["low"], row["high"]] == (pytest.approx(ends) if ends else [None, None])


def test_ratios_their_intervals_and_their_quality(results, comparison):
    assert {row["target"] for row in comparison["ratios"]} == {None, 0.2, 0.3}
    for row in comparison["ratios"]:
        check_ratio(results, row)
        if row["quality"]:
            for variant in ("reference", "candidate"):
                assert row["quality"][f"{variant}_quality"] == best_quality(results, row, row[variant], row["mode"])
        decided = row["pairs"] >= 4 and not row["low"] <= 1 <= row["high"]
        same = row["pairs"] >= 4 and row["low"] >= 1 / 1.02 and row["high"] <= 1.02
        assert row["claimed"] == (decided and not same)


def test_the_noise_floor(results, comparison):
    assert comparison["noise_floor"]
    for row in comparison["noise_floor"]:
        ratios = check_ratio(results, row)
        assert row["largest"] == pytest.approx(max(abs(math.expm1(abs(math.log(ratio)))) for ratio in ratios))
        assert all("-control/" in file for file in runs_of(row)[1::2])


def test_the_ablation(results, comparison):
    assert len(comparison["ablation"]) == 6
    for (first, *others), whole in zip(
        (comparison["ablation"][:3], comparison["ablation"][3:]), comparison["ablation_whole"], strict=True
    ):
        for row in others:
            check_ratio(results, row)
            assert row["best_quality"] == best_quality(results, row, row["variant"], "timed", over=median)
        files = results.glob(f"experiments/{first['experiment']}/runs/*-{first['variant']}-timed/epochs.csv")
        assert first["level"] == pytest.approx(
            geometric_mean(value_of(results, file.relative_to(results), "training_epoch_s", None) for file in files)
        )
        check_ratio(results, whole)
        assert whole["product"] == pytest.approx(others[0]["centre"] * others[1]["centre"])
        assert whole["product"] == pytest.approx(whole["centre"])
        assert whole["interaction"] == pytest.approx(whole["centre"] / whole["product"])


def test_overheads(results, comparison):
    assert len(comparison["overheads"]) == 8
    for row in comparison["overheads"]:
        experiments = pairs_of(results, row | {"metric": "training_epoch_s", "target": None})
        assert row["ratio"] == pytest.approx(
            geometric_mean(ratio for experiment in experiments.values() for ratio in experiment)
        )
        assert all("-timed/" in file for file in runs_of(row)[1::2])


def test_reached_targets(results, comparison):
    for row in comparison["reached"]:
        best = [max(epoch["quality"] or 0 for epoch in read_epochs((results / f).parent)) for f in runs_of(row)]
        assert (row["runs"], row["reached"]) == (len(best), sum(score >= row["target"] for score in best))
    assert {row["reached"] for row in comparison["reached"]} == {0, 2, 4}


def test_prepared_variants(results, comparison):
    assert [(row["experiment"], row["seconds"], row["from_store"]) for row in comparison["prepared"]] == [
        ("experiment-1", 40.0, 0),
        ("experiment-2", 5.0, 41),
    ]
    for row in comparison["prepared"]:
        (file,) = row["origin"]["files"]
        (filled,) = json.loads((results / file).read_text())["prepared"]
        assert filled == {key: row[key] for key in ("variant", "seconds", "volumes", "from_store")}


def test_unreached_targets(results, comparison):
    (row,) = comparison["unreached"]
    counted = {"baseline": 0, "fast": 0}
    for file in runs_of(row):
        best = max(epoch["quality"] or 0 for epoch in read_epochs((results / file).parent))
        counted["fast" if "-fast-" in file else "baseline"] += best >= row["target"]
    assert (row["reference_reached"], row["candidate_reached"]) == (counted["baseline"], counted["fast"])


def test_throttled_runs(results, comparison):
    assert comparison["throttled"]
    for row in comparison["throttled"]:
        with (results / row["origin"]["files"][0]).open() as file:
            reasons = [sample["throttle_reasons"] for sample in csv.DictReader(file)]
        assert row["share"] == reasons.count("power cap") / (len(reasons) - reasons.count("gpu idle"))


def test_claims(results, comparison):
    documented = {claim["id"]: claim for claim in yaml.safe_load(CLAIMS.read_text())["claims"]}
    measured = [row for row in comparison["claims"] if row["measured"] is not None]
    assert len(measured) == 10
    for row in measured:
        quantity = documented[row["id"]]["quantity"]
        again = row | {"metric": quantity["metric"], "target": quantity.get("target")}
        if "variant" in quantity:
            found = geometric_mean(value_of(results, file, again["metric"], again["target"]) for file in runs_of(row))
        else:
            found = geometric_mean(ratio for experiment in pairs_of(results, again).values() for ratio in experiment)
        assert row["measured"] == pytest.approx(found)


def test_the_whole_report_comes_from_the_records_alone(results, tmp_path):
    """Nothing but experiments/ and analysis/ is kept; comparison and report are made again, byte for byte.

    So are figures and page, in `tests/report`.
    """
    copy = tmp_path / "copy"
    for part in ("experiments", "analysis"):
        shutil.copytree(results / part, copy / part)
    write_comparison(compare_experiments(copy, CLAIMS), copy)
    for folder in (results, copy):
        write_report(folder, folder / "report.md")
    for name in (COMPARISON_FILE, "report.md"):
        assert (copy / name).read_bytes() == (results / name).read_bytes()
