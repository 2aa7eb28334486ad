import base64
import random
import sqlite3
import struct
import tracemalloc
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedproof.profilers import nsys_sqlite as export_file
from speedproof.profilers.nsys_export import convert_export
from speedproof.profilers.python_stacks import read_innermost
from speedproof.profilers.required_ranges import require_ranges
from speedproof.results.trace_tables import TABLES, TRACE_FILE, read_table, read_trace_info
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import ProfilingError, RecordError
from tests.profilers.exports import MAIN, make_export, strings, thread
from tests.profilers.sums import totals

TRACES = ["mfu_2gpu_before", "mfu_2gpu_after", "power_iteration__baseline"]


def convert(tmp_path, tables, schema="3.20.2"):
    info = convert_export(make_export(tmp_path / "e.sqlite", tables, schema), tmp_path / "trace")
    return info, {name: read_table(tmp_path / "trace", name).to_pylist() for name in TABLES}


def nvtx(start, end, name, kind=59, on=1, **more):
    return {"start": start, "end": end, "eventType": kind, "globalTid": thread(on), "text": name, "domainId": 0, **more}


def sample(start, payload, on=900, process=MAIN, category=1):
    more = {"domainId": 1, "category": category, "binaryData": payload}
    return {**nvtx(start, None, None, kind=34), "globalTid": thread(on, process), **more}


def stack(*frames, count=None):
    """Return a payload of nsys' Python sampling; what means nothing is all ones."""
    words = struct.pack("<IIII", 1, 1, len(frames) if count is None else count, 2**32 - 1)
    return words + b"".join(struct.pack("<QQII", *frame, 2**32 - 1) for frame in frames)


def test_the_innermost_python_function_of_each_sample_is_read(tmp_path):
    other = 281474976710656 | 600 << 24  # a process in which domain 1 is the program's own
    work, file, outer = 10, 20, 30
    info, trace = convert(
        tmp_path,
        {
            "StringIds": strings("&lt;lambda&gt;", "/home/me/a.py", "outer"),
            "NVTX_EVENTS": [
                nvtx(0, None, "Python Backtrace", kind=75, domainId=1),
                {**nvtx(0, None, "mine", kind=75, domainId=1), "globalTid": thread(1, other)},
                sample(10, stack((work, file, 3), (outer, file, 9))),
                sample(15, stack((outer, file, 9)), category=2),  # of another Python thread
                sample(20, base64.b64encode(stack((outer, file, 9))).decode()),
                sample(30, stack((work, file, 3), count=2)),  # cut short
                sample(40, stack((99, file, 3))),  # a name that is nowhere
                nvtx(50, None, "by the program itself", kind=34, domainId=1, category=1),
                sample(60, stack((work, file, 3)), process=other),
            ],
        },
    )
    assert trace["python_samples"] == [
        {"start_ns": 0, "process": 0, "thread": 0, "name": "<lambda> (a.py)"},  # the first event's start is the trace's zero
        {"start_ns": 10, "process": 0, "thread": 0, "name": "outer (a.py)"},
    ]
    assert info.warnings == ["2 of Python's call stacks are of a form that is not known"]


@given(st.binary(max_size=200) | st.text(max_size=80))
def test_a_payload_that_is_no_stack_is_none(payload):
    found = read_innermost(payload)
    size = len(payload) if isinstance(payload, bytes) else len(base64.b64decode(payload)) if found else 0
    assert found is None or (size - 16) % 24 == 0


def test_an_export_without_stacks_says_where_they_are(tmp_path):
    info, _ = convert(tmp_path, {"NVTX_EVENTS": [nvtx(0, None, "Python Backtrace", kind=75), nvtx(1, 2, "epoch")]})
    assert info.warnings == ["Python's call stacks are not in this export; give the report that it was made of, `.nsys-rep`"]


def test_ranges_are_read_by_kind_and_marks_are_left_out(tmp_path):
    _, trace = convert(
        tmp_path,
        {
            "StringIds": strings("epoch", "update"),
            "NVTX_EVENTS": [
                {**nvtx(1000, 5000, None, on=500), "textId": 10},
                {**nvtx(1500, 2500, None, kind=60, on=500, endGlobalTid=thread(501)), "textId": 20},
                nvtx(1600, 1700, "read from a file", kind=70, on=501),
                nvtx(1650, None, "a mark", kind=34),
                nvtx(1000, None, "a domain", kind=75),
            ],
        },
    )
    assert [(row["name"], row["kind"], row["start_ns"], row["end_ns"]) for row in trace["ranges"]] == [
        ("epoch", "push_pop", 0, 4000),
        ("update", "start_end", 500, 1500),
        ("read from a file", "push_pop", 600, 700),
    ]
    assert [(row["thread"], row["end_thread"]) for row in trace["ranges"]] == [(0, 0), (0, 1), (1, 1)]
    assert trace["threads"] == [
        {"process": 0, "thread": 0, "main": True, "name": ""},
        {"process": 0, "thread": 1, "main": False, "name": ""},
    ]


