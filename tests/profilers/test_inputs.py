"""Files of any profiler: reports of nsys, and what torch.profiler exports."""

import gzip
import json
import shutil
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from speedproof.profilers.convert import convert_input, is_input, list_inputs, trace_folder
from speedproof.results.trace_tables import TABLES, read_table
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import ProfilingError, RecordError, SpeedproofError
from tests.profilers.exports import MAIN, make_export, strings

PID, AUTOGRAD, ZERO_US = 4711, 4800, 1_700_000_000_000_000


def chrome_events(old=False):
    """Three steps of 1000 us: data until 300, a kernel of 500 launched by another thread in `forward`, and a copy of 50."""
    kernel, memcpy, runtime, operator = (
        ("Kernel", "Memcpy", "Runtime", "Operator") if old else ("kernel", "gpu_memcpy", "cuda_runtime", "cpu_op")
    )
    marks = operator if old else "user_annotation"
    events = [{"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "args": {"name": "python"}}]

    def add(category, name, at, length, tid=PID, pid=PID, **args):
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ZERO_US + at + 0.5, "dur": length}
        events.append(event | {"args": args})

    for step in range(3):
        at, loader = 1000 * step, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        add(marks, f"ProfilerStep#{step}", at, 1000)
        add(marks, loader, at, 300)
        add("user_annotation", "forward", at + 300, 600)
        add(operator, "aten::linear", at + 310, 20)
        add(runtime, "cudaLaunchKernel", at + 320, 5, tid=AUTOGRAD, correlation=2 * step + 1)
        add(kernel, "gemm", at + 330, 500, tid="stream 7", pid=0, device=0, stream=7, correlation=2 * step + 1)
        add(runtime, "cudaMemcpyAsync", at + 860, 5, correlation=2 * step + 2)
        name = "Memcpy HtoD (Pageable -> Device)"
        add(memcpy, name, at + 870, 50, tid="stream 7", pid=0, device=0, stream=7, correlation=2 * step + 2, bytes=9)
        events.append({"ph": "s", "cat": "ac2g", "id": step, "pid": PID, "tid": PID, "ts": ZERO_US})
    return events


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("name", ["trace.json", "worker0.pt.trace.json.gz"])
def test_what_torch_profiler_exports_is_a_trace(tmp_path, name, old):
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": chrome_events(old)}).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    info = convert_input(tmp_path / name, tmp_path / "trace")
    assert (info.profiler, info.rows["ranges"], info.rows["kernels"], info.rows["operators"]) == ("kineto", 9, 3, 3)
    summary = analyze_trace(tmp_path / "trace")
    assert (summary.found.unit, summary.found.name, len(summary.epochs)) == ("step", "ProfilerStep#", 3)
    assert {(round(one.kernel_busy_fraction, 9), round(one.gpu_busy_fraction, 9)) for one in summary.epochs} == {(0.5, 0.55)}
    waits = {idle_gap.cause: round(1e6 * idle_gap.seconds_per_epoch) for idle_gap in summary.idle_gaps}
    assert waits["waiting for data"] == 300
    assert waits["copying"] == 50
    assert summary.unattributed_fraction == 0


def test_the_only_step_that_a_profiler_marked_is_the_iteration(tmp_path):
    """Not the layers that repeat in it: 20 of 40 us, every 45, 30 of them busy, in a step of 2000."""
    events = [event for event in chrome_events() if event.get("name") == "ProfilerStep#0"]
    events[0]["dur"] = 2000
    common = {"ph": "X", "pid": PID}
    for layer in range(20):
        at, launch = ZERO_US + 45 * layer + 5, {"correlation": layer + 1}
        on_gpu = {"device": 0, "stream": 7, **launch}
        events.append(
            common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": PID, "ts": at, "dur": 3, "args": launch}
        )
        events.append(common | {"cat": "kernel", "name": "gemm", "tid": 7, "ts": at + 8, "dur": 30, "args": on_gpu})
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    convert_input(tmp_path / "a.json", tmp_path / "trace")
    summary = analyze_trace(tmp_path / "trace")
    assert (summary.found.name, len(summary.epochs)) == ("ProfilerStep#", 1)
    assert summary.epochs[0].kernel_busy_fraction == pytest.approx(20 * 30 / 2000)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b'{"traceEvents": [', "line 1, column 18: breaks off after 0 events; copy or export it again"),
        ("a.json", b"[]", "holds no events"),
        ("a.json.gz", b"no gzip at all", "line 1, column 1: not JSON"),
        ("a.json.gz", gzip.compress(b'{"traceEvents": [{}, {}]}' * 9, mtime=0)[:-9], "."),
        ("a.json", b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": "noon"}]}', "without a time"),
        ("a.json", b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -5}]}', "end_ns is negative"),
        ("a.nsys-rep", None, "no such file; give the file that `nsys profile` wrote"),
        ("a.txt", b"epoch 1", "not a trace; give an nsys report (.nsys-rep), its SQLite"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, name, content, why):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    try:
        convert_input(tmp_path / name, tmp_path / "trace")
    except SpeedproofError as error:
        assert why in str(error) and "\n" not in str(error)
    else:
        assert why == "."  # a gzip file that lacks its checksum alone


