"""GPUs' counters and memory: means over the iterations that count, worked out by hand."""

import tracemalloc

import numpy as np
import pytest

from speedproof.report.trace_phrases import describe_counters
from speedproof.results.trace_results import summarize_kernels
from speedproof.results.trace_tables import ADDED
from speedproof.trace.counters import summarize_metrics
from speedproof.trace.events import read_events
from speedproof.trace.intervals import Intervals
from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import LOADER, MAIN, TraceBuilder

SM, DRAM = "SM Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]"


def sample(trace: TraceBuilder, start: int, name: str, value: int, device: int = 0) -> None:
    trace.rows["metrics"].append({"start_ns": start * 1000, "device": device, "name": name, "value": value})


def change(trace: TraceBuilder, start: int, operation: str, address: int, size: int, kind: str = "device", **more: int) -> None:
    event = {"start_ns": start * 1000, "process": 0, "device": 0, "address": address, "bytes": size, "kind": kind}
    trace.rows["memory"].append({**event, "operation": operation, **more})


def three_steps() -> TraceBuilder:
    """Three steps of 1 ms, one behind the other; the first warms up."""
    trace = TraceBuilder()
    for start in (0, 1000, 2000):
        trace.range("epoch", start, start + 1000)
        trace.call("cudaLaunchKernel", start + 100, start + 110, start + 1)
        trace.kernel(start + 200, start + 700, start + 1)
    return trace


def test_a_metric_is_the_mean_of_its_samples_in_the_epochs_that_count(tmp_path):
    trace = three_steps()
    for start in range(0, 4000, 50):  # 20 in each step, and more behind
        sample(trace, start, SM, {0: 99, 1: 40, 2: 60}.get(start // 1000, 7))
        sample(trace, start, "GPC Clock Frequency [MHz]", 1_980_000_000)
        sample(trace, start, SM, 1, device=5)  # a GPU that the process does not use
    summary = analyze_trace(trace.write(tmp_path))
    active, clock = sorted(summary.metrics, key=lambda metric: metric.role is None)
    assert (active.role, active.name, active.unit, active.mean) == ("sm_active", "SM Active", "Throughput %", 50)
    assert (active.samples, active.epochs, active.samples_per_s, active.device) == (40, 2, pytest.approx(20_000), 0)
    assert (clock.role, clock.unit, clock.mean) == (None, "MHz", 1980)
    assert not summary.warnings


def test_of_an_epoch_with_few_samples_nothing_is_said(tmp_path):
    trace = three_steps()
    for start in range(0, 3000, 200):  # 5 in each step
        sample(trace, start, DRAM, 10)
    for start in range(1000, 2000, 50):  # in one of the two that count alone: half of them
        sample(trace, start, SM, 30)
    summary = analyze_trace(trace.write(tmp_path))
    assert [(metric.role, metric.epochs, metric.mean) for metric in summary.metrics] == [("sm_active", 1, 30)]
    assert summary.warnings == ["1 of 2 GPU metrics have fewer than 10 samples in most iterations: no mean is given"]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("SMs Active [Throughput %]", "sm_active"),
        ("Tensor Active / FP16 Active [Throughput %]", "tensor_active"),
        ("SM FP16+Tensor Pipe Throughput [Throughput %]", "tensor_active"),
        ("GPU Memory Read Bandwidth [Throughput %]", "dram_read"),
        ("DRAM Write Bandwidth [Throughput %]", "dram_write"),
        ("Unallocated Warps in Active SMs [Throughput %]", None),
        ("GR Active [Throughput %]", None),
    ],
)
def test_what_a_metric_says_is_told_from_its_name_over_chips(tmp_path, name, role):
    trace = three_steps()
    for start in range(1000, 3000, 50):
        sample(trace, start, name, 3)
    assert [metric.role for metric in analyze_trace(trace.write(tmp_path)).metrics] == [role]