@pytest.mark.parametrize("end", [None, 9000])
def test_a_range_that_never_ends_has_no_end(tmp_path, end):
    """Older versions leave the end empty, newer ones write the recording's."""
    info, trace = convert(
        tmp_path,
        {
            "ANALYSIS_DETAILS": [{"duration": 9000}],
            "NVTX_EVENTS": [nvtx(10, 20, "ends"), nvtx(30, end, "never", kind=60, endGlobalTid=thread(1))],
        },
    )
    never = trace["ranges"][1]
    assert (never["end_ns"], never["end_thread"]) == (None, None)
    assert trace["ranges"][0]["end_ns"] == 10
    assert info.warnings == ["1 ranges never ended"]


def test_the_numbers_in_the_names_of_autograd_are_dropped(tmp_path):
    names = [
        "aten::add, seq = 7, op_id = 12",
        "aten::add, op_id = 13",
        "AddBackward0, seq = 7, op_id = 14, sizes = [[2]]",
        "a, b",
    ]
    _, trace = convert(tmp_path, {"NVTX_EVENTS": [nvtx(i, i + 1, name) for i, name in enumerate(names)]})
    assert [row["name"] for row in trace["ranges"]] == ["aten::add", "aten::add", "AddBackward0", "a, b"]


def gpu(start, end, **more):
    return {"start": start, "end": end, "deviceId": 0, "streamId": 7, "correlationId": 3, "globalPid": MAIN, **more}


def test_kernels_with_and_without_graphs(tmp_path):
    info, trace = convert(
        tmp_path,
        {
            "StringIds": strings("gemm<float>", "gemm"),
            "CUPTI_ACTIVITY_KIND_KERNEL": [
                gpu(100, 200, demangledName=10, shortName=20),
                gpu(200, 260, demangledName=10, shortName=20, correlationId=0, graphNodeId=77, graphId=5),
                gpu(300, 301, demangledName=999, shortName=20),
            ],
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [gpu(270, 290, graphId=5, graphExecId=6)],
        },
    )
    seen = [(row["name"], row["start_ns"], row["end_ns"], row["correlation"], row["graph"]) for row in trace["kernels"]]
    assert seen == [
        ("gemm<float>", 0, 100, 3, None),
        ("gemm<float>", 100, 160, None, 5),
        ("CUDA graph", 170, 190, 3, 6),
        ("unknown", 200, 201, 3, None),
    ]
    assert "1 executions of CUDA graphs were traced as a whole: each counts as one kernel" in info.warnings[0]
    assert {(row["process"], row["device"], row["stream"]) for row in trace["kernels"]} == {(0, 0, 7)}


def graph_launches(*starts):
    name = {"nameId": 20, "globalTid": thread(1)}
    return [{"start": start, "end": start + 5, "correlationId": 100 + number, **name} for number, start in enumerate(starts)]


def node(start, end, graph, number):
    return gpu(start, end, demangledName=10, correlationId=None, graphNodeId=graph << 32 | number)


def graph_nodes():
    """Graph 1 has two kernels and a fill, graph 2 one kernel; the first runs twice, with the other between."""
    first, second = ([node(at, at + 4, 1, 1), node(at + 4, at + 8, 1, 2)] for at in (20, 50))
    fills = [node(at, at + 3, 1, 3) | {"bytes": 64, "memKind": 2} for at in (28, 58)]
    return [*first, node(40, 45, 2, 1), *second], fills


def convert_graphs(tmp_path, calls, kernels, fills):
    names = {"StringIds": strings("gemm", "cudaGraphLaunch_v10000")}
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_MEMSET": fills, "CUPTI_ACTIVITY_KIND_RUNTIME": calls}
    info, trace = convert(tmp_path, {**names, **tables})
    return info, [row["correlation"] for row in trace["kernels"]], [row["correlation"] for row in trace["copies"]]


