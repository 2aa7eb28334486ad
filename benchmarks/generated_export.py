"""Generated exports of Nsight Systems, of any size: SQLite files that `nsys stats` and our conversion can both read.

They hold epochs of our loop, whose backward pass is launched by another thread. Tables have all columns of schema 3.20, so that
a row is as wide on disk as in a real export. There are two mixes:

- `documented`: like a six-epoch spleen baseline run under autograd's own NVTX ranges (`emit_nvtx`): 85 % of the events are
  ranges, almost each with its own name;
- `launches`: no such ranges; half of the events are calls, half are kernels and copies. This is the most expensive to analyze.
"""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

STEPS_AN_EPOCH = 10
STEP_NS = 10_000_000
STEPS_AT_ONCE = 200  # written in one go; the rows of all steps together need not fit into memory

# globalTid: hardware, virtual machine, process and thread in 8, 8, 24 and 24 bits.
PROCESS = 1 << 48 | 500 << 24
MAIN, AUTOGRAD = PROCESS | 500, PROCESS | 501
PUSH_POP = 59

PHASES = {"dataload": (0.0, 0.2), "forward": (0.2, 0.4), "backward": (0.4, 0.8), "update": (0.8, 1.0), "RandCrop": (0.01, 0.19)}
KERNELS = [f"void sm80_xmma_fprop_implicit_gemm_{shape}<float, (int){shape}>(T1, T1)" for shape in range(50)]
CALLS = ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020", "cudaStreamIsCapturing_v10000"]
OPERATORS = ["aten::convolution", "aten::cudnn_batch_norm", "aten::add_", "autograd::engine::evaluate_function: AddBackward0"]
STRINGS = [*PHASES, "epoch", *KERNELS, *CALLS]