def test_memory_in_use_is_what_is_allocated_and_not_freed(tmp_path):
    trace = three_steps()
    change(trace, 100, "allocation", 0xA, 1000)
    change(trace, 1500, "allocation", 0xB, 600)  # until the third step's 250th microsecond
    change(trace, 500, "allocation", 0xC, 5000)  # in the one that warms up
    change(trace, 600, "deallocation", 0xC, 0)
    change(trace, 2250, "deallocation", 0xB, 600, kind="unknown")
    change(trace, 2300, "deallocation", 0xDEAD, 64)
    change(trace, 50, "allocation", 0xE, 300, kind="pinned")
    change(trace, 60, "allocation", 0xE, 9, process=1)
    trace.rows["memory"].sort(key=lambda row: row["start_ns"])
    device, pinned = analyze_trace(trace.write(tmp_path)).memory
    assert (device.kind, device.peak_bytes, device.trace_peak_bytes, device.unmatched_frees) == ("device", 1600, 6000, 1)
    assert device.mean_bytes == pytest.approx(1000 + 600 * (500 + 250) / 2000)
    assert (pinned.kind, pinned.peak_bytes, pinned.mean_bytes, pinned.unmatched_frees) == ("pinned", 300, 300, 0)


def test_a_trace_of_an_earlier_version_lacks_both(tmp_path):
    folder = three_steps().write(tmp_path)
    text = (folder / "trace.json").read_text()
    whole = analyze_trace(folder)
    for name in ADDED:
        (folder / f"{name}.parquet").unlink()
        text = "".join(line for line in text.splitlines(True) if f'"{name}"' not in line)
    (folder / "trace.json").write_text(text)
    assert analyze_trace(folder) == whole
    assert (whole.metrics, whole.memory) == ([], [])
    assert not {"metrics", "memory", "sampled_functions", "sampled_python"} & set(whole.model_dump())  # as its digest was


def test_what_was_sampled_is_said_in_words_and_beside_the_names(tmp_path):
    trace = three_steps()
    for start in range(1000, 3000, 50):
        sample(trace, start, "Tensor Active [Throughput %]", 25)
        sample(trace, start, SM, 50)
    change(trace, 100, "allocation", 0xA, 3 << 20)
    summary = analyze_trace(trace.write(tmp_path))
    assert list(describe_counters(summary)) == [
        "GPU 0, sampled 20\u202f000 times per second: SMs active 50.0 %, tensor cores active 25.0 %.",
        "GPU 0: device memory in use: peak 3.00 MiB, mean 3.00 MiB; peak in the whole trace 3.00 MiB.",
    ]
    use = summarize_kernels(summary.kernels, summary.metrics)
    assert (use.tensor_cores_by, use.tensor_cores_active) == ("names, samples", 0.25)


@pytest.mark.parametrize(("table", "key"), [("cpu_samples", "sampled_functions"), ("python_samples", "sampled_python")])
def test_functions_are_those_of_the_loops_thread_in_unknown_host_time(tmp_path, table, key):
    trace = three_steps()  # a kernel runs from 200 to 700 us of each step
    for start, name, thread in [
        (1800, "PyDict_New", MAIN),
        (1850, "PyDict_New", MAIN),
        (2900, "in libc.so.6", MAIN),
        (800, "warms_up", MAIN),
        (1400, "beside_a_kernel", MAIN),
        (1820, "of_another_thread", LOADER),
    ]:
        trace.rows[table].append({"start_ns": start * 1000, "process": 0, "thread": thread, "name": name})
    summary = analyze_trace(trace.write(tmp_path))
    found = [(one.name, one.samples, one.share) for one in getattr(summary, key)]
    assert found == [("PyDict_New", 2, pytest.approx(2 / 3)), ("in libc.so.6", 1, pytest.approx(1 / 3))]


def test_what_is_counted_is_as_much_as_the_samples(tmp_path):
    trace = TraceBuilder()
    for start in range(0, 20_000, 10):  # 2000 steps and 5000 metrics: a table of both has 10 million cells
        trace.range("epoch", start, start + 10)
        trace.kernel(start + 1, start + 9)
    for number in range(5000):
        sample(trace, number, f"m{number}", 1)
    samples, epochs = 5000, 2000
    events = read_events(trace.write(tmp_path))
    starts = np.arange(epochs) * 10_000
    tracemalloc.start()
    metrics, notes = summarize_metrics(events.metrics, [0], Intervals(starts, starts + 10_000))
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert metrics == [] and notes[0].startswith(f"{samples} of {samples} GPU metrics have fewer")
    assert most_bytes < 10 * 1000 * 1000
