import json
import os
import threading
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from speedproof.profilers import chrome_events, kineto
from speedproof.profilers.chrome_events import stream_events
from speedproof.profilers.ranges import Ranges, RecordedRange, Recorder
from speedproof.results.trace_tables import TABLES, TRACE_FILE, read_table, read_trace_info
from speedproof.util.errors import ProfilingError
from speedproof_spleen.training.kineto import kineto_recording


def rows_of(trace, table):
    return read_table(trace, table).to_pylist()


def test_ranges_lie_around_the_operators_that_ran_inside_them(tmp_path):
    """Ranges are timed by one clock and operators by another: a product of 2 ms must start and end inside its range."""
    recorder = Recorder()
    marks = Ranges("push_pop", recorder)
    matrix = torch.ones(400, 400)
    with kineto_recording(recorder, tmp_path / "trace"):
        for _ in range(5):
            with marks.phase("forward"):
                matrix @ matrix
    ranges = [(row["start_ns"], row["end_ns"]) for row in rows_of(tmp_path / "trace", "ranges")]
    products = [
        (row["start_ns"], row["end_ns"]) for row in rows_of(tmp_path / "trace", "operators") if row["name"] == "aten::matmul"
    ]
    assert len(ranges) == len(products) == 5
    tolerance_ns = 20_000
    for (range_start, range_end), (start, end) in zip(ranges, products, strict=True):
        assert range_start - tolerance_ns <= start < end <= range_end + tolerance_ns


def test_threads_are_shared_by_ranges_and_operators(tmp_path):
    recorder = Recorder()
    marks = Ranges("start_end", recorder)

    def work():
        with marks.phase("forward"):
            torch.ones(3).add(1)

    with kineto_recording(recorder, tmp_path / "trace"):
        work()
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    main, other = (row["thread"] for row in rows_of(tmp_path / "trace", "ranges"))
    added = Counter(row["thread"] for row in rows_of(tmp_path / "trace", "operators") if row["name"] == "aten::add")
    assert main in added
    assert {row["thread"]: row["main"] for row in rows_of(tmp_path / "trace", "threads")} == {main: True, other: False}


def test_the_trace_says_that_kineto_made_it(tmp_path):
    with kineto_recording(Recorder(), tmp_path / "trace"):
        torch.ones(3).add(1)
    info = read_trace_info(tmp_path / "trace")
    assert (info.profiler, info.profiler_version) == ("kineto", torch.__version__)
    assert info.rows["operators"] == 2
    assert [row["name"] for row in rows_of(tmp_path / "trace", "operators")] == ["aten::ones", "aten::add"]


def test_a_program_that_fails_leaves_no_trace(tmp_path):
    with pytest.raises(ZeroDivisionError), kineto_recording(Recorder(), tmp_path / "trace"):
        raise ZeroDivisionError
    assert not (tmp_path / "trace").exists()


def event(category, name, start_us, duration_us="1.000", thread=7, **arguments):
    times = {"ts": Decimal(start_us), "dur": Decimal(duration_us)}
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": thread, **times, "args": arguments}


ON_GPU = {"device": 0, "stream": 7}
GPU_EVENTS = [  # as kineto writes them
    event("cuda_runtime", "cudaLaunchKernel", "100.500", "2.250", thread=9, cbid=211, correlation=41),
    event("kernel", "gemm", "110.001", "5.002", correlation=41, **ON_GPU, **{"graph id": 0}),
    event("kernel", "gemm", "120.000", correlation=42, **ON_GPU, **{"graph id": 3}),
    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "130.000", correlation=43, bytes=64, **ON_GPU),
    event("gpu_memset", "Memset (Device)", "140.000", correlation=44, bytes=8, **ON_GPU),
    event("gpu_user_annotation", "epoch", "99.000", "50.000"),
    {"ph": "s", "id": 41, "cat": "ac2g", "name": "ac2g", "pid": 9, "tid": 9, "ts": Decimal("100.5")},
]


def write_chrome(path, events):
    path.write_text(json.dumps({"deviceProperties": [], "traceEvents": events, "traceName": "x"}, default=float, indent=2))
    return path


def test_a_gpu_s_events_become_kernels_copies_and_calls(tmp_path, monkeypatch):
    monkeypatch.setattr(kineto, "MARKS", 1)
    marks = [kineto.ClockMark(1000 * i, 1000 * i) for i in (1, 2)]
    marked = [event("user_annotation", "speedproof clock", start_us, thread=9) for start_us in ("1.000", "2.000")]
    chrome = write_chrome(tmp_path / "k.json", marked + GPU_EVENTS)
    ranges = [RecordedRange("forward", "push_pop", 100_000, 150_000, os.getpid(), 9)]
    devices = TABLES["devices"].empty_table()
    kineto.convert_kineto(chrome, ranges, marks, devices, "2.13", tmp_path / "trace")
    zero_ns = 100_000
    assert [(row["start_ns"] + zero_ns, row["end_ns"] + zero_ns) for row in rows_of(tmp_path / "trace", "ranges")] == [
        (100_000, 150_000)
    ]
    kernels = rows_of(tmp_path / "trace", "kernels")
    assert [(row["start_ns"] + zero_ns, row["end_ns"] + zero_ns, row["correlation"], row["graph"]) for row in kernels] == [
        (110_001, 115_003, 41, None),
        (120_000, 121_000, 42, 3),
    ]
    copies = rows_of(tmp_path / "trace", "copies")
    columns = ("kind", "source_memory", "target_memory", "bytes", "correlation")
    assert [tuple(row[column] for column in columns) for row in copies] == [
        ("HtoD", "pageable", "device", 64, 43),
        ("memset", "unknown", "device", 8, 44),
    ]
    (call,) = rows_of(tmp_path / "trace", "api")
    assert (call["name"], call["correlation"], call["end_ns"] - call["start_ns"]) == ("cudaLaunchKernel", 41, 2250)
    assert all(read_table(tmp_path / "trace", name).schema.equals(TABLES[name]) for name in TABLES)


