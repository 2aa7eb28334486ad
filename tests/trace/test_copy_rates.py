"""The bandwidth of copies, and what no link can carry."""

import json

import pytest

from speedproof.profilers.kineto import convert_chrome
from speedproof.results.trace_tables import read_table
from speedproof.trace.summarize import analyze_trace
from speedproof.util.gpu_peaks import find_common_peaks, find_peaks
from tests.trace.handmade import TraceBuilder

MIB = 2**20


def copying(folder, *copies, gpu="NVIDIA H100 80GB HBM3"):
    """Summarize two steps with copies of these start, length in microseconds, bytes, kind and memory of the host."""
    trace = TraceBuilder()
    for number in range(2):
        trace.range("step", 1000 * number, 1000 * (number + 1))
        trace.kernel(1000 * number + 900, 1000 * number + 950)
    for start, length, size, kind, memory in copies:
        ends = {"HtoD": (memory, "device"), "DtoH": ("device", memory)}.get(kind, ("device", "device"))
        trace.copy(start, start + length, None, kind, *ends)
        trace.rows["copies"][-1]["bytes"] = size
    return analyze_trace(trace.write(folder, gpu=gpu))


def test_a_copy_has_a_bandwidth_beside_that_of_its_link(tmp_path):
    # 4 000 000 and 2 300 000 bytes in 100 and 100 us: 31.5 GB/s, half of PCIe 5.
    summary = copying(tmp_path, (0, 100, 4_000_000, "HtoD", "pinned"), (1000, 100, 2_300_000, "HtoD", "pinned"))
    (rate,) = summary.copies
    assert (rate.kind, rate.calls, rate.bytes_per_epoch) == ("HtoD, pinned", 2, 3_150_000)
    assert rate.seconds_per_epoch == pytest.approx(100e-6)
    assert (rate.bytes_per_s, rate.limit_bytes_per_s, rate.share) == pytest.approx((31.5e9, 63e9, 0.5))
    assert not [text for text in summary.warnings if "can carry" in text]


def test_a_copy_within_the_gpu_reads_and_writes_its_memory(tmp_path):
    # 67 MB in 100 us are 670 GB/s; the memory moves 3350, half of it for reading.
    (rate,) = copying(tmp_path, (0, 100, 67_000_000, "DtoD", "")).copies
    assert rate.share == pytest.approx(0.4)


def test_a_copy_faster_than_its_link_is_refused_by_name(tmp_path):
    summary = copying(tmp_path, (0, 10, 8 * MIB, "HtoD", "pinned"), (200, 200, 8 * MIB, "DtoH", "pageable"))
    rates = {rate.kind: rate.bytes_per_s for rate in summary.copies}
    assert rates == {"HtoD, pinned": None, "DtoH, pageable": pytest.approx(8 * MIB / 200e-6)}
    (said,) = (text.replace("\N{NO-BREAK SPACE}", " ") for text in summary.warnings if "can carry" in text)
    assert said.startswith("copies HtoD, pinned are faster than the 63.0 GB/s that their link can carry (H100 SXM): ")


def test_small_copies_and_unknown_gpus_are_not_judged(tmp_path):
    small = copying(tmp_path / "small", (0, 1, MIB - 1, "HtoD", "pinned"))
    unknown = copying(tmp_path / "unknown", (0, 1, 8 * MIB, "HtoD", "pinned"), gpu="Test GPU")
    for summary in (small, unknown):
        assert summary.copies[0].bytes_per_s is not None
        assert not [text for text in summary.warnings if "can carry" in text]
    assert unknown.copies[0].limit_bytes_per_s is None


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80 GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40 GB"),
        ("Tesla V100-PCIE-16GB", "V100 PCIe"),
        ("Tesla T4", "T4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GB200", "GB200"),
    ],
)
def test_a_gpu_is_known_by_its_drivers_name(name, product):
    assert find_peaks(name).product == product


@pytest.mark.parametrize(
    "name", ["NVIDIA T400 4GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4090 Laptop GPU", "", None]
)
def test_other_gpus_and_parts_of_one_have_no_peaks(name):
    assert find_peaks(name) is None


def test_unlike_gpus_have_no_peaks_in_common():
    assert find_common_peaks(["Tesla T4", "Tesla T4"]).product == "T4"
    assert find_common_peaks(["Tesla T4", "NVIDIA H200"]) is None


def test_float32_has_the_peak_of_what_computes_it():
    peaks = find_peaks("NVIDIA A100-SXM4-40GB")
    assert [peaks.flop_per_s("float32", cores) for cores in (False, True, None)] == [19.5e12, 156e12, 156e12]
    # Volta has no TF32; a convolution of float32 may still need fewer operations than are counted.
    volta = find_peaks("Tesla V100-SXM2-32GB")
    assert (volta.flop_per_s("float32"), volta.most_flop_per_s("float32")) == (15.7e12, 125e12)
    assert volta.flop_per_s("bfloat16") is None


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([{"id": 0, "name": "Tesla T4", "totalGlobalMem": 1}, {"id": 1, "name": "NVIDIA L4"}], {0: "Tesla T4", 1: "NVIDIA L4"}),
        ([{"id": "0", "name": "Tesla T4"}, {"id": -1, "name": "a"}, {"id": 2**40, "name": "b"}, 7], {}),
        ("none", {}),
    ],
)
def test_a_trace_of_torch_names_its_gpus(tmp_path, given, names):
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"device": 0, "stream": 7}}
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": given, "traceEvents": [event]}))
    convert_chrome(file, tmp_path / "trace")
    found = {row["device"]: row["name"] for row in read_table(tmp_path / "trace", "devices").to_pylist()}
    assert found == names