def test_nodes_of_graphs_without_a_launch_of_their_own_belong_to_that_of_their_graph(tmp_path):
    info, kernels, fills = convert_graphs(tmp_path, graph_launches(5, 12, 19), *graph_nodes())
    assert (kernels, fills) == ([100, 100, 101, 102, 102], [100, 102])
    assert info.warnings == []


@pytest.mark.parametrize(
    ("calls", "change"),
    [
        ((5, 12), lambda kernels: None),  # a launch is missing
        ((5, 12, 55), lambda kernels: None),  # the third launch comes after the third execution
        ((5, 12, 19), lambda kernels: kernels.pop()),  # of an execution a node is missing
        ((5, 12, 19), lambda kernels: kernels[2].update(start=26)),  # two executions at once
    ],
)
def test_nodes_of_graphs_whose_launch_is_not_certain_have_none(tmp_path, calls, change):
    kernels, fills = graph_nodes()
    change(kernels)
    info, *found = convert_graphs(tmp_path, graph_launches(*calls), kernels, fills)
    assert {one for correlations in found for one in correlations} == {None}
    assert info.warnings == [
        f"{len(kernels) + 2} kernels and copies of CUDA graphs cannot be joined to the launches of these graphs"
    ]


def test_copies_and_fills_have_kinds_memories_and_bytes(tmp_path):
    _, trace = convert(
        tmp_path,
        {
            "CUPTI_ACTIVITY_KIND_MEMCPY": [
                gpu(0, 10, bytes=64, copyKind=1, srcKind=0, dstKind=2),
                gpu(10, 20, bytes=32, copyKind=2, srcKind=2, dstKind=1),
                gpu(20, 30, bytes=16, copyKind=11, srcKind=4, dstKind=99),
            ],
            "CUPTI_ACTIVITY_KIND_MEMSET": [gpu(5, 6, bytes=8, value=0, memKind=2)],
            "ENUM_CUDA_MEMCPY_OPER": [
                {"id": 1, "name": "CUDA_MEMCPY_KIND_HTOD"},
                {"id": 2, "name": "CUDA_MEMCPY_KIND_DTOH"},
                {"id": 11, "name": "CUDA_MEMCPY_KIND_UVM_HTOD"},
            ],
        },
    )
    columns = ("kind", "source_memory", "target_memory", "bytes")
    assert [tuple(row[column] for column in columns) for row in trace["copies"]] == [
        ("HtoD", "pageable", "device", 64),
        ("memset", "unknown", "device", 8),
        ("DtoH", "device", "pinned", 32),
        ("UVM HtoD", "managed", "unknown", 16),
    ]


def test_calls_lose_their_version_but_not_their_name(tmp_path):
    calls = ["cudaLaunchKernel_v7000", "cuMemAlloc_v2", "cudaStreamGetCaptureInfo_v2_v11030"]
    rows = [
        {"start": i, "end": i + 5, "globalTid": thread(1), "correlationId": i, "nameId": 10 * (i + 1)}
        for i in range(len(calls))
    ]
    _, trace = convert(tmp_path, {"StringIds": strings(*calls), "CUPTI_ACTIVITY_KIND_RUNTIME": rows})
    assert [row["name"] for row in trace["api"]] == ["cudaLaunchKernel", "cuMemAlloc_v2", "cudaStreamGetCaptureInfo_v2"]


def test_a_gpu_has_one_number_in_all_processes(tmp_path):
    """Two processes that each see one GPU of the machine both call it 0."""
    other = MAIN + (1 << 24)
    _, trace = convert(
        tmp_path,
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": [gpu(0, 10, shortName=1), gpu(5, 15, shortName=1, globalPid=other)],
            "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 3, "cudaId": 0, "pid": 500}, {"gpuId": 4, "cudaId": 0, "pid": 501}],
            "TARGET_INFO_GPU": [{"id": 3, "name": "NVIDIA H200"}, {"id": 4, "name": "NVIDIA H200"}],
        },
    )
    assert [(row["process"], row["device"]) for row in trace["kernels"]] == [(0, 3), (1, 4)]
    assert trace["devices"] == [{"device": 3, "name": "NVIDIA H200"}, {"device": 4, "name": "NVIDIA H200"}]