def test_threads_may_be_numbered_in_texts(tmp_path):
    """As torch 1.8 did: without its threads, a trace has no ranges and no calls."""
    events = [event | {"pid": str(event["pid"]), "tid": str(event["tid"])} for event in chrome_events(old=True)]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    (tmp_path / "b.json").write_text(json.dumps({"traceEvents": chrome_events(old=True)}))
    convert_input(tmp_path / "a.json", tmp_path / "one")
    convert_input(tmp_path / "b.json", tmp_path / "other")
    assert all(read_table(tmp_path / "one", name).equals(read_table(tmp_path / "other", name)) for name in TABLES)


def test_two_processes_in_one_file_are_refused(tmp_path):
    events = chrome_events()
    events[1]["pid"] = PID + 1
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    with pytest.raises(ProfilingError, match="2 processes; give the file of one"):
        convert_input(tmp_path / "a.json", tmp_path / "trace")


@pytest.fixture
def exporting(tmp_path):
    """An nsys whose export is a file that lies ready, and one that cannot export."""

    def make(last):
        program = tmp_path / "nsys"
        program.write_text(f"""#!/bin/sh
case "$1" in
  --version) echo "NVIDIA Nsight Systems version 2023.4.4.54-1" ;;
  export) for word in "$@"; do case "$word" in --output=*) out="${{word#--output=}}" ;; esac; done; {last} ;;
esac
""")
        program.chmod(0o755)
        return str(program)

    return make


def test_a_report_is_exported_by_the_nsys_at_hand(tmp_path, exporting):
    ranges = [{"start": 0, "end": 9, "eventType": 59, "globalTid": MAIN, "textId": 1, "text": None, "domainId": 0}]
    ready = make_export(tmp_path / "ready.sqlite", {"NVTX_EVENTS": ranges, "StringIds": strings("epoch", "step")})
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"a report")
    info = convert_input(report, tmp_path / "trace", exporting(f'cp {ready} "$out"'))
    assert (info.profiler, info.rows["ranges"]) == ("nsys", 1)


def test_a_report_that_nsys_cannot_read_names_the_version(tmp_path, exporting):
    report = tmp_path / "run.qdrep"
    report.write_bytes(b"a report")
    with pytest.raises(ProfilingError, match=r"nsys 2023\.4\.4\.54 could not export it .* or give an SQLite file"):
        convert_input(report, tmp_path / "trace", exporting("echo too new >&2; exit 1"))
    assert not shutil.which("no-such-nsys")
    with pytest.raises(
        ProfilingError, match=r"run\.qdrep: a report of .* no-such-nsys is not found; install Nsight Systems, which"
    ):
        convert_input(report, tmp_path / "trace", "no-such-nsys")
    with pytest.raises(RecordError):
        convert_input(tmp_path / "missing.sqlite", tmp_path / "trace")


def test_a_report_is_exported_once(tmp_path, exporting):
    ranges = [{"start": 0, "end": 9, "eventType": 59, "globalTid": MAIN, "textId": 1, "text": None, "domainId": 0}]
    ready = make_export(tmp_path / "ready.sqlite", {"NVTX_EVENTS": ranges, "StringIds": strings("epoch", "step")})
    report, kept = tmp_path / "run.nsys-rep", tmp_path / "out" / "exports"
    report.write_bytes(b"a report")
    with pytest.raises(ProfilingError, match="could not export"):
        convert_input(report, tmp_path / "none", exporting("exit 1"), kept)
    assert not kept.parent.exists()  # nothing half-written stays
    convert_input(report, tmp_path / "first", exporting(f'cp {ready} "$out"'), kept)
    assert convert_input(report, tmp_path / "again", exporting("exit 1"), kept).rows["ranges"] == 1
    report.write_bytes(b"another report")  # of the same name
    with pytest.raises(ProfilingError, match="could not export"):
        convert_input(report, tmp_path / "other", exporting("exit 1"), kept)


@pytest.mark.parametrize(
    ("recorded", "word"), [("2025@1@3@1", "too old: export it with nsys 2025.1"), ("2020@1@0@9", "too new")]
)
def test_a_report_of_another_nsys_says_which_it_needs(tmp_path, exporting, recorded, word):
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(f"NVIDIA Tegra Profiler Report {recorded}-3v0.".encode())
    with pytest.raises(ProfilingError, match=f"recorded by nsys {recorded.replace('@', '.')}, and this one is {word}"):
        convert_input(report, tmp_path / "trace", exporting("exit 1"))


def write_tables(sqlite, folder, kind):
    """Write an export's tables as `nsys export --type parquetdir` or `arrowdir` does."""
    folder.mkdir()
    with sqlite3.connect(sqlite) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = connection.execute(f"SELECT * FROM {name}")
            columns = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            table = pa.table({column: pa.array([row[at] for row in rows]) for at, column in enumerate(columns)})
            if kind == "parquet":
                pq.write_table(table, folder / f"{name}.parquet")
            else:
                with pa.ipc.new_stream(folder / f"{name}.arrow", table.schema) as stream:
                    stream.write_table(table)
    return folder


