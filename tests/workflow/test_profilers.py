"""The ci configuration under real Nsight Systems and under torch.profiler: the same phases, the same number of times."""

from collections import Counter

import pytest

from speedproof.archive.record import write_record
from speedproof.profiling.ranges import PHASES
from speedproof.records.trace import read_table, read_trace_info
from tests.leaks import find_leaks
from tests.workflow.checkout import SECRET

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("workflow")]


def count_ranges(checkout, variant):
    (trace,) = checkout.results.glob(f"blocks/block-1/runs/*-{variant}-profiled/trace")
    return Counter(read_table(trace, "ranges", ["name"])["name"].to_pylist())


@pytest.mark.parametrize("variant", ["baseline", "fast"])
def test_both_traces_hold_the_same_ranges_the_same_number_of_times(finished_nsys, finished_kineto, variant):
    by_nsys, by_kineto = count_ranges(finished_nsys, variant), count_ranges(finished_kineto, variant)
    # Six volumes train in 2 epochs, in batches of 4 or 8; two validate once.
    steps = {"baseline": 2 * 2, "fast": 2 * 1}[variant]
    expected = {"epoch": 2, "validation dataload": 2, "sliding window": 2, "decollate batch": 2, "compute metric": 2}
    expected |= dict.fromkeys(["dataload", "forward", "backward", "update"], steps)
    assert {name: by_nsys[name] for name in PHASES} == expected
    assert by_nsys == by_kineto
    # The cache loads each of the eight volumes once; crops are taken of six volumes in each of two epochs.
    assert (by_nsys["LoadImage"], by_nsys["RandCrop"]) == (8, 12)


def test_nsys_leaves_its_statistics(finished_nsys):
    for run in finished_nsys.results.glob("blocks/block-1/runs/*-profiled"):
        assert read_trace_info(run / "trace").profiler == "nsys"
        lines = (run / "stats" / "nvtx_sum.csv").read_text().splitlines()
        assert any("forward" in line for line in lines)


def test_the_report_names_its_profiler(finished_nsys, finished_kineto):
    assert "kineto" not in (finished_nsys.results / "report.md").read_text()
    assert "kineto" in (finished_kineto.results / "report.md").read_text()


def test_a_secret_of_the_environment_is_in_no_result_and_no_record(finished_nsys, finished_kineto, tmp_path):
    """The workflow ran with a secret in its environment; it is searched for in every byte, and in what Parquet compresses.

    nsys notes the environment of the processes above its own, too: its report and the export are gone.
    """
    assert find_leaks(finished_kineto.results, [SECRET]) == []
    record = tmp_path / "record"
    write_record([finished_nsys.results], finished_nsys.sources / "workloads/spleen/claims.yaml", record)
    assert (record / "report.md").exists()
    assert find_leaks(record, [SECRET]) == []
    assert find_leaks(finished_nsys.folder, [SECRET]) == []
    assert not [path for path in finished_nsys.folder.rglob("*") if path.suffix in {".nsys-rep", ".sqlite"}]
