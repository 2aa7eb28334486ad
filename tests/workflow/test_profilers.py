"""The ci configuration under torch.profiler and under real Nsight Systems: the same ranges, the same number of times."""

from collections import Counter
from pathlib import Path

import pytest

from speedproof.results.trace_tables import read_table, read_trace_info
from speedproof.run.archive.record import write_record
from tests.leaks import find_leaks
from tests.workflow.checkout import SECRET, Checkout

pytestmark = pytest.mark.whole
by_kineto, by_nsys = pytest.mark.xdist_group("workflow"), pytest.mark.xdist_group("nsys")  # neither waits for the other

# Six volumes train in 2 epochs, in batches of 4 (baseline) or 8; two validate once, a batch each.
ONCE_AN_EPOCH = dict.fromkeys(["epoch", "validation dataload", "sliding window", "decollate batch", "compute metric"], 2)
STEPS = ["dataload", "forward", "backward", "update"]
# The cache loads each of the eight volumes once; crops are taken of six volumes in each of two epochs.
FILL = ["LoadImage", "EnsureChannelFirst", "Orientation", "Spacing", "ScaleIntensityRange", "CropForeground"]
CACHED = {**ONCE_AN_EPOCH, **dict.fromkeys(FILL, 8), "RandCrop": 12}
RANGES = {
    # Its last transform comes after the crops, two of a volume: 2 x 6 x 2, and two validation volumes in the cache.
    "baseline": {**CACHED, **dict.fromkeys(STEPS, 2 * 2), "EnsureType": 26},
    # Its last transform is in the cache, as are the voxels that crops are drawn by.
    "fast": {**CACHED, **dict.fromkeys(STEPS, 2 * 1), "EnsureType": 8, "Indexing": 6},
}


def check_profiled_runs(checkout: Checkout, profiler: str) -> None:
    for variant, ranges in RANGES.items():
        (run,) = checkout.results.glob(f"experiments/experiment-1/runs/*-{variant}-profiled")
        assert Counter(read_table(run / "trace", "ranges", ["name"])["name"].to_pylist()) == ranges
        assert read_trace_info(run / "trace").profiler == profiler
    assert ("kineto" in (checkout.results / "report.md").read_text()) == (profiler == "kineto")


@by_kineto
def test_torchs_trace_holds_each_range_as_often_as_it_was_entered(finished_kineto: Checkout) -> None:
    check_profiled_runs(finished_kineto, "kineto")


@by_nsys
def test_nsys_trace_holds_each_range_as_often_as_it_was_entered(finished_nsys: Checkout) -> None:
    check_profiled_runs(finished_nsys, "nsys")


@by_nsys
def test_nsys_leaves_its_statistics(finished_nsys: Checkout) -> None:
    runs = list(finished_nsys.results.glob("experiments/experiment-1/runs/*-profiled"))
    assert len(runs) == 2
    for run in runs:
        lines = (run / "stats" / "nvtx_sum.csv").read_text().splitlines()
        assert any("forward" in line for line in lines)


@by_kineto
def test_a_secret_of_the_environment_is_in_no_result(finished_kineto: Checkout) -> None:
    """The workflow ran with a secret in its environment; it is searched for in every byte, and in what Parquet compresses."""
    assert find_leaks(finished_kineto.results, [SECRET]) == []


@by_nsys
def test_a_secret_of_the_environment_is_in_no_result_of_nsys_and_no_record(finished_nsys: Checkout, tmp_path: Path) -> None:
    """nsys notes the environment of the processes above its own, too: its report and the export are gone."""
    record = tmp_path / "record"
    write_record([finished_nsys.results], finished_nsys.sources / "workloads/spleen/claims.yaml", record)
    assert (record / "report.md").exists()
    assert find_leaks(record, [SECRET]) == []
    assert find_leaks(finished_nsys.folder, [SECRET]) == []
    assert not [path for path in finished_nsys.folder.rglob("*") if path.suffix in {".nsys-rep", ".sqlite"}]