def test_threads_keep_generic_names_only(tmp_path):
    _, trace = convert(
        tmp_path,
        {
            "StringIds": strings("pt_autograd_0", "ada's secret project"),
            "NVTX_EVENTS": [nvtx(0, 1, "a", on=1), nvtx(1, 2, "b", on=2)],
            "ThreadNames": [{"globalTid": thread(1), "nameId": 10}, {"globalTid": thread(2), "nameId": 20}],
        },
    )
    assert [row["name"] for row in trace["threads"]] == ["pt_autograd_0", ""]


def test_names_stand_in_the_event_or_in_the_table_of_strings(tmp_path):
    """Texts are joined and cut again by their length in bytes: letters of several bytes, empty ones and none at all."""
    rows = [
        nvtx(0, 1, "größer, µs"),
        {**nvtx(1, 2, None), "textId": 10},
        nvtx(2, 3, ""),
        nvtx(3, 4, None),
        nvtx(4, 5, "🫁 spleen\nline, op_id = 4"),
        {**nvtx(5, 6, "its own"), "textId": 10},
    ]
    _, trace = convert(tmp_path, {"StringIds": strings("of the table, seq = 3"), "NVTX_EVENTS": rows})
    names = [row["name"] for row in trace["ranges"]]
    assert names == ["größer, µs", "of the table", "", "", "🫁 spleen\nline", "its own"]


def test_what_is_no_utf8_is_replaced_and_the_rest_is_read(tmp_path):
    export = make_export(
        tmp_path / "e.sqlite",
        {
            "StringIds": strings("kernel \N{BALLOT X}", "gemm"),
            "NVTX_EVENTS": [nvtx(0, 1, "plain"), nvtx(1, 2, "gr\N{BALLOT X}sser"), nvtx(2, 3, None)],
            "CUPTI_ACTIVITY_KIND_KERNEL": [gpu(0, 1, demangledName=10), gpu(1, 2, demangledName=20)],
        },
    )
    export.write_bytes(export.read_bytes().replace("\N{BALLOT X}".encode(), b"\xff\xfe\xfd"))
    convert_export(export, tmp_path / "trace")
    lost = 3 * "\N{REPLACEMENT CHARACTER}"
    assert [row["name"] for row in read_table(tmp_path / "trace", "ranges").to_pylist()] == ["plain", f"gr{lost}sser", ""]
    assert [row["name"] for row in read_table(tmp_path / "trace", "kernels").to_pylist()] == [f"kernel {lost}", "gemm"]


def test_a_damaged_table_definition_is_told_in_one_line(tmp_path):
    export = make_export(tmp_path / "e.sqlite", {"NVTX_EVENTS": [nvtx(0, 1, "a")]})
    export.write_bytes(export.read_bytes().replace(b"CREATE TABLE NVTX_EVENTS (start", b"CREATE TABLE NVTX_EVENTS \n\nt(rt", 1))
    with pytest.raises(RecordError) as error:
        convert_export(export, tmp_path / "trace")
    assert "damaged (malformed database schema" in one_line(error)
    assert len(one_line(error)) < 400


def test_absent_tables_and_columns_are_empty(tmp_path):
    info, trace = convert(tmp_path, {"StringIds": [{"id": 1, "value": "x"}]}, schema="3.0.0")
    assert all(rows == [] for rows in trace.values())
    assert info.rows == dict.fromkeys(TABLES, 0)
    assert read_trace_info(tmp_path / "trace") == info
    assert (info.profiler, info.profiler_version, info.source_schema) == ("nsys", "2025.3.1.90", "3.0.0")


times = st.integers(min_value=0, max_value=10**12)
events = st.lists(
    st.tuples(times, st.integers(0, 10**9), st.integers(1, 4), st.sampled_from(["a", 'b "q"', "c,\n", ""])), max_size=30
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=events, rows_at_once=st.integers(1, 7))
def test_every_range_arrives_whatever_the_chunk(tmp_path, monkeypatch, events, rows_at_once):
    monkeypatch.setattr(export_file, "ROWS_AT_ONCE", rows_at_once)
    (tmp_path / "e.sqlite").unlink(missing_ok=True)
    rows = [nvtx(start, start + length, name, on=number) for start, length, number, name in events]
    _, trace = convert(tmp_path, {"NVTX_EVENTS": rows} if rows else {})
    zero = min((start for start, *_ in events), default=0)
    expected = Counter((start - zero, start - zero + length, name) for start, length, _, name in events)
    assert Counter((row["start_ns"], row["end_ns"], row["name"]) for row in trace["ranges"]) == expected
    starts = [row["start_ns"] for row in trace["ranges"]]
    assert starts == sorted(starts)
    assert len(trace["threads"]) == len({number for _, _, number, _ in events})


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


