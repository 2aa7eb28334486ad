"""Variants that do not do the same work in an epoch are marked, and stand apart."""

import json

import pytest

from speedproof.report.headlines import describe_speedups, tabulate_speedups
from speedproof.report.markdown import write_report
from speedproof.report.report_tables import list_ratios
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.stats.found_tables import Findings
from tests.report.example import CLAIMS, Example, rule_with, vouch_again, write_example

VARIANTS = ("baseline", "cached", "fast")


def compare(results, tflop, variants=VARIANTS):
    """Compare the example's variants, whose runs say so many TFLOP an epoch; None: they do not say."""
    write_example(results, Example(modes=("timed",), variants=variants, quality=rule_with(targets=[0.99])))
    for path in results.glob("experiments/*/runs/*/run.json"):
        run = json.loads(path.read_text())
        flop = tflop[run["variant"]]
        work = None if flop is None else {"flop_per_epoch": flop * 1e12, "bytes_per_epoch": 1e12}
        path.write_text(json.dumps(run | {"work": work}))
    return compare_experiments(vouch_again(results), CLAIMS)


def work_of(comparison):
    return {ratio.candidate: ratio.work for ratio in comparison.ratios if ratio.metric == "training_epoch_s"}


def test_work_is_equal_unequal_or_unknown(tmp_path):
    work = work_of(compare(tmp_path, {"baseline": 15.0, "cached": 3.9, "fast": None}))
    assert (work["cached"].outcome, work["fast"].outcome) == ("unequal", "unknown")
    said = work["cached"].reason.replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith(
        "unequal work: an epoch of MONAI baseline script computes 15.0 TFLOP, one of + cache on the GPU 3.90 (0.260×)"
    )
    assert "FLOP" in work["fast"].reason and "samples" not in work["fast"].reason


def test_a_network_of_other_size_is_other_work(tmp_path):
    results = tmp_path / "results"
    compare(results, dict.fromkeys(VARIANTS))
    told = {"baseline": (1.5e13, 4_808_917), "cached": (1.5e13, 1_202_229), "fast": (1.5e13, 4_808_917)}
    for path in results.glob("experiments/*/runs/*/run.json"):
        run = json.loads(path.read_text())
        run["flop_per_epoch"], run["parameters"] = told[run["variant"]]  # as a program's marks say them
        path.write_text(json.dumps(run))
    work = work_of(compare_experiments(vouch_again(results), CLAIMS))
    assert (work["cached"].outcome, work["fast"].outcome) == ("unequal", "equal")
    said = work["cached"].reason.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert said.startswith("unequal work: MONAI baseline script has 4 808 917 parameters, ")


@pytest.mark.parametrize(("tflop", "outcome"), [(15.0, "equal"), (14.86, "equal"), (14.8, "unequal"), (15.2, "unequal")])
def test_work_is_alike_within_a_hundredth(tmp_path, tflop, outcome):
    work = work_of(compare(tmp_path, {"baseline": 15.0, "fast": tflop}, ("baseline", "fast")))
    assert work["fast"].outcome == outcome


def test_variants_that_validate_in_other_intervals_do_other_work_where_that_is_spread(tmp_path):
    results = tmp_path / "results"
    compare(results, dict.fromkeys(("baseline", "fast"), 15.0), ("baseline", "fast"))
    for path in results.glob("experiments/*/runs/*-fast-timed/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"validate_every": 6}))
    work = {ratio.metric: ratio.work for ratio in compare_experiments(vouch_again(results), CLAIMS).ratios}
    assert work["training_epoch_s"].outcome == "equal"
    said = "unequal work: MONAI baseline script validates every 2 epochs, MONAI fast script every 6"
    told = {row[0]: row[3] for row in list_ratios(Findings(compare_experiments(results, CLAIMS)))}
    assert told["epoch, validation spread"].endswith("×: of unequal work") and told["training epoch"].endswith("×")
    assert work["process_s"].outcome == work["all_epochs_s"].outcome == "unequal"
    assert work["epoch_s"].reason.replace("\N{NO-BREAK SPACE}", " ") == said


def test_work_is_that_of_all_pairs(tmp_path):
    results = tmp_path / "results"
    compare(results, dict.fromkeys(("baseline", "fast"), 15.0), ("baseline", "fast"))
    last = max(results.glob("experiments/*/runs/*-fast-timed/run.json"))
    last.write_text(json.dumps(json.loads(last.read_text()) | {"work": {"flop_per_epoch": 7e12, "bytes_per_epoch": 1e12}}))
    assert work_of(compare_experiments(vouch_again(results), CLAIMS))["fast"].outcome == "unequal"


def test_what_takes_its_quality_along_needs_no_equal_work(tmp_path):
    comparison = compare(tmp_path, {"baseline": 15.0, "fast": 3.9}, ("baseline", "fast"))
    assert all(ratio.work is None for ratio in comparison.ratios if ratio.metric == "cache_fill_s")


def test_rows_of_unequal_work_stand_apart_and_say_what_differs(tmp_path):
    comparison = compare(tmp_path, {"baseline": 15.0, "cached": 3.9, "fast": 15.0})
    assert (
        "unequal work: " in describe_speedups(Findings(comparison))[-1]
        and "Cached" not in describe_speedups(Findings(comparison))[0]
    )
    write_comparison(comparison, tmp_path)
    write_report(tmp_path, tmp_path / "report.md")
    assert "Work unknown" not in (tmp_path / "report.md").read_text()
    titles = comparison.variants
    many = comparison.model_copy(update={"ratios": comparison.ratios * 3})
    (header, *equal), (apart_header, *apart) = (tabulate_speedups(Findings(many), unequal=unequal) for unequal in (False, True))
    assert [row[0] for row in equal] == [titles["fast"]] and [row[0] for row in apart] == [titles["cached"]]
    assert apart_header == [*header, "Work"] and "15.0" in apart[0][-1]
