"""Counted FLOP beside what a GPU can do: MFU, speeds that no hardware has, variants that compute less."""

import json

import pytest

from speedproof.report.markdown import write_report
from speedproof.report.objection_phrases import describe_objection
from speedproof.report.report_tables import describe_utilization
from speedproof.results.folder import read_results
from speedproof.results.run_record import OBSERVED
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.stats.hardware_limit import measure_utilization
from speedproof.stats.measurements import measure_ratio
from tests.report.example import CLAIMS, Example, compare_example, vouch_again, write_example

# The example's epochs take 1.48 s (baseline) and 1.08 s (fast) on an H200: 989.4 TFLOP/s in half precision.
HALF = 989.4e12


def count(results, of="epoch", device="cuda", share=1.0, gpu=None, observed=False, kind="bfloat16", **flop):
    """Let FLOP have been counted of the example's variants; return the ratio of epochs, each variant's use, the results."""
    write_example(results, Example(modes=("timed",)))
    for path in results.glob("experiments/*/runs/*/run.json"):
        run = json.loads(path.read_text())
        counted = {"of": of, "device": device, "flop": {kind: int(flop[run["variant"]])}, "reported_share": share}
        seen = {"arrivals": "seen" if observed else "together", "warm_up": {"process_s": 9.0, "flop": counted}}
        run["conditions"]["gpu"] |= {"name": gpu} if gpu else {}
        path.write_text(json.dumps(run | {"observed": seen}))
        if observed:
            header, *rows = path.with_name("epochs.csv").read_text().splitlines()
            path.with_name("epochs.csv").write_text(
                "\n".join([f"{header},{OBSERVED}", *(f"{row},{observed}" for row in rows)]) + "\n"
            )
    if gpu:
        for path in results.glob("experiments/*/experiment.json"):
            experiment = json.loads(path.read_text())
            experiment["conditions"]["gpu"]["name"] = gpu
            path.write_text(json.dumps(experiment))
    read = read_results(vouch_again(results))
    (ratio,) = measure_ratio(read, "baseline", "fast", "timed", "training_epoch_s")
    return ratio, {one.variant: one for one in measure_utilization(read)}, read


def kinds(ratio):
    return {one.kind: one.blocks for one in ratio.objections if one.kind in ("flop", "beyond hardware")}


def test_mfu_is_the_time_at_the_peak_by_that_of_the_epoch(tmp_path):
    # 0.37 s at the peak: a quarter of 1.48 s.
    ratio, use, _ = count(tmp_path, baseline=0.37 * HALF, fast=0.37 * HALF)
    assert (use["baseline"].mfu, use["fast"].mfu) == pytest.approx((0.25, 0.37 / 1.08), rel=1e-6)
    assert use["baseline"].flop_per_s == pytest.approx(HALF / 4)
    assert (use["fast"].product, use["fast"].source) == ("H200 SXM", "NVIDIA H200 datasheet")
    assert kinds(ratio) == {}
    said = describe_utilization(use["baseline"]).replace("\N{NO-BREAK SPACE}", " ")
    assert said == "MONAI baseline script: 366 TFLOP per epoch in 1.48 s, 247 TFLOP/s, MFU 25 % (NVIDIA H200 datasheet)"


def test_of_float32_the_peak_is_named(tmp_path):
    tf32 = 494.7e12  # by the datasheet, half of its 989 of sparse matrices
    _, use, _ = count(tmp_path, kind="float32", baseline=0.37 * tf32, fast=0.37 * tf32)
    assert use["baseline"].mfu == pytest.approx(0.25, rel=1e-3)
    assert use["baseline"].source == "NVIDIA H200 datasheet, TF32 for float32"


def test_time_that_reports_leave_out_is_added_as_far_as_it_was_in_the_counted_run(tmp_path):
    _, use, _ = count(tmp_path, share=0.925, baseline=0.37 * HALF, fast=0.37 * HALF)
    assert use["baseline"].seconds == pytest.approx(1.48 / 0.925)


def test_fewer_flop_are_stated_and_no_fault(tmp_path):
    ratio, _, _ = count(tmp_path, baseline=0.4 * HALF, fast=0.1 * HALF)
    assert (kinds(ratio), ratio.outcome) == ({"flop": False}, "faster")
    said = next(describe_objection(one, {"fast": "B"}) for one in ratio.objections if one.kind == "flop")
    assert said.replace("\N{NO-BREAK SPACE}", " ") == "B computes 98.9 TFLOP per epoch, the other 396 TFLOP"
    assert kinds(count(tmp_path / "alike", baseline=0.4 * HALF, fast=0.397 * HALF)[0]) == {}


@pytest.mark.parametrize(("factor", "impossible"), [(1.24, False), (1.26, True)])
def test_a_reported_speed_beyond_the_hardware_is_refused_by_name(tmp_path, factor, impossible):
    """An epoch of 1.08 s holds 1.08 s of FLOP at the peak; clocks above the datasheet's leave a quarter open."""
    ratio, use, read = count(tmp_path, baseline=factor * 1.08 * HALF, fast=factor * 1.08 * HALF)
    assert kinds(ratio) == ({"beyond hardware": True} if impossible else {})
    assert (use["fast"].mfu is None) == impossible
    if impossible:
        assert ratio.contested
        (one,) = (one for one in ratio.objections if one.kind == "beyond hardware")
        assert one.variant == "fast"
        said = describe_objection(one, {"fast": "B"}).replace("\N{NO-BREAK SPACE}", " ")
        assert said.startswith(
            "B would be faster than its hardware: it computes 1.35 PFLOP in 1.08 s, for which H200 SXM needs at"
        )
        write_comparison(compare_experiments(read, CLAIMS), tmp_path)
        write_report(tmp_path, tmp_path / "report.md")
        assert "would be faster than its hardware" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    "about",
    [
        {"device": "cpu"},
        {"gpu": "Test GPU"},
        {"share": 0.5},  # such as one iteration of two: what the rest computes is not known
        {"share": None},
        {"of": "process"},  # that lasts longer
    ],
)
def test_what_cannot_be_known_is_no_fault(tmp_path, about):
    ratio, use, _ = count(tmp_path, baseline=1.5 * HALF, fast=1.5 * HALF, **about)
    assert kinds(ratio) == {}
    if about.get("device") or about.get("gpu"):
        assert (use["fast"].mfu, use["fast"].product) == (None, None)


def test_our_own_clock_is_asked_too(tmp_path):
    ratio, use, _ = count(tmp_path, share=0.5, observed=0.5, baseline=0.7 * HALF, fast=0.7 * HALF)
    assert (kinds(ratio), use["fast"].seconds) == ({"beyond hardware": True}, 0.5)


def test_without_counts_nothing_is_said():
    comparison = compare_example(Example(modes=("timed",)))
    assert comparison.utilization == []
    assert "utilization" not in comparison.model_dump()


def test_the_report_shows_use(tmp_path):
    _, use, read = count(tmp_path, baseline=0.37 * HALF, fast=0.37 * HALF)
    comparison = compare_experiments(read, CLAIMS)
    assert {one.variant: one for one in comparison.utilization} == use
    write_comparison(comparison, tmp_path)
    write_report(tmp_path, tmp_path / "report.md")
    report = (tmp_path / "report.md").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "| MONAI baseline script | 366 TFLOP per epoch | bfloat16 | 1.48 s | 247 TFLOP/s | H200 SXM | 1 | 25 % |" in report