def test_what_is_no_export_is_refused_in_one_line(tmp_path):
    with pytest.raises(RecordError) as error:
        convert_export(tmp_path / "absent.sqlite", tmp_path / "trace")
    assert "absent.sqlite: not readable" in one_line(error)
    (tmp_path / "report.nsys-rep").write_bytes(b"NSYS" * 100)
    with pytest.raises(RecordError) as error:
        convert_export(tmp_path / "report.nsys-rep", tmp_path / "trace")
    assert "not an SQLite file" in one_line(error)
    with pytest.raises(RecordError) as error:
        convert(tmp_path, {"customers": [{"id": 1}]}, schema=None)
    assert "not an export of Nsight Systems" in one_line(error)
    assert not (tmp_path / "trace").exists()


def test_a_newer_major_schema_is_refused(tmp_path):
    with pytest.raises(RecordError) as error:
        convert(tmp_path, {"StringIds": strings("x")}, schema="4.1.0")
    assert "schema 4.1.0 is newer" in one_line(error)


def test_a_newer_minor_schema_is_read_and_told(tmp_path):
    info, _ = convert(tmp_path, {"StringIds": strings("x")}, schema="3.26.1")
    assert info.warnings == ["schema 3.26.1 is newer than 3.25: what it adds is not read"]


@pytest.mark.parametrize("schema", ["3.0.0", "3.1", "3.9.4", "3.18.1", "3.25.0"])
def test_known_schemas_are_read_without_a_word(tmp_path, schema):
    info, _ = convert(tmp_path, {"StringIds": strings("x")}, schema=schema)
    assert (info.source_schema, info.warnings) == (schema, [])


@pytest.mark.parametrize("kept", [50, 100, 5000, -4096, -1])
def test_a_truncated_file_is_refused_in_one_line(tmp_path, kept):
    rows = [nvtx(start, start + 5, "a") for start in range(1000)]
    whole = make_export(tmp_path / "whole.sqlite", {"NVTX_EVENTS": rows}).read_bytes()
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(whole[:kept])
    with pytest.raises(RecordError, match=r"cut\.sqlite: (truncated \(\d+ of \d+ bytes\)|damaged)") as error:
        convert_export(cut, tmp_path / "trace")
    one_line(error)
    assert not (tmp_path / "trace").exists()


def test_text_where_a_number_belongs_is_damage(tmp_path):
    with pytest.raises(RecordError) as error:
        convert(tmp_path, {"NVTX_EVENTS": [nvtx("soon", 5, "a")]})
    assert "damaged" in one_line(error)


def test_a_mutated_file_converts_or_fails_in_one_line(tmp_path):
    whole = make_export(
        tmp_path / "whole.sqlite",
        {
            "StringIds": strings("epoch", "gemm"),
            "NVTX_EVENTS": [{**nvtx(i, i + 5, None), "textId": 10} for i in range(300)],
            "CUPTI_ACTIVITY_KIND_KERNEL": [gpu(i, i + 3, demangledName=20) for i in range(300)],
        },
    ).read_bytes()
    chance = random.Random(0)
    for attempt in range(60):
        content = bytearray(whole[: chance.randrange(100, len(whole))] if attempt % 3 == 0 else whole)
        for _ in range(chance.randrange(1, 40)):
            content[chance.randrange(16, len(content))] = chance.randrange(256)
        mutated, trace = tmp_path / "mutated.sqlite", tmp_path / f"trace-{attempt}"
        mutated.write_bytes(content)
        try:
            convert_export(mutated, trace)
        except RecordError as error:
            assert "\n" not in str(error)
            assert not (trace / TRACE_FILE).exists()
        else:
            assert (trace / TRACE_FILE).exists()


def test_missing_ranges_are_named_with_cause_and_cure(tmp_path):
    convert(tmp_path, {"NVTX_EVENTS": [nvtx(0, 1, "epoch")]})
    require_ranges(tmp_path / "trace", ["epoch"])
    with pytest.raises(ProfilingError, match="no range `forward`"):
        require_ranges(tmp_path / "trace", ["epoch", "forward"])
    (tmp_path / "e.sqlite").unlink()
    convert(tmp_path, {"StringIds": strings("x")})
    with pytest.raises(ProfilingError, match=r"nvtx==0\.2\.11"):
        require_ranges(tmp_path / "trace", ["epoch"])


