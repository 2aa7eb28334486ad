import json
import math
from pathlib import Path
from statistics import geometric_mean

import pandas as pd
import pytest
from scipy import stats

from speedproof.report.headlines import describe_outcome, describe_speedups
from speedproof.report.report_tables import list_ways_to_quality
from speedproof.results.comparison import COMPARISON_FILE, read_comparison
from speedproof.results.comparison_rows import Needed
from speedproof.results.experiment import PlannedRun
from speedproof.results.files import write_json
from speedproof.results.folder import read_results
from speedproof.results.run_record import NOT_ALONE, RUN_FILE, read_run
from speedproof.stats.claims import judge_claim
from speedproof.stats.claims_file import load_claims
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.stats.found_tables import Findings
from speedproof.stats.main_ratios import list_judged
from speedproof.stats.stated_number import StatedNumber
from speedproof.util.errors import RecordError
from speedproof.util.numbers import format_ratio, format_value
from tests.report.example import CLAIMS, CPU_EXAMPLE, Example, compare_example, rule_with, vouch_again, write_example


def compare(example=None):
    return compare_example(example)


def find_ratio(comparison, metric, mode="timed"):
    return next(ratio for ratio in comparison.ratios if (ratio.metric, ratio.mode) == (metric, mode))


def test_ratios_are_formed_of_the_runs_of_a_seed():
    # Six pairs: 1.48 / 1.08 times 1, 1.01 / 0.99 and its reciprocal, each twice.
    ratio = find_ratio(compare(), "training_epoch_s")
    assert (ratio.reference, ratio.candidate, ratio.pairs) == ("baseline", "fast", 6)
    assert ratio.centre == pytest.approx(1.48 / 1.08)
    assert ratio.low is not None and ratio.high is not None
    # Logs 0, ± log(1.01 / 0.99) = 0.0200007: deviation 0.0200007 √(4/5), half width t(5) = 2.570582 times that / √6.
    assert math.log(ratio.high / ratio.centre) == pytest.approx(0.0187738, rel=1e-4)
    assert ratio.high / ratio.centre == pytest.approx(ratio.centre / ratio.low)
    assert (ratio.claimed, ratio.outcome, ratio.scope, ratio.experiment, ratio.hosts) == (
        True,
        "faster",
        "here",
        "experiment-1",
        1,
    )


def write_on_hosts(results, hosts, gpu_of_experiment=lambda number: f"GPU-{number}", rounds=2, slower_percent=1, **conditions):
    """The example in so many experiments, an hour apart, each on its own GPU; in the nth the baseline takes n % longer."""
    write_example(results, Example(experiments=hosts, rounds=rounds, modes=("timed",)))
    for number in range(1, hosts + 1):
        folder = results / f"experiments/experiment-{number}"
        for path in [folder / "experiment.json", *folder.glob("runs/*/run.json")]:
            described = json.loads(path.read_text())
            described["conditions"]["gpu"]["uuid"] = gpu_of_experiment(number)
            described["conditions"] |= {key: value(number) for key, value in conditions.items()}
            path.write_text(json.dumps(described))
        for path in folder.glob("runs/*-baseline-*/epochs.csv"):
            epochs = pd.read_csv(path)
            epochs["train_s"] *= 1 + number * slower_percent / 100
            epochs["samples_per_s"] = 128 / epochs["train_s"]
            epochs.to_csv(path, index=False)
    return vouch_again(results)


def test_three_hosts_speak_for_their_model_of_gpu_by_their_means_alone(tmp_path):
    write_on_hosts(tmp_path, 3)
    comparison = compare_experiments(tmp_path, CLAIMS)
    (ratio,) = (row for row in comparison.ratios if row.metric == "training_epoch_s")
    assert (ratio.scope, ratio.experiment, ratio.hosts, ratio.pairs) == ("model", None, 3, 6)
    # In each experiment the pairs' factors are 1 and 1.01 / 0.99; the hosts' 1.01, 1.02 and 1.03.
    logs = [math.log(1.48 / 1.08 * (1 + number / 100)) + math.log(1.01 / 0.99) / 2 for number in (1, 2, 3)]
    interval = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert (math.log(ratio.low), math.log(ratio.high)) == pytest.approx(tuple(interval), abs=1e-6)
    assert any("identified by their GPUs only" in warning for warning in comparison.warnings)
    assert describe_speedups(Findings(comparison))[0].count("on NVIDIA H200 (3 machines)") == 1


