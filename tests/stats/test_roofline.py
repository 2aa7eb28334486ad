import json

import pytest

from speedproof.report.markdown import write_report
from speedproof.stats.compare import compare_experiments, write_comparison
from tests.report.example import CLAIMS, Example, compare_example, vouch_again, write_example


def count_work(results):
    """Let an example's runs have counted 74 TFLOP and 1.48 TB an epoch, on a GPU of 500 TFLOP/s and 4 TB/s."""
    for path in results.glob("experiments/*/runs/*-timed/run.json"):
        run = json.loads(path.read_text())
        run["work"] = {"flop_per_epoch": 74e12, "bytes_per_epoch": 1.48e12}
        run["rates"] = {"flop_per_s": 500e12, "bytes_per_s": 4e12}
        path.write_text(json.dumps(run))
    return vouch_again(results)


@pytest.fixture
def counted(tmp_path):
    return count_work(write_example(tmp_path / "results", Example()))


def test_an_epoch_is_compared_with_the_larger_of_two_bounds(counted):
    baseline, fast = compare_experiments(counted, CLAIMS).roofline
    assert (baseline.arithmetic_s, baseline.traffic_s) == pytest.approx((0.148, 0.37))
    assert baseline.measured_s == pytest.approx(1.48)
    assert baseline.share == pytest.approx(0.25)
    assert fast.share == pytest.approx(0.37 / 1.08)


def test_the_epoch_is_that_of_the_other_tables(tmp_path):
    comparison = compare_experiments(count_work(write_example(tmp_path, Example(experiments=1, rounds=5))), CLAIMS)
    levels = {row.variant: row.centre for row in comparison.measured if (row.metric, row.mode) == ("training_epoch_s", "timed")}
    assert {point.variant: point.measured_s for point in comparison.roofline} == pytest.approx(levels)


def test_runs_that_counted_nothing_have_no_bound():
    assert compare_example(Example()).roofline == []


def test_the_report_shows_the_bound(counted, tmp_path):
    write_comparison(compare_experiments(counted, CLAIMS), counted)
    write_report(counted, tmp_path / "report.md")
    report = (tmp_path / "report.md").read_text()
    assert "| MONAI baseline script | 74.00 TFLOP | 1480.0 GB | 0.148 s | 0.370 s | 1.48 s | 25 % |" in report.replace(
        "\xa0", " "
    )