def test_clocks_of_different_zero_and_speed_are_translated(monkeypatch):
    """The recorder's clock starts at 500 where kineto's shows 9000, and runs at half its speed; wide marks do not count."""
    monkeypatch.setattr(kineto, "MARKS", 2)
    tight, wide = [(500, 500), (1500, 1500)], [(0, 300), (1600, 2000)]
    marks = [kineto.ClockMark(*pair) for pair in (wide[0], tight[0], tight[1], wide[1])]
    translated = kineto._to_kineto_clock(np.array([500, 1000, 1500]), marks, [1, 9000, 11000, 99999])
    assert translated.tolist() == [9000, 10000, 11000]


names = st.text(max_size=20)
event_lists = st.lists(
    st.fixed_dictionaries({"name": names, "ts": st.integers(0, 10**9), "args": st.dictionaries(names, names)})
)


@settings(max_examples=20)
@given(events=event_lists, chunk=st.integers(1, 50), indent=st.sampled_from([None, 2]))
def test_events_are_read_whatever_the_chunk(tmp_path_factory, events, chunk, indent):
    path = tmp_path_factory.mktemp("chrome") / "k.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x"}, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chrome_events, "_CHUNK", chunk)
        assert list(stream_events(path)) == events


@pytest.mark.parametrize("keep", [10, 60])
def test_a_trace_that_breaks_off_is_named(tmp_path, keep):
    path = write_chrome(tmp_path / "k.json", GPU_EVENTS)
    path.write_text(path.read_text()[:keep])
    with pytest.raises(ProfilingError, match=r"k\.json"):
        list(stream_events(path))
    assert not (tmp_path / TRACE_FILE).exists()


@pytest.mark.parametrize(
    "event",
    [
        '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": NaN, "dur": 1, "tid": 1}',
        '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1e300, "dur": 1, "tid": 1}',
        '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "dur": 1, "tid": 1}',
        '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": -5, "tid": 1}',
        '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 5, "tid": "main"}',
        '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 5, "tid": 1, "args": 7}, 7',
    ],
)
def test_events_without_a_time_or_a_place_are_refused_in_one_line(tmp_path, monkeypatch, event):
    recorder = Recorder()

    def export(profiler, path):
        marks = "".join(
            f'{{"cat": "user_annotation", "name": "{kineto.CLOCK_MARK}", "ts": {i}}}, ' for i in range(2 * kineto.MARKS)
        )
        (tmp_path / "kineto.json").write_text(f'{{"traceEvents": [{marks}{event}]}}')
        (tmp_path / "kineto.json").replace(path)

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", export)
    with pytest.raises(ProfilingError) as error, kineto_recording(recorder, tmp_path / "trace"):
        pass
    assert "\n" not in str(error.value)
    assert not (tmp_path / "trace" / TRACE_FILE).exists()


def test_operators_and_functions_are_kept_as_they_called_one_another(tmp_path):
    """Functions are named by file, line and name alone, and move neither the trace's zero nor its end."""
    code = "/home/ada/project/train.py(12): step"
    events = [
        event("python_function", code, "1.000", "900.000"),  # from before the recording to after it
        event("python_function", "<built-in method item of Tensor object at 0x7fe63d86fb70>", "105.000", "30.000"),
        event("python_function", "/usr/lib/python3.11/site-packages/torch/_tensor.py(5): f", "150.000", "2.000"),
        event("cpu_op", "aten::item", "110.000", "20.000"),
        event("cpu_op", "aten::_local_scalar_dense", "112.000", "10.000"),
        event("user_annotation", "epoch", "100.000", "200.000"),
    ]
    kineto.convert_chrome(write_chrome(tmp_path / "t.json", events), tmp_path / "trace")
    rows = rows_of(tmp_path / "trace", "host_calls")
    assert [(row["start_ns"], row["end_ns"], row["kind"], row["name"]) for row in rows] == [
        (0, 200_000, "function", "train.py(12): step"),
        (5_000, 35_000, "function", "<built-in method item of Tensor object>"),
        (10_000, 30_000, "operator", "aten::item"),
        (12_000, 22_000, "operator", "aten::_local_scalar_dense"),
        (50_000, 52_000, "function", "torch/_tensor.py(5): f"),
    ]
    assert [row["name"] for row in rows_of(tmp_path / "trace", "operators")] == ["aten::item"]