@pytest.mark.parametrize(
    ("gpu_of_experiment", "conditions"),
    [
        (lambda number: f"GPU-{max(number, 2)}", {}),  # two experiments on one GPU
        (lambda number: f"GPU-{number}", {"host": lambda number: f"host-{max(number, 2)}"}),  # two GPUs of one host
    ],
)
def test_below_three_hosts_each_experiment_speaks_for_itself(tmp_path, gpu_of_experiment, conditions):
    write_on_hosts(tmp_path, 3, gpu_of_experiment, **conditions)
    ratios = [row for row in compare_experiments(tmp_path, CLAIMS).ratios if row.metric == "training_epoch_s"]
    assert [(row.scope, row.experiment, row.pairs, row.outcome) for row in ratios] == [
        ("here", f"experiment-{number}", 2, "no verdict") for number in (1, 2, 3)
    ]


def test_experiments_that_overlapped_count_as_of_one_host_also_where_the_compared_runs_did_not(tmp_path):
    write_on_hosts(tmp_path, 3)
    path = next(tmp_path.glob("experiments/experiment-2/runs/*-fast-timed/run.json"))
    run = json.loads(path.read_text())
    path.write_text(json.dumps(run | {"started": run["started"].replace("T11:00", "T10:00")}))  # as experiment 1 began
    ratios = [row for row in compare_experiments(vouch_again(tmp_path), CLAIMS).ratios if row.metric == "training_epoch_s"]
    assert [row.scope for row in ratios] == ["here", "here", "here"]


def test_where_experiments_disagree_on_a_claim_one_that_is_inconclusive_is_shown_and_what_would_decide_it(tmp_path):
    # Logs of four pairs: ± 0.0260 (t(3) 3.182, deviation 0.01633) about log(1.48 / 1.08 × 1.01) and × 1.02: to 1.420, 1.435.
    results = read_results(write_on_hosts(tmp_path, 2, rounds=4))
    file = load_claims(CLAIMS)
    claim = next(claim for claim in file.claims if claim.id == "profiling_training_epoch_ratio")
    result = judge_claim(
        claim.model_copy(update={"stated": StatedNumber(comparator="between", low="1.31", high="1.42")}), file, results
    )
    assert (result.verdict, result.measured) == ("inconclusive", pytest.approx(1.48 / 1.08 * 1.02))
    # Of six pairs it would end at e^(0.3349 + 2.571 × 0.01633 / √6) = 1.422: two more pairs, of two runs of a minute each.
    assert result.needed == Needed(pairs=6, minutes=4.0)


def test_where_two_experiments_contradict_each_other_no_more_pairs_decide(tmp_path):
    results = read_results(write_on_hosts(tmp_path, 2, rounds=4, slower_percent=10))
    file = load_claims(CLAIMS)
    claim = next(claim for claim in file.claims if claim.id == "profiling_training_epoch_ratio")
    # Experiment 1 ends at 1.48 / 1.08 × 1.1 × e^0.0260 = 1.547, experiment 2 begins at 1.48 / 1.08 × 1.2 × e^-0.0260 = 1.602.
    result = judge_claim(
        claim.model_copy(update={"stated": StatedNumber(comparator="between", low="1.31", high="1.56")}), file, results
    )
    assert (result.verdict, result.needed) == ("inconclusive", None)
    assert result.by_experiment == {"experiment-1": "reproduced", "experiment-2": "exceeded"}


def test_of_an_odd_number_of_pairs_above_four_the_last_is_left_out():
    ratio = find_ratio(compare(Example(rounds=5, modes=("timed",))), "training_epoch_s")
    assert ratio.pairs == 4
    assert not any("/09-" in name or "/10-" in name for name in ratio.origin.files)


def test_of_an_odd_number_of_pairs_the_one_goes_that_leaves_each_variant_first_equally_often():
    first = ["baseline", "baseline", "fast", "baseline", "fast"]
    order = [
        PlannedRun(variant=name, mode="timed", round=repeat, seed=repeat)
        for repeat, leader in enumerate(first)
        for name in sorted(("baseline", "fast"), reverse=leader == "fast")
    ]
    ratio = find_ratio(compare(Example(order=tuple(order))), "training_epoch_s")
    assert ratio.pairs == 4
    assert {Path(name).parent.name[:2] for name in ratio.origin.files} == {"01", "02", "03", "04", "05", "06", "09", "10"}