def write_lines(sqlite, path):
    """Write an export's rows as `nsys export --type jsonlines` does: each names its table, and lacks what is null."""
    with sqlite3.connect(sqlite) as connection, path.open("w") as file:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = connection.execute(f"SELECT * FROM {name}")
            columns = [column[0] for column in cursor.description]
            for row in cursor:
                values = {column: value for column, value in zip(columns, row, strict=True) if value is not None}
                file.write(json.dumps({"table": name, **values}) + "\n")
    return path


def test_json_lines_of_nsys_are_the_trace_that_its_sqlite_file_is(tmp_path):
    texts = ((0, 10, None), (10, None, 'written, "table":"X"'), (20, 99, None))
    rows = [
        {"start": at, "end": at + 5, "eventType": 59, "globalTid": MAIN, "textId": text_id, "text": text, "domainId": 0}
        for at, text_id, text in texts
    ]
    rows.append({"start": 30, "eventType": 59, "globalTid": MAIN, "textId": 10, "domainId": 0})  # never ended
    export = make_export(tmp_path / "a.sqlite", {"NVTX_EVENTS": rows, "StringIds": strings("epoch", "step")})
    lines = write_lines(export, tmp_path / "a.jsonl")
    one, other = (convert_input(path, tmp_path / name) for path, name in ((export, "one"), (lines, "other")))
    assert one == other
    assert one.rows["ranges"] == 4
    assert all(read_table(tmp_path / "one", name).equals(read_table(tmp_path / "other", name)) for name in TABLES)
    with lines.open("a") as file:
        file.write('{"table": "StringIds", "id": \n')
    with pytest.raises(RecordError, match=r"a\.jsonl: damaged \(a.jsonl: JSON parse error"):
        convert_input(lines, tmp_path / "trace")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_folders_of_nsys_are_the_trace_that_its_sqlite_file_is(tmp_path, kind):
    rows = [
        {"start": at, "end": at + 5, "eventType": 59, "globalTid": MAIN, "textId": text_id, "text": text, "domainId": 0}
        for at, text_id, text in ((0, 1, None), (10, None, "written"), (20, 0, None))
    ]
    export = make_export(tmp_path / "a.sqlite", {"NVTX_EVENTS": rows, "StringIds": strings("epoch", "step")})
    folder = write_tables(export, tmp_path / "exported", kind)
    assert is_input(folder) and not is_input(tmp_path)
    one, other = (convert_input(path, tmp_path / name) for path, name in ((export, "one"), (folder, "other")))
    assert one == other
    assert all(read_table(tmp_path / "one", name).equals(read_table(tmp_path / "other", name)) for name in TABLES)
    broken = folder / f"NVTX_EVENTS.{kind}"
    broken.write_bytes(broken.read_bytes()[:50])
    with pytest.raises(RecordError, match=rf"exported: damaged \(NVTX_EVENTS.{kind}"):
        convert_input(folder, tmp_path / "trace")


def test_a_folder_of_ranks_is_read_in_the_order_of_their_numbers(tmp_path):
    for name in ("rank10.nsys-rep", "rank9.nsys-rep", "rank9.sqlite", "rank2.json.gz", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in list_inputs(tmp_path)] == ["rank2.json.gz", "rank9.sqlite", "rank10.nsys-rep"]


@pytest.mark.parametrize(
    ("head", "base_ns"), [({"baseTimeNanoseconds": 1_790_857_026_000_000_000}, 1_790_857_026_000_000_000), ({}, None)]
)
def test_a_trace_is_tied_to_the_systems_clock_if_torch_says_from_when_it_counts(tmp_path, head, base_ns):
    event = {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 4809692876886.651, "dur": 5}
    (tmp_path / "a.json").write_text(json.dumps({**head, "traceEvents": [event]}))
    # The trace's zero is its first event.
    expected = None if base_ns is None else base_ns + 4_809_692_876_886_651
    assert convert_input(tmp_path / "a.json", tmp_path / "trace").unix_zero_ns == expected


def test_a_folder_whose_table_says_that_it_holds_far_more_than_its_bytes_is_refused(tmp_path):
    """Ten million equal rows take a few hundred bytes, and would take 80 MB a column."""
    export = make_export(tmp_path / "a.sqlite", {"StringIds": strings("epoch")})
    folder = write_tables(export, tmp_path / "exported", "parquet")
    rows = pa.table({"start": pa.repeat(pa.scalar(5, pa.int64()), 10_000_000)})
    pq.write_table(rows, folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet", row_group_size=10_000_000)
    with pytest.raises(RecordError, match=r"KERNEL\.parquet: says that its \d+ bytes hold 10000000 rows"):
        convert_input(folder, tmp_path / "trace")


def test_a_folder_of_profiles_is_refused_with_one_of_them(tmp_path):
    (tmp_path / "worker0.pt.trace.json").write_text('{"traceEvents": []}')
    message = r": a folder, not a trace; give a file in it, such as worker0\.pt\.trace\.json$"
    with pytest.raises(RecordError, match=message), trace_folder(tmp_path):
        pass