# The columns of each table, in the order of a real export; those that are not written are NULL, as they are there.
COLUMNS = {
    "NVTX_EVENTS": """
        start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value
        doubleValue uint32Value int32Value floatValue jsonTextId jsonText binaryData
    """,
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUPTI_ACTIVITY_KIND_KERNEL": """
        start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName mangledName
        launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory
        dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId
        sharedMemoryLimitConfig
    """,
    "CUPTI_ACTIVITY_KIND_MEMCPY": """
        start end deviceId contextId greenContextId streamId correlationId globalPid bytes copyKind deprecatedSrcId
        srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress
        copyCount
    """,
}
# Columns of a kernel that nobody here reads; they are there to be skipped.
KERNEL_SIZES = [
    "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory",
    "dynamicSharedMemory", "localMemoryPerThread", "localMemoryTotal", "gridId",
]  # fmt: skip
SMALL_TABLES: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "StringIds": ("id INTEGER PRIMARY KEY, value TEXT", list(enumerate(STRINGS))),
    "META_DATA_EXPORT": ("name TEXT, value TEXT", [("EXPORT_PRODUCT_VERSION", "0"), ("EXPORT_SCHEMA_VERSION", "3.20.3")]),
    "ENUM_CUDA_MEMCPY_OPER": (
        "id INTEGER PRIMARY KEY, name TEXT, label TEXT",
        [(1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"), (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host")],
    ),
    "TARGET_INFO_GPU": ("id INTEGER, name TEXT", [(0, "generated")]),
}


@dataclass(frozen=True)
class Mix:
    """How many events of a kind a step has."""

    launches: int  # kernels and copies: each has a call
    other_calls: int
    operators: int  # ranges of autograd's own

    @property
    def events(self) -> int:
        """Return how many events a step has."""
        return 2 * self.launches + self.other_calls + self.operators + len(PHASES)


MIXES = {
    "documented": Mix(launches=500, other_calls=450, operators=8500),
    "launches": Mix(launches=1000, other_calls=0, operators=0),
}


def write_export(path: Path, events: int, mix: Mix) -> int:
    """Write an export of about `events` events and return how many it has."""
    epochs = max(1, round(events / mix.events / STEPS_AN_EPOCH))
    steps = epochs * STEPS_AN_EPOCH
    random = np.random.default_rng(0)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        for table, (columns, rows) in SMALL_TABLES.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        for table, names in COLUMNS.items():
            connection.execute(f"CREATE TABLE {table} ({', '.join(names.split())})")
        for first in range(0, steps, STEPS_AT_ONCE):
            _insert_steps(connection, np.arange(first, min(first + STEPS_AT_ONCE, steps)), mix, random)
        connection.commit()
        return sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in COLUMNS)


def _insert_steps(connection: sqlite3.Connection, steps: np.ndarray, mix: Mix, random: np.random.Generator) -> None:
    for table, columns in _make_steps(steps, mix, random):
        order = np.argsort(columns["start"], kind="stable")
        values = [np.broadcast_to(column, len(order))[order].tolist() for column in columns.values()]
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", zip(*values, strict=True))


def _make_steps(steps: np.ndarray, mix: Mix, random: np.random.Generator) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield each table's columns of these steps; a column of one value is as good as one of equal values."""
    calls = mix.launches + mix.other_calls
    offset = np.sort(random.integers(STEP_NS // 5, STEP_NS - 10_000, (len(steps), calls)), axis=1)
    called = (steps[:, None] * STEP_NS + offset).ravel()
    correlation = steps[0] * calls + np.arange(len(called)) + 1
    others = random.permuted(np.tile(np.arange(calls) >= mix.launches, (len(steps), 1)), axis=1).ravel()
    kind = np.select([others, correlation % 101 == 0, correlation % 7 == 0], [3, 2, 1], 0)  # as in CALLS
    yield (
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        {
            "start": called,
            "end": called + 3000,
            "eventClass": np.array(0),
            "globalTid": _launching_thread(offset).ravel(),
            "correlationId": correlation,
            "nameId": STRINGS.index(CALLS[0]) + kind,
            "returnValue": np.array(0),
        },
    )
    start = called + random.integers(4000, 8000, len(called))
    work = {"start": start, "end": start + random.integers(1000, 12_000, len(called)), "correlationId": correlation}
    kernels, copies = ({name: column[kind == number] for name, column in work.items()} for number in (0, 1))
    place = {"deviceId": np.array(0), "contextId": np.array(1), "streamId": np.array(7), "globalPid": np.array(PROCESS)}
    name = STRINGS.index(KERNELS[0]) + random.integers(0, len(KERNELS), len(kernels["start"]))
    sizes = dict.fromkeys(KERNEL_SIZES, np.array(128))
    yield "CUPTI_ACTIVITY_KIND_KERNEL", {**kernels, **place, **sizes, "demangledName": name, "shortName": name}
    memory = {"bytes": np.array(4096), "copyKind": np.array(1), "srcKind": copies["correlationId"] % 2, "dstKind": np.array(2)}
    yield "CUPTI_ACTIVITY_KIND_MEMCPY", {**copies, **place, **memory}
    yield from _make_phases(steps)
    yield from _make_operators(steps, mix.operators, random)


def _make_phases(steps: np.ndarray) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield the steps' phases, and the epochs that begin in them."""
    epoch = steps[steps % STEPS_AN_EPOCH == 0] * STEP_NS
    starts, ends, names = [epoch], [epoch + STEPS_AN_EPOCH * STEP_NS], [np.full(len(epoch), STRINGS.index("epoch"))]
    for number, (begin, end) in enumerate(PHASES.values()):
        starts.append(steps * STEP_NS + int(begin * STEP_NS))
        ends.append(steps * STEP_NS + int(end * STEP_NS))
        names.append(np.full(len(steps), number))
    start, end, name = (np.concatenate(column) for column in (starts, ends, names))
    shared = {"eventType": np.array(PUSH_POP), "globalTid": np.array(MAIN), "domainId": np.array(0)}
    yield "NVTX_EVENTS", {"start": start, "end": end, "textId": name, **shared}


def _make_operators(steps: np.ndarray, count: int, random: np.random.Generator) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield autograd's ranges: under names that hold the operator's number, written in the event itself."""
    offset = np.sort(random.integers(STEP_NS // 5, STEP_NS - 1000, (len(steps), count)), axis=1)
    start = (steps[:, None] * STEP_NS + offset).ravel()
    number = steps[0] * count + np.arange(len(start))
    texts = [f"{OPERATORS[i % len(OPERATORS)]}, seq = {i // 3}, op_id = {i}" for i in number.tolist()]
    yield (
        "NVTX_EVENTS",
        {
            "start": start,
            "end": start + random.integers(500, 5000, len(start)),
            "eventType": np.array(PUSH_POP),
            "globalTid": _launching_thread(offset).ravel(),
            "domainId": np.array(0),
            "text": np.array(texts, object),
        },
    )


def _launching_thread(offset_ns: np.ndarray) -> np.ndarray:
    """Return which thread works at each moment of a step: autograd's own in the backward pass."""
    begin, end = PHASES["backward"]
    return np.where((offset_ns >= begin * STEP_NS) & (offset_ns < end * STEP_NS), AUTOGRAD, MAIN)


if __name__ == "__main__":
    path, events, mix = sys.argv[1:]
    print(write_export(Path(path), int(events), MIXES[mix]))