@pytest.fixture(params=TRACES)
def strangers(request, samples, tmp_path):
    """Yield a connection to a trace that others made, and the folder of its conversion."""
    path = samples / "traces" / f"{request.param}.sqlite"
    convert_export(path, tmp_path / "trace")
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        yield connection, tmp_path / "trace"


def grouped(connection, query):
    return {name: (calls, total_ns) for name, calls, total_ns in connection.execute(query)}


def test_kernels_of_strangers_sum_to_the_nanosecond(strangers):
    connection, trace = strangers
    query = """SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName
               GROUP BY value"""
    assert totals(trace, "kernels") == grouped(connection, query)


def test_calls_of_strangers_sum_to_the_nanosecond(strangers):
    connection, trace = strangers
    query = """SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId
               GROUP BY value"""
    by_version = grouped(connection, query)
    found = totals(trace, "api")
    assert sum(calls for calls, _ in found.values()) == sum(calls for calls, _ in by_version.values())
    assert sum(total for _, total in found.values()) == sum(total for _, total in by_version.values())
    assert found["cudaLaunchKernel"] == by_version["cudaLaunchKernel_v7000"]


def test_copies_of_strangers_sum_to_the_nanosecond(strangers):
    connection, trace = strangers
    query = """SELECT name, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY
               JOIN ENUM_CUDA_MEMCPY_OPER ON id = copyKind GROUP BY name"""
    names = {"CUDA_MEMCPY_KIND_HTOD": "HtoD", "CUDA_MEMCPY_KIND_DTOH": "DtoH", "CUDA_MEMCPY_KIND_DTOD": "DtoD"}
    expected = {names[name]: sums for name, sums in grouped(connection, query).items()}
    found = totals(trace, "copies", "kind")
    found.pop("memset", None)
    assert found == expected


def test_ranges_of_strangers_sum_to_the_nanosecond(strangers):
    connection, trace = strangers
    query = """SELECT 1, count(*), sum(end - start) FROM NVTX_EVENTS WHERE eventType IN (59, 60)"""
    found = totals(trace, "ranges").values()
    assert {1: (sum(calls for calls, _ in found), sum(total_ns for _, total_ns in found))} == grouped(connection, query)


def test_processes_and_gpus_of_strangers_are_told_apart(samples, tmp_path):
    """Two ranks, each with a main and an autograd thread that launch: counted with plain SQL on globalTid and globalPid."""
    convert_export(samples / "traces" / "mfu_2gpu_before.sqlite", tmp_path / "trace")
    calls = read_table(tmp_path / "trace", "api").to_pylist()
    by_thread = Counter((row["process"], row["thread"]) for row in calls)
    main = {row["thread"] for row in read_table(tmp_path / "trace", "threads").to_pylist() if row["main"]}
    assert sorted(by_thread.values()) == [130, 139, 3558, 3639]
    assert sorted(count for (_, number), count in by_thread.items() if number in main) == [3558, 3639]
    kernels = read_table(tmp_path / "trace", "kernels").to_pylist()
    assert {(row["process"], row["device"]) for row in kernels} == {(0, 1), (1, 0)}


def test_what_nsys_says_of_lost_events_is_passed_on(tmp_path):
    said = [
        (1, "CUDA injection initialized successfully."),
        (2, "Not all CUDA events might have been collected."),
        (2, "No OpenGL events collected. Does the process use OpenGL?"),
        (2, "No NVTX events collected. Does the process use NVTX?"),
        (2, "Failed to load symbols for VMA 0x7fc7-0x7fc8 from 'libm.so'"),
        (3, "Profiling was\nstopped."),
        (1, "3 NVTX events were dropped."),
        (None, None),
    ]
    rows = [{"timestamp": 1, "severity": severity, "text": text} for severity, text in said]
    export = make_export(tmp_path / "e.sqlite", {"DIAGNOSTIC_EVENT": rows, "StringIds": strings("x")})
    info = convert_export(export, tmp_path / "trace")
    assert info.warnings == [
        "nsys says: 3 NVTX events were dropped.",
        "nsys says: Not all CUDA events might have been collected.",
        "nsys says: Profiling was stopped.",
    ]


