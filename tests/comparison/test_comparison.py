import json
from statistics import median

import pandas as pd
import pytest

from speedproof.analysis.comparison import compare_blocks, write_comparison
from speedproof.errors import RecordError
from speedproof.numbers import format_ratio, format_value
from speedproof.records.comparison import COMPARISON_FILE, read_comparison
from speedproof.report.findings import describe_ratio_claims
from speedproof.report.headlines import describe_speedups
from speedproof.report.tables import list_ways_to_quality
from tests.report.example import CLAIMS, CPU_EXAMPLE, Example, rule_with, vouch_again, write_example


def compare(tmp_path, example=None):
    return compare_blocks(write_example(tmp_path, example), CLAIMS)


def find_ratio(comparison, metric, arm="timed"):
    return next(ratio for ratio in comparison.ratios if (ratio.metric, ratio.arm) == (metric, arm))


def test_ratios_are_formed_of_the_runs_of_a_seed_and_merged_over_blocks(tmp_path):
    # Three pairs in each of two blocks: 1.48 / 1.08 times 1, 1.01 / 0.99 and 0.99 / 1.02.
    ratio = find_ratio(compare(tmp_path), "training_epoch_s")
    assert (ratio.numerator, ratio.denominator, ratio.pairs) == ("baseline", "fast", 6)
    assert ratio.median == pytest.approx(1.48 / 1.08)
    assert ratio.low is not None and ratio.high is not None
    assert 1.48 * 0.99 / (1.08 * 1.02) < ratio.low < ratio.median < ratio.high < 1.48 * 1.01 / (1.08 * 0.99) + 0.001
    assert ratio.claimed


def test_a_verdict_on_one_pair_of_runs_says_so(tmp_path):
    """Profiled runs are compared with profiled claims: here one a side, in one block and in two."""
    for blocks, evidence in (
        (1, "1.37× (1 pair, profiled arm; one pair, so no interval)"),
        (2, "1.37× (2 pairs, profiled arm)"),
    ):
        first, *_ = describe_ratio_claims(compare(tmp_path / str(blocks), Example(blocks=blocks)))
        assert first.endswith(f"on one V100 of a DGX-2, measured {evidence}: not reproduced")


def test_any_two_sides_are_compared_that_the_block_names(tmp_path):
    sides = ("baseline", "cached", "fast")
    rule = rule_with(targets=[0.2])
    comparison = compare(tmp_path, Example(variants=sides, pairs=(("cached", "fast"),), arms=("timed",), quality=rule))
    ratios = {(r.numerator, r.denominator): r.median for r in comparison.ratios if r.metric == "training_epoch_s"}
    assert list(ratios) == [("baseline", "cached"), ("baseline", "fast"), ("cached", "fast")]
    assert ratios["cached", "fast"] == pytest.approx(1.30 / 1.08)
    sentences = [sentence for sentence in describe_speedups(comparison) if sentence.startswith("training epoch")]
    assert len(sentences) == 3
    assert f"is {format_value(1.30 / 1.08, '×')} as fast as" in sentences[-1]
    # On the way to a Dice each side stands beside the first one.
    to_dice = {r.denominator: r for r in comparison.ratios if (r.metric, r.numerator) == ("process_to_quality_s", "baseline")}
    (fast,) = (row for row in list_ways_to_quality(comparison) if row[1] == comparison.variants["fast"])
    found = to_dice["fast"]
    assert fast[-1] == "{} ({})".format(*format_ratio(found.median, found.low, found.high))


def test_a_single_pair_claims_nothing(tmp_path):
    ratio = find_ratio(compare(tmp_path, Example(blocks=1, repeats=1)), "training_epoch_s")
    assert (ratio.pairs, ratio.low, ratio.high, ratio.claimed) == (1, None, None, False)


def test_sides_that_differ_by_less_than_their_spread_are_not_told_apart(tmp_path):
    same = Example(epoch_s=(("baseline", 1.08), ("fast", 1.08)))
    ratio = find_ratio(compare(tmp_path, same), "training_epoch_s")
    assert ratio.low is not None and ratio.high is not None
    assert ratio.low < 1 < ratio.high
    assert not ratio.claimed