def test_a_verdict_on_one_pair_of_runs_says_so():
    """Profiled runs are compared with profiled claims: here one a variant."""
    first, *_ = list_judged(compare(Example()))
    evidence = "1.37× (1 pair, profiled mode, one machine; a verdict needs 4 pairs)"
    assert describe_outcome(first).endswith(f"on one V100 of a DGX-2; measured {evidence}: inconclusive.")


def test_any_two_variants_are_compared_that_the_experiment_names():
    variants = ("baseline", "cached", "fast")
    rule = rule_with(targets=[0.2])
    comparison = compare(Example(variants=variants, pairs=(("cached", "fast"),), modes=("timed",), quality=rule))
    ratios = {(r.reference, r.candidate): r.centre for r in comparison.ratios if r.metric == "training_epoch_s"}
    assert list(ratios) == [("baseline", "cached"), ("baseline", "fast"), ("cached", "fast")]
    assert ratios["cached", "fast"] == pytest.approx(1.30 / 1.08)
    sentences = [sentence for sentence in describe_speedups(Findings(comparison)) if sentence.startswith("training epoch")]
    assert len(sentences) == 3
    assert f"is {format_value(1.30 / 1.08, '×')} as fast as" in sentences[-1]
    # On the way to a Dice each variant stands beside the first one.
    to_dice = {r.candidate: r for r in comparison.ratios if (r.metric, r.reference) == ("process_to_quality_s", "baseline")}
    (fast,) = (row for row in list_ways_to_quality(Findings(comparison)) if row[1] == comparison.variants["fast"])
    found = to_dice["fast"]
    assert fast[-1] == "{} ({})".format(*format_ratio(found.centre, found.low, found.high))


def test_a_single_pair_claims_nothing():
    ratio = find_ratio(compare(Example(experiments=1, rounds=1)), "training_epoch_s")
    assert (ratio.pairs, ratio.low, ratio.high, ratio.claimed) == (1, None, None, False)


def test_variants_that_differ_by_less_than_their_spread_are_not_told_apart():
    same = Example(epoch_s=(("baseline", 1.08), ("fast", 1.08)))
    ratio = find_ratio(compare(same), "training_epoch_s")
    assert ratio.low is not None and ratio.high is not None
    assert ratio.low < 1 < ratio.high
    assert (ratio.outcome, ratio.claimed) == ("equivalent", False)


def test_every_level_can_be_computed_again_from_the_files_that_it_names(tmp_path):
    for measured in compare_experiments(write_example(tmp_path), CLAIMS).measured:
        if measured.metric == "training_epoch_s":
            tables = [pd.read_csv(tmp_path / name) for name in measured.origin.files if name.endswith(".csv")]
            assert geometric_mean(table["train_s"][1:].mean() for table in tables) == pytest.approx(measured.centre)
        if measured.metric in {"cache_fill_s", "process_s"}:
            records = [json.loads((tmp_path / name).read_text()) for name in measured.origin.files]
            assert geometric_mean(record[measured.metric] for record in records) == pytest.approx(measured.centre)
        assert all((tmp_path / name).is_file() for name in measured.origin.files)


def test_overhead_is_profiled_over_timed():
    overheads = compare(Example(modes=("timed", "profiled", "documented"))).overheads
    found = {(overhead.variant, overhead.mode): overhead.ratio for overhead in overheads}
    assert found[("baseline", "profiled")] == pytest.approx(1.05)
    assert found[("fast", "documented")] == pytest.approx(1.3)


def test_an_overhead_is_that_of_runs_of_an_experiment_which_differ_in_the_profiler_alone(tmp_path):
    write_example(tmp_path, Example(experiments=2, rounds=3))
    for path in tmp_path.glob("experiments/*/runs/*/run.json"):
        run = json.loads(path.read_text())
        if run["variant"] == "fast" and run["mode"] == ("timed" if "experiment-1" in str(path) else "profiled"):
            run["outcome"] = "failed"
        if run["variant"] == "baseline" and run["mode"] == "profiled":
            run["conditions"]["cores"] = 8
        path.write_text(json.dumps(run))
    assert compare_experiments(vouch_again(tmp_path), CLAIMS).overheads == []


