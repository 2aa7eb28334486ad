"""Tiny traces written by hand. Times are given in microseconds."""

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from speedproof.results.trace_tables import TABLES, TraceInfo, write_trace

US = 1000  # ns
MAIN, AUTOGRAD, LOADER = 0, 1, 2


@dataclass
class TraceBuilder:
    """Collects events; process 0 with thread :data:`MAIN` unless said otherwise."""

    rows: dict[str, list[dict]] = field(default_factory=lambda: {name: [] for name in TABLES})

    def add(self, table: str, start: int, end: int | None, **values: object) -> None:
        row = dict.fromkeys(TABLES[table].names) | {"process": 0, "start_ns": start * US}
        self.rows[table].append(row | {"end_ns": None if end is None else end * US} | values)

    def range(self, name: str, start: int, end: int | None, thread: int = MAIN, process: int = 0) -> None:
        self.add("ranges", start, end, name=name, thread=thread, end_thread=thread, process=process, domain=0, kind="push_pop")

    def call(
        self, name: str, start: int, end: int, correlation: int | None = None, thread: int = MAIN, process: int = 0
    ) -> None:
        self.add("api", start, end, name=name, correlation=correlation, thread=thread, process=process)

    def kernel(self, start: int, end: int, correlation: int | None = None, name: str = "k", device: int = 0, **more) -> None:
        self.add("kernels", start, end, name=name, correlation=correlation, **{"device": device, "stream": 7, **more})

    def copy(self, start: int, end: int, correlation: int | None, kind: str, source: str, target: str, stream: int = 7) -> None:
        memory = {"source_memory": source, "target_memory": target}
        self.add("copies", start, end, kind=kind, correlation=correlation, device=0, stream=stream, bytes=1, **memory)

    def host(self, name: str, start: int, end: int, thread: int = MAIN) -> None:
        """Add an operator or, if the name is that of code or is in angle brackets, a function of Python."""
        kind = "function" if "): " in name or name.startswith(("<", "Python ")) else "operator"
        self.add("host_calls", start, end, name=name, kind=kind, thread=thread)

    def write(self, folder: Path, profiler: str = "nsys", gpu: str = "Test GPU") -> Path:
        devices = {row["device"] for table in ("kernels", "copies") for row in self.rows[table]}
        self.rows["devices"] = [{"device": device, "name": gpu} for device in sorted(devices)]
        self.rows["threads"] = [{"process": 0, "thread": MAIN, "main": True, "name": ""}]
        tables = {name: pa.Table.from_pylist(rows, TABLES[name]) for name, rows in self.rows.items()}
        counts = {name: len(table) for name, table in tables.items()}
        info = TraceInfo(profiler=profiler, profiler_version="1", source_schema="1", rows=counts, warnings=[])
        write_trace(folder, tables, info)
        return folder


def two_epochs() -> TraceBuilder:
    """Two epochs of 10 ms; only the second validates. The tests' comments work out what follows."""
    trace = TraceBuilder()
    trace.range("epoch", 0, 10_000)
    trace.range("dataload", 0, 4000)
    trace.range("LoadImage", 500, 3500)
    trace.range("forward", 4000, 5000)
    trace.call("cudaLaunchKernel", 4100, 4110, 1)
    trace.kernel(4200, 5200, 1, name="sm80_xmma_fprop_implicit_gemm_f16")
    trace.range("backward", 5000, 7000)
    trace.call("cudaLaunchKernel", 5500, 5510, 2, thread=AUTOGRAD)
    trace.kernel(5600, 7600, 2, name="cudnn::cnn::wgrad_alg0_engine")
    trace.range("update", 7000, 8000)
    trace.call("cudaMemcpyAsync_v3020", 7100, 7900, 3)
    trace.copy(7700, 7800, 3, "DtoH", "device", "pageable")

    trace.range("epoch", 10_000, 20_000)
    trace.range("forward", 10_000, 11_000)
    trace.range("update", 11_000, 12_500)
    trace.range("validation dataload", 12_500, 15_000)
    trace.range("Spacing", 12_500, 14_800, thread=LOADER, process=1)
    trace.range("sliding window", 15_000, 19_000)
    for number in range(3):
        called = 15_000 + 50 * number
        trace.call("cudaLaunchKernel", called, called + 10, 4 + number)
        trace.kernel(called + 25, called + 40, 4 + number, name="at::native::vectorized_elementwise_kernel")
    return trace


def many_pieces() -> TraceBuilder:
    """One epoch with a gap of 1 ms in three phases: `forward` 600 us in three pieces, `update` 250 and 50, `backward` 100."""
    trace = TraceBuilder()
    trace.range("epoch", 0, 1100)
    for name, start, end in (
        ("forward", 0, 200),
        ("update", 200, 450),
        ("forward", 450, 650),
        ("update", 650, 700),
        ("forward", 700, 900),
        ("backward", 900, 1000),
    ):
        trace.range(name, start, end)
    trace.kernel(1000, 1100)
    return trace
