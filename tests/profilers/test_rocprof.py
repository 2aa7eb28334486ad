"""rocprofv3's JSON, made by hand in the form that its documentation gives, and its own tests check."""

import gzip
import json

import pytest

import speedproof
from speedproof.profilers.convert import convert_input
from speedproof.profilers.formats import find_format
from speedproof.profilers.rocprof_format import ROCPROF_TRACE
from speedproof.results.trace_tables import read_table
from speedproof.util.errors import RecordError

PID, SECOND = 700, 701  # the process, whose main thread has its number, and another thread
KINDS = {
    "HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync", "hipDeviceSynchronize"],
    "KERNEL_DISPATCH": ["KERNEL_DISPATCH_COMPLETE"],
    "MEMORY_COPY": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST"],
    "MARKER_CORE_API": ["roctxMarkA", "roctxRangePushA", "roctxRangeStartA"],
}
MHZ = 1000  # times below are in microseconds


def record(operation, correlation, start, end, thread=PID, **more):
    kind = next(number for number, names in enumerate(KINDS.values()) if operation in names)
    number = list(KINDS.values())[kind].index(operation)
    times = {"start_timestamp": 5_000_000 + start * MHZ, "end_timestamp": 5_000_000 + end * MHZ}
    ids = {"correlation_id": {"internal": correlation, "external": 0}, "thread_id": thread}
    return {"size": 56, "kind": kind, "operation": number, **ids, **times, **more}


def dispatch(kernel, correlation, start, end, agent=17):
    about = {"agent_id": {"handle": agent}, "queue_id": {"handle": 3}, "kernel_id": kernel, "dispatch_id": correlation}
    return record("KERNEL_DISPATCH_COMPLETE", correlation, start, end, dispatch_info=about)


def process():
    """Three steps of 100 us: a launch of 5 us, its kernel of 60 us, then a wait; before them a copy of 4096 bytes."""
    records = {name: [] for name in ("hip_api", "kernel_dispatch", "memory_copy", "marker_api", "hsa_api", "rccl_api")}
    records["hip_api"].append(record("hipMemcpyAsync", 90, 0, 10))
    ends = {"src_agent_id": {"handle": 16}, "dst_agent_id": {"handle": 17}, "bytes": 4096}
    records["memory_copy"].append(record("MEMORY_COPY_HOST_TO_DEVICE", 90, 5, 9, **ends))
    for step in range(3):
        at = 20 + 100 * step
        records["marker_api"].append(record("roctxRangePushA", 10 * step + 1, at, at + 100))
        records["hip_api"].append(record("hipLaunchKernel", 10 * step + 2, at + 10, at + 15))
        records["kernel_dispatch"].append(dispatch(2, 10 * step + 2, at + 20, at + 80))
        records["hip_api"].append(record("hipDeviceSynchronize", 10 * step + 3, at + 15, at + 81))
    records["marker_api"].append(record("roctxMarkA", 99, 25, 25))
    records["marker_api"].append(record("roctxRangeStartA", 98, 30, 60, thread=SECOND))
    messages = {**{10 * step + 1: "step" for step in range(3)}, 99: "a mark", 98: "beside"}
    symbols = [{"kernel_id": 2, "kernel_name": "_Z4gemmPf.kd", "formatted_kernel_name": "gemm(float*)"}]
    agents = [
        {"id": {"handle": 16}, "type": 1, "node_id": 0, "name": "EPYC"},
        {"id": {"handle": 18}, "type": 2, "node_id": 2, "name": "gfx942", "product_name": "MI300X, second"},
        {"id": {"handle": 17}, "type": 2, "node_id": 1, "name": "gfx942", "product_name": "MI300X"},
    ]
    return {
        "metadata": {"pid": PID, "init_time": 1, "fini_time": 2},
        "agents": agents,
        "strings": {
            "buffer_records": [{"kind": kind, "operations": names} for kind, names in KINDS.items()],
            "marker_api": [{"key": key, "value": value} for key, value in messages.items()],
        },
        "kernel_symbols": symbols,
        "buffer_records": records,
    }