def test_what_kineto_costs_a_command_is_not_stated_since_it_records_a_part_of_it(tmp_path):
    write_example(tmp_path, Example(experiments=1, rounds=3, profiler="kineto"))
    assert len(compare_experiments(tmp_path, CLAIMS).overheads) == 2
    for path in tmp_path.glob("experiments/*/runs/*/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"case": "programs"}))
    assert compare_experiments(vouch_again(tmp_path), CLAIMS).overheads == []


def test_a_run_that_broke_off_counts_in_no_number_and_is_named():
    comparison = compare(Example(experiments=1, rounds=3, outcome="out_of_memory"))
    assert find_ratio(comparison, "training_epoch_s").pairs == 2
    assert any("06-fast-timed ended as out_of_memory" in warning for warning in comparison.warnings)


def test_experiments_on_different_gpus_are_warned_about(tmp_path):
    write_example(tmp_path, Example(experiments=2, rounds=3))
    path = tmp_path / "experiments" / "experiment-2" / "experiment.json"
    experiment = json.loads(path.read_text())
    experiment["conditions"]["gpu"]["uuid"] = "GPU-2"
    path.write_text(json.dumps(experiment))
    assert "experiment-2 used a different GPU card than experiment-1" in compare_experiments(tmp_path, CLAIMS).warnings


def test_a_warning_of_several_runs_is_listed_once(tmp_path):
    write_example(tmp_path, Example(experiments=1, rounds=2, modes=("timed",)))
    runs = [path.parent for path in sorted(tmp_path.glob("experiments/*/runs/*/run.json"))]
    for number, run in enumerate(runs):
        own = [NOT_ALONE, *(["the disk is slow"] if number < 2 else [])]
        write_json(run / RUN_FILE, read_run(run).model_copy(update={"warnings": own}))
    first, second = (f"experiment-1/{run.name}" for run in runs[:2])
    assert compare_experiments(vouch_again(tmp_path), CLAIMS).warnings[-2:] == [
        f"all {len(runs)} runs: another experiment was running on this machine",
        f"{first}, {second}: the disk is slow",
    ]


def test_a_profiled_run_without_analysis_is_warned_about(tmp_path):
    write_example(tmp_path, CPU_EXAMPLE)
    (tmp_path / "analysis" / "experiment-1" / "08-fast-profiled" / "summary.json").unlink()
    assert any("08-fast-profiled was profiled but not analysed" in w for w in compare_experiments(tmp_path, CLAIMS).warnings)


def test_the_first_configured_variant_is_the_reference():
    comparison = compare(Example(variants=("fast", "baseline")))
    assert list(comparison.variants) == ["fast", "baseline"]
    assert find_ratio(comparison, "training_epoch_s").centre == pytest.approx(1.08 / 1.48)


def test_a_comparison_is_written_and_read_back_the_same(tmp_path):
    comparison = compare_experiments(write_example(tmp_path), CLAIMS)
    write_comparison(comparison, tmp_path)
    first = (tmp_path / COMPARISON_FILE).read_bytes()
    assert read_comparison(tmp_path / COMPARISON_FILE) == comparison
    write_comparison(compare_experiments(tmp_path, CLAIMS), tmp_path)
    assert (tmp_path / COMPARISON_FILE).read_bytes() == first


def test_no_finished_experiment_is_one_clear_line(tmp_path):
    with pytest.raises(RecordError, match="no finished experiment"):
        compare_experiments(tmp_path, CLAIMS)


def test_a_start_that_the_system_told_is_warned_about(tmp_path):
    write_example(tmp_path)
    assert not any("start of a process" in warning for warning in compare_experiments(tmp_path, CLAIMS).warnings)
    path = next(tmp_path.glob("experiments/experiment-1/runs/*-fast-timed/run.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"clock": "system"}))
    (warning,) = [
        warning for warning in compare_experiments(vouch_again(tmp_path), CLAIMS).warnings if "start of a process" in warning
    ]
    assert "up to 1 s too long" in warning
