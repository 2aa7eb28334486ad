"""XPlane files: xprof reads them, and stands here as objects of the form that its version 2.24.2 gives."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

import speedproof
from speedproof.profilers.convert import convert_input
from speedproof.results.trace_tables import read_table
from speedproof.util.errors import RecordError


def named(name, **parts):
    return SimpleNamespace(name=name, **parts)


def event(name, start_us, duration_us, **stats):
    return named(name, start_ns=1000.0 * start_us, duration_ns=1000.0 * duration_us, stats=tuple(stats.items()))


def step_events(step):
    """A step of 100 us: its launch takes 5 us, its kernel of 60 us begins 10 us later."""
    at = 100 * step
    launch = event("cuLaunchKernel", at + 5, 5, correlation_id=str(7 + step))
    return launch, event("gemm", at + 20, 60, correlation_id=str(7 + step))


def gpu_planes():
    launches, kernels = zip(*map(step_events, range(3)), strict=True)
    details = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    copy = event("MemcpyH2D", 2, 1, correlation_id="99", memcpy_details=details)
    device = [
        named("Stream #16(Kernel)", events=kernels),
        named("Stream #17(MemcpyH2D)", events=(copy,)),
        named("XLA Ops", events=(event("fusion", 0, 500),)),
    ]
    steps = [event("train", 100 * step, 100, step_num=str(step)) for step in range(3)]
    host = [
        named("pool/1", events=(event("compile", 1, 3),)),
        named("python", events=(*steps, *launches, event("$train.py:7 step", 0, 300))),
    ]
    return [named("/device:GPU:0", lines=device), named("/host:CPU", lines=host), named("/host:metadata", lines=[])]


@pytest.fixture
def xprof(tmp_path, monkeypatch):
    """Return a function that makes a file which xprof reads as these planes."""

    def write(planes, problem=None):
        def read(_content):
            if problem:
                raise problem
            return SimpleNamespace(planes=tuple(planes))

        module = ModuleType("xprof.profile_data")
        module.ProfileData = SimpleNamespace(from_serialized_xspace=read)
        monkeypatch.setitem(sys.modules, "xprof", ModuleType("xprof"))
        monkeypatch.setitem(sys.modules, "xprof.profile_data", module)
        path = tmp_path / "host.xplane.pb"
        path.write_bytes(b"\n")
        return path

    return write


def test_streams_calls_and_ranges_become_the_tables_of_a_trace(xprof, tmp_path):
    info = convert_input(xprof(gpu_planes()), tmp_path / "trace")
    assert {name: count for name, count in info.rows.items() if count} == {
        "ranges": 4, "kernels": 3, "copies": 1, "api": 3, "threads": 2, "devices": 1,
    }  # fmt: skip
    (copy,) = read_table(tmp_path / "trace", "copies").to_pylist()
    assert (copy["kind"], copy["bytes"], copy["source_memory"], copy["stream"]) == ("HtoD", 4096, "pageable", 17)
    threads = read_table(tmp_path / "trace", "threads").to_pylist()
    assert sorted(row["main"] for row in threads) == [False, True]


def test_steps_and_the_launches_of_their_kernels_are_found(xprof):
    trace = speedproof.open_trace(xprof(gpu_planes()))
    assert trace.iterations()["kernel_busy_fraction"].tolist() == pytest.approx([0.6, 0.6, 0.6])
    # Of 10 us from the launch to the kernel, in each of three steps, none are lost.
    assert dict(trace.idle().groupby("cause")["total_s"].sum())["queued, not started"] == pytest.approx(30e-6)


@pytest.mark.parametrize(
    ("planes", "problem", "reason"),
    [
        ([named("/device:TPU:0", lines=[])], None, "holds work of a TPU; only that of GPUs is read"),
        ([named("/host:CPU", lines=[])], None, "holds no kernels, calls or ranges"),
        ([], RuntimeError("Failed to parse XSpace"), "xprof cannot read it (Failed to parse XSpace); is it whole?"),
        (
            [named("/host:CPU", lines=[named("python", events=[event("train", 1.79e15, 5)])])],
            None,
            "counts its times from 1970",
        ),
    ],
)
def test_what_cannot_be_read_right_is_refused_in_one_line(xprof, tmp_path, planes, problem, reason):
    with pytest.raises(RecordError) as error:
        convert_input(xprof(planes, problem), tmp_path / "trace")
    assert reason in str(error.value)


def test_without_xprof_the_error_says_how_to_install_it(xprof, tmp_path, monkeypatch):
    path = xprof([])
    monkeypatch.setitem(sys.modules, "xprof.profile_data", None)  # as if it were not installed
    with pytest.raises(RecordError, match=r"xprof reads this file, .*; `pip install xprof`"):
        convert_input(path, tmp_path / "trace")
