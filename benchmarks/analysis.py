"""How long the analysis takes, and how much memory, as a trace grows: `python benchmarks/analysis.py 700000 20000000`.

The traces are generated: epochs of our loop, whose backward pass another thread launches, with one kernel a launch, some
copies, synchronising calls and transforms, in the mix of a six-epoch spleen run. Each is analysed in a process of its own.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from speedproof.analysis.summarize import analyze_trace
from speedproof.records.trace import TABLES, TraceInfo, write_trace

LAUNCHES_A_STEP = 1000
STEPS_AN_EPOCH = 50
STEP_NS = 10_000_000
MAIN, AUTOGRAD = 0, 1
KERNEL_NAMES = [f"sm80_xmma_fprop_implicit_gemm_{shape}" for shape in range(50)] + ["at::native::elementwise_kernel"] * 50
PHASES = {"dataload": (0.0, 0.2), "forward": (0.2, 0.4), "backward": (0.4, 0.8), "update": (0.8, 1.0)}


def write_large_trace(folder: Path, events: int) -> None:
    """Write a trace of about `events` events: half of them kernels and copies, half calls, few ranges."""
    steps = max(1, events // (2 * LAUNCHES_A_STEP))
    random = np.random.default_rng(0)
    step_start = np.arange(steps) * STEP_NS
    offset = np.sort(random.integers(STEP_NS // 5, STEP_NS - 10_000, (steps, LAUNCHES_A_STEP)), axis=1)
    called = (step_start[:, None] + offset).ravel()
    thread = np.where((offset >= 0.4 * STEP_NS) & (offset < 0.8 * STEP_NS), AUTOGRAD, MAIN).ravel()
    rows = len(called)
    correlation = np.arange(rows)
    start = called + random.integers(4000, 8000, rows)
    end = start + random.integers(1000, 12_000, rows)
    copy = correlation % 100 == 0
    calls = np.where(copy, 2, np.where(correlation % 101 == 0, 1, 0))
    place = {"process": np.zeros(rows, int), "device": np.zeros(rows, int), "stream": np.full(rows, 7)}
    work = {"start_ns": start, "end_ns": end, **place, "correlation": correlation}
    tables = {
        "ranges": _ranges(step_start),
        "api": _table(
            {
                "start_ns": called,
                "end_ns": called + 3000,
                "process": place["process"],
                "thread": thread,
                "correlation": correlation,
            },
            name=(calls, ["cudaLaunchKernel_v7000", "cudaStreamSynchronize_v3020", "cudaMemcpyAsync_v3020"]),
        ),
        "kernels": _table(_rows(work, ~copy), name=(random.integers(0, len(KERNEL_NAMES), rows)[~copy], KERNEL_NAMES)),
        "copies": _table(
            {**_rows(work, copy), "bytes": np.full(copy.sum(), 4096)},
            kind=(np.zeros(copy.sum(), int), ["HtoD"]),
            source_memory=(correlation[copy] // 100 % 2, ["pageable", "pinned"]),
            target_memory=(np.zeros(copy.sum(), int), ["device"]),
        ),
        "threads": pa.Table.from_pylist([{"process": 0, "thread": MAIN, "main": True, "name": ""}], TABLES["threads"]),
        "devices": pa.Table.from_pylist([{"device": 0, "name": "generated"}], TABLES["devices"]),
    }
    write_trace(folder, tables, TraceInfo(profiler="nsys", profiler_version="0", source_schema="0", rows={}, warnings=[]))


def _ranges(step_start: np.ndarray) -> pa.Table:
    epoch_start = step_start[::STEPS_AN_EPOCH]
    epoch_end = np.append(epoch_start[1:], step_start[-1] + STEP_NS)
    starts, ends, names, labels = [epoch_start], [epoch_end], [np.zeros(len(epoch_start), int)], ["epoch", *PHASES, "RandCrop"]
    for number, (begin, end) in enumerate([*PHASES.values(), (0.01, 0.19)], start=1):
        starts.append(step_start + int(begin * STEP_NS))
        ends.append(step_start + int(end * STEP_NS))
        names.append(np.full(len(step_start), number))
    start, end, name = (np.concatenate(column) for column in (starts, ends, names))
    order = np.lexsort((-end, start))
    zero = np.zeros(len(order), int)
    columns = {
        "start_ns": start[order],
        "end_ns": end[order],
        "process": zero,
        "thread": zero,
        "end_thread": zero,
        "domain": zero,
    }
    return _table(columns, kind=(zero, ["push_pop"]), name=(name[order], labels))


def _rows(columns: dict[str, np.ndarray], wanted: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[wanted] for name, values in columns.items()}


def _table(columns: dict[str, np.ndarray], **named: tuple[np.ndarray, list[str]]) -> pa.Table:
    """Return a table of numbers and names; a column that is not given is null."""
    arrays = {name: pa.array(values) for name, values in columns.items()}
    for column, (codes, names) in named.items():
        arrays[column] = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names))
    if "correlation" in columns and "device" in columns:
        arrays["graph"] = pa.nulls(len(columns["device"]), pa.int64())
    return pa.table(arrays)


def main() -> None:
    """Time the analysis of a generated trace of each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=int, nargs="*", default=[700_000, 7_000_000, 20_000_000])
    parser.add_argument("--analyze", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.analyze:
        start_s = time.monotonic()
        summary = analyze_trace(options.analyze)
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{time.monotonic() - start_s:.2f} s, peak {peak_mib:,.0f} MiB, {len(summary.epochs)} epochs")
        return
    for events in options.events:
        with tempfile.TemporaryDirectory() as folder:
            write_large_trace(Path(folder), events)
            command = [sys.executable, __file__, "--analyze", folder]
            result = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            print(f"{events:>12,} events: {result}", flush=True)


if __name__ == "__main__":
    main()