def test_complaints_about_processes_without_cuda_are_told_apart(tmp_path):
    """One process calls CUDA; nsys complains about it, and about a loader's."""
    said = [
        (MAIN, "Not all CUDA events might have been collected."),
        (MAIN + (1 << 24), "No CUDA events collected. Does the process use CUDA?"),
    ]
    tables = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": CREATED,
        "DIAGNOSTIC_EVENT": [{"severity": 2, "text": text, "globalPid": thread >> 24 << 24} for thread, text in said],
    }
    info, _ = convert(tmp_path, {"StringIds": strings("x"), **tables})
    assert info.warnings == [
        "nsys says of a process without CUDA calls: No CUDA events collected. Does the process use CUDA?",
        "nsys says: Not all CUDA events might have been collected.",
    ]


UNSTARTED = "CUDA profiling might have not been started correctly."
CREATED = [{"start": 1, "end": 5, "globalTid": MAIN, "correlationId": 1, "nameId": 10}]
GPUS = [{"id": 0, "name": "NVIDIA A100"}]


@pytest.mark.parametrize(
    ("asked", "tables", "tracing"),
    [
        ("true", {"TARGET_INFO_GPU": GPUS}, "on"),
        ("true", {"TARGET_INFO_GPU": GPUS, "CUPTI_ACTIVITY_KIND_RUNTIME": CREATED}, "on"),
        ("true", {"TARGET_INFO_GPU": GPUS, "DIAGNOSTIC_EVENT": [{"severity": 2, "text": UNSTARTED}]}, "failed"),
        ("false", {"TARGET_INFO_GPU": GPUS}, "off"),
        ("false", {"CUPTI_ACTIVITY_KIND_RUNTIME": CREATED}, "on"),  # that it was not asked for may be wrong
        (None, {"TARGET_INFO_GPU": GPUS}, "unknown"),
        ("true", {"TARGET_INFO_SYSTEM_ENV": GPUS, "DIAGNOSTIC_EVENT": [{"severity": 2, "text": UNSTARTED}]}, "unseen"),
        ("true", {"TARGET_INFO_GPU": GPUS, "DIAGNOSTIC_EVENT": [{"severity": 1, "text": "CUDA injection initialized."}]}, "on"),
        ("false", {"VULKAN_WORKLOAD": CREATED}, "unread"),
    ],
)
def test_no_gpu_was_used_only_if_the_export_would_show_one(tmp_path, asked, tables, tracing):
    """In a machine without a GPU, nsys says that CUDA did not start as well."""
    settings = [] if asked is None else [{"name": "PROCESS_0:COLLECT_CUDA_TRACE", "value": asked}]
    tables = {"StringIds": strings("cuInit"), "NVTX_EVENTS": [nvtx(50, 5000, "epoch")], **tables}
    info, _ = convert(tmp_path, tables | ({"META_DATA_CAPTURE": settings} if settings else {}))
    assert info.gpu_tracing == tracing
    called = "called" if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables else None
    assert analyze_trace(tmp_path / "trace").gpu_untraced == (called if tracing == "on" else tracing)


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("rocpd_string_0000", "a database of rocprofv3; record JSON: rocprofv3"),
        ("StringTable", "a database of nvprof, which is not read; profile again with nsys"),
        ("users", "not an export of Nsight Systems; make one with `nsys export"),
    ],
)
def test_another_tools_database_is_named(tmp_path, table, what):
    with pytest.raises(RecordError, match=what):
        convert_export(make_export(tmp_path / "a.db", {table: [{"id": 1}]}, schema=None), tmp_path / "trace")


def test_an_empty_export_is_refused_with_what_nsys_says(tmp_path):
    said = "Installed CUDA driver version (13.1) is not supported by this build of Nsight Systems."
    convert(tmp_path, {"StringIds": strings("x"), "DIAGNOSTIC_EVENT": [{"severity": 2, "text": said}]})
    with pytest.raises(RecordError, match=r"kernels or calls: nsys says: Installed CUDA driver version \(13.1\) is not supp"):
        analyze_trace(tmp_path / "trace")


def test_samples_of_gpu_metrics_are_read_by_gpu_and_name(tmp_path):
    kind = 281479271677952  # GPU 0 of virtual machine 1; the last byte is the GPU
    names = [(0, "GPC Clock Frequency [MHz]"), (7, "SM Active [Throughput %]")]
    samples = [(-64, 0, 0, 1), (100, 0, 0, 1980), (100, 0, 7, 40), (200, 1, 7, 50), (300, 0, 9, 1), (400, 0, 7, None)]
    info, trace = convert(
        tmp_path,
        {
            "StringIds": strings("epoch"),
            "NVTX_EVENTS": [nvtx(50, 5000, "epoch")],
            "TARGET_INFO_GPU_METRICS": [
                {"typeId": kind | gpu, "metricId": number, "metricName": name} for gpu in (0, 1) for number, name in names
            ],
            "GPU_METRICS": [
                {"rawTimestamp": at, "timestamp": at, "typeId": kind | gpu, "metricId": metric, "value": value}
                for at, gpu, metric, value in samples
            ],
        },
    )
    assert [tuple(row.values()) for row in trace["metrics"]] == [
        (50, 0, "GPC Clock Frequency [MHz]", 1980),
        (50, 0, "SM Active [Throughput %]", 40),
        (150, 1, "SM Active [Throughput %]", 50),
    ]
    assert info.warnings == ["2 samples of GPU metrics have no name, no value or one below zero"]