@pytest.fixture
def write_json(tmp_path):
    def write(*processes, name="700_results.json"):
        path = tmp_path / name
        path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}, indent=1))
        return path

    return write


def test_events_names_and_devices(write_json, tmp_path):
    path = write_json(process())
    info = convert_input(path, tmp_path / "trace")
    assert (info.profiler, info.rows["kernels"], info.rows["copies"], info.rows["api"]) == ("rocprof", 3, 1, 7)
    table = {
        name: read_table(tmp_path / "trace", name).to_pylist() for name in ("kernels", "copies", "api", "ranges", "devices")
    }
    assert [(row["start_ns"], row["end_ns"], row["correlation"], row["name"]) for row in table["kernels"]] == [
        (40_000, 100_000, 2, "gemm(float*)"),
        (140_000, 200_000, 12, "gemm(float*)"),
        (240_000, 300_000, 22, "gemm(float*)"),
    ]
    (copy,) = table["copies"]
    assert (copy["kind"], copy["bytes"], copy["target_memory"], copy["device"]) == ("HtoD", 4096, "device", 0)
    assert [(row["name"], row["kind"], row["end_ns"] - row["start_ns"]) for row in table["ranges"]] == [
        ("step", "push_pop", 100_000),
        ("beside", "start_end", 30_000),
        ("step", "push_pop", 100_000),
        ("step", "push_pop", 100_000),
    ]
    assert [row["name"] for row in table["devices"]] == ["MI300X", "MI300X, second"]


def test_steps_their_busy_time_and_what_the_gpu_waits_for(write_json):
    """Of each step of 100 us the kernel runs 60. It starts 5 us after its launch; the wait for it ends 1 us after it."""
    trace = speedproof.open_trace(write_json(process()))
    assert (trace.unit, len(trace.iterations())) == ("step", 3)
    assert trace.iterations()["gpu_busy_fraction"].tolist() == pytest.approx([0.6, 0.6, 0.6])
    total_s = dict(trace.idle().groupby("cause")["total_s"].sum())
    assert total_s["queued, not started"] == pytest.approx(15e-6)
    assert total_s["synchronising call"] == pytest.approx(3e-6)
    # Launches are 95 us apart: of each step 15 us before its launch has returned, of the first two 19 us after its wait.
    assert total_s["launch-bound"] == pytest.approx(83e-6)


def test_a_packed_file_is_read_as_the_same(write_json, tmp_path):
    plain = write_json(process())
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert find_format(packed) is ROCPROF_TRACE
    for path, folder in ((plain, "plain"), (packed, "unpacked")):
        convert_input(path, tmp_path / folder)
    assert read_table(tmp_path / "plain", "kernels").equals(read_table(tmp_path / "unpacked", "kernels"))


def test_a_packed_file_that_breaks_off_is_refused(write_json, tmp_path):
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(write_json(process()).read_bytes())[:-20])
    with pytest.raises(RecordError, match=r"packed\.json\.gz"):
        convert_input(packed, tmp_path / "out")


def test_a_file_is_known_by_its_content_under_any_name(write_json):
    assert find_format(write_json(process(), name="other.json")) is ROCPROF_TRACE


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"rocprofiler-sdk-tool": [\n{"metadata": }', "broken JSON (line 2, column 14"),
        ('{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}}]}', "not as rocprofv3 writes it (no 'buffer_records')"),
        ('{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}, "buffer_records": {}}]}', "holds no kernels, copies"),
        ('{"rocprofiler-sdk-tool": {}}', "no list rocprofiler-sdk-tool"),
    ],
)
def test_what_is_broken_is_refused_in_one_line(tmp_path, content, reason):
    path = tmp_path / "x_results.json"
    path.write_text(content)
    with pytest.raises(RecordError) as error:
        convert_input(path, tmp_path / "trace")
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