def test_every_level_can_be_computed_again_from_the_files_that_it_names(tmp_path):
    for measured in compare(tmp_path).measured:
        if measured.metric == "training_epoch_s":
            tables = [pd.read_csv(tmp_path / name) for name in measured.origin.files if name.endswith(".csv")]
            assert median(table["train_s"][1:].median() for table in tables) == measured.median
        if measured.metric in {"cache_fill_s", "process_s"}:
            records = [json.loads((tmp_path / name).read_text()) for name in measured.origin.files]
            assert median(record[measured.metric] for record in records) == measured.median
        assert all((tmp_path / name).is_file() for name in measured.origin.files)


def test_overhead_is_profiled_over_timed(tmp_path):
    overheads = compare(tmp_path, Example(arms=("timed", "profiled", "documented"))).overheads
    found = {(overhead.variant, overhead.arm): overhead.ratio for overhead in overheads}
    assert found[("baseline", "profiled")] == pytest.approx(1.05)
    assert found[("fast", "documented")] == pytest.approx(1.3)


def test_an_overhead_is_that_of_runs_of_a_block_which_differ_in_the_profiler_alone(tmp_path):
    write_example(tmp_path)
    for path in tmp_path.glob("blocks/*/runs/*/run.json"):
        run = json.loads(path.read_text())
        if run["variant"] == "fast" and run["arm"] == ("timed" if "block-1" in str(path) else "profiled"):
            run["outcome"] = "failed"
        if run["variant"] == "baseline" and run["arm"] == "profiled":
            run["conditions"]["cores"] = 8
        path.write_text(json.dumps(run))
    assert compare_blocks(vouch_again(tmp_path), CLAIMS).overheads == []


def test_a_run_that_broke_off_counts_in_no_number_and_is_named(tmp_path):
    comparison = compare(tmp_path, Example(blocks=1, outcome="out_of_memory"))
    assert find_ratio(comparison, "training_epoch_s").pairs == 2
    assert any("06-fast-timed ended as out_of_memory" in warning for warning in comparison.warnings)


def test_blocks_on_different_gpus_are_warned_about(tmp_path):
    write_example(tmp_path)
    path = tmp_path / "blocks" / "block-2" / "block.json"
    block = json.loads(path.read_text())
    block["conditions"]["gpu"]["uuid"] = "GPU-2"
    path.write_text(json.dumps(block))
    assert "block-2 ran under another gpu.uuid than block-1" in compare_blocks(tmp_path, CLAIMS).warnings


def test_a_profiled_run_without_analysis_is_warned_about(tmp_path):
    write_example(tmp_path, CPU_EXAMPLE)
    (tmp_path / "analysis" / "block-1" / "08-fast-profiled" / "summary.json").unlink()
    assert any("08-fast-profiled was profiled but not analysed" in w for w in compare_blocks(tmp_path, CLAIMS).warnings)


def test_the_first_configured_variant_is_the_reference(tmp_path):
    comparison = compare(tmp_path, Example(variants=("fast", "baseline")))
    assert list(comparison.variants) == ["fast", "baseline"]
    assert find_ratio(comparison, "training_epoch_s").median == pytest.approx(1.08 / 1.48)


def test_a_comparison_is_written_and_read_back_the_same(tmp_path):
    comparison = compare(tmp_path)
    write_comparison(comparison, tmp_path)
    first = (tmp_path / COMPARISON_FILE).read_bytes()
    assert read_comparison(tmp_path / COMPARISON_FILE) == comparison
    write_comparison(compare_blocks(tmp_path, CLAIMS), tmp_path)
    assert (tmp_path / COMPARISON_FILE).read_bytes() == first


def test_no_finished_block_is_one_clear_line(tmp_path):
    with pytest.raises(RecordError, match="no finished block"):
        compare_blocks(tmp_path, CLAIMS)


def test_a_start_that_the_system_told_is_warned_about(tmp_path):
    write_example(tmp_path)
    assert not any("start of a process" in warning for warning in compare_blocks(tmp_path, CLAIMS).warnings)
    path = next(tmp_path.glob("blocks/block-1/runs/*-fast-timed/run.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"clock": "system"}))
    (warning,) = [
        warning for warning in compare_blocks(vouch_again(tmp_path), CLAIMS).warnings if "start of a process" in warning
    ]
    assert "up to 1 s too long" in warning