def test_reading_metrics_takes_as_much_as_their_samples(tmp_path):
    tracemalloc.start()
    _, trace = convert(
        tmp_path,
        {
            "StringIds": strings("epoch"),
            "NVTX_EVENTS": [nvtx(50, 5000, "epoch")],
            # As many GPUs as metrics, each sampled once: all pairs would be nine million.
            "TARGET_INFO_GPU_METRICS": [{"typeId": n, "metricId": n, "metricName": "SM"} for n in range(3000)],
            "GPU_METRICS": [{"timestamp": 100, "typeId": n, "metricId": n, "value": 1} for n in range(3000)],
        },
    )
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(trace["metrics"]) == 3000
    assert most_bytes < 20 * 1000 * 1000


def test_allocations_and_frees_are_read_with_their_memory(tmp_path):
    events = [(60, 512, 2, 0), (70, 512, 5, 1), (80, 8, 1, 0), (90, None, 2, 0), (95, 1, 2, 9)]
    info, trace = convert(
        tmp_path,
        {
            "StringIds": strings("epoch"),
            "NVTX_EVENTS": [nvtx(50, 5000, "epoch", on=500)],
            "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 3, "cudaId": 0, "pid": 500}],
            "CUDA_GPU_MEMORY_USAGE_EVENTS": [
                {"start": at, "globalPid": MAIN, "deviceId": 0, "address": 4096, "bytes": size, "memKind": kind,
                 "memoryOperationType": operation}
                for at, size, kind, operation in events
            ],
        },
    )  # fmt: skip
    assert [tuple(row.values()) for row in trace["memory"]] == [
        (10, 0, 3, 4096, 512, "device", "allocation"),
        (20, 0, 3, 4096, 512, "device", "deallocation"),
        (30, 0, 3, 4096, 8, "pinned", "allocation"),
    ]
    assert info.warnings == ["2 allocations and frees of memory are incomplete, and left out"]


def test_a_sample_of_the_cpu_is_named_by_its_innermost_known_function(tmp_path):
    def frame(sample, depth, symbol, **more):
        return {"id": sample, "stackDepth": depth, "symbol": symbol, "module": 50, "unresolved": None, **more}

    _, trace = convert(
        tmp_path,
        {
            "StringIds": strings("epoch", "0xBEEF", "inner", "outer", "/home/somebody/lib/libx.so"),
            "NVTX_EVENTS": [nvtx(50, 5000, "epoch", on=500)],
            "COMPOSITE_EVENTS": [
                {"id": number, "start": 100 * number, "globalTid": thread(500)} for number in (1, 2, 3, 4)
            ],
            "SAMPLING_CALLCHAINS": [
                frame(1, 1, 40), frame(1, 0, 30),
                frame(2, 0, 20, unresolved=1), frame(2, 1, 40), frame(2, 2, 30),
                frame(3, 0, 20, unresolved=1),
            ],
        },
    )  # fmt: skip
    assert [(row["start_ns"], row["thread"], row["name"]) for row in trace["cpu_samples"]] == [
        (50, 0, "inner"),
        (150, 0, "outer"),
        (250, 0, "in libx.so"),
        (350, 0, "unknown"),
    ]


@pytest.mark.parametrize(
    ("started", "zero_ns"), [([{"utcEpochNs": 1_795_666_619_000_000_000}], 1_795_666_619_000_000_010), ([], None)]
)
def test_a_trace_is_tied_to_the_systems_clock_if_nsys_says_when_it_started(tmp_path, started, zero_ns):
    tables = {"NVTX_EVENTS": [nvtx(10, 20, "first")], **({"TARGET_INFO_SESSION_START_TIME": started} if started else {})}
    assert convert(tmp_path, tables)[0].unix_zero_ns == zero_ns
