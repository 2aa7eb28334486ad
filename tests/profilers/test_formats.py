"""Formats of traces: what is known of each follows from its entry, which is all that a new one needs."""

import gzip
import json
import os
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

import speedproof
from speedproof.profilers.convert import is_input, list_inputs
from speedproof.profilers.event_tables import repeat_name, write_events
from speedproof.profilers.formats import (
    FORMATS,
    RUN_TRACERS,
    describe_foreign,
    describe_inputs,
    describe_run_tracers,
    find_format,
    find_profiler,
)
from speedproof.profilers.trace_format import Profiler, TraceFormat, read_head
from speedproof.results.names import RunTracerName
from speedproof.results.trace_tables import TraceInfo
from speedproof.util.errors import LostTraceError, RecordError, SpeedproofError
from tests.workflow.checkout import ROOT


def convert_toy(path, folder, _conversion):
    """Convert a list of [name, start, end], in microseconds."""
    names, start_us, end_us = zip(*json.loads(path.read_text()), strict=True)
    one = np.ones(len(names), np.int64)
    ranges = {
        "start_ns": 1000 * np.array(start_us),
        "end_ns": 1000 * np.array(end_us),
        "process": one,
        "thread": one,
        "end_thread": one,
        "domain": 0 * one,
        "kind": repeat_name("push_pop", len(names)),
        "name": pa.array(names).dictionary_encode(),
    }
    info = TraceInfo(profiler="toy", profiler_version="7", source_schema="list", rows={}, warnings=[])
    return write_events(folder, {"ranges": pa.table(ranges)}, {1: 1}, {}, info)


TOY = TraceFormat(
    profiler=Profiler("toy", "Toy profiler", caveat="it records no CUDA events"),
    described="a toy's list (.toy.json)",
    writer="`toy record`",
    suffixes=(".toy.json",),
    recognize=lambda path: read_head(path).startswith(b"[["),
    convert=convert_toy,
)
EVENTS = [
    [name, 100 * step + at, 100 * step + end] for step in range(4) for name, at, end in (("step", 0, 100), ("load", 5, 65))
]


@pytest.fixture
def toy(tmp_path):
    FORMATS.append(TOY)
    path = tmp_path / "run.toy.json"
    path.write_text(json.dumps(EVENTS))
    yield path
    FORMATS.remove(TOY)


def test_a_new_format_is_its_entry(toy, tmp_path, speedproof_here):
    trace = speedproof.open_trace(toy)
    assert (trace.unit, len(trace.iterations()), trace.phases()["wall_s"].tolist()) == ("step", 4, [240e-6])
    assert describe_inputs().endswith("torch.profiler's .json(.gz), or a toy's list (.toy.json)")
    ended = speedproof_here("analyze", toy, "--out", tmp_path / "analysis", "--quiet")
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "analysis/summary.json").read_text())["profiler"] == "toy"
    assert "Toy profiler 7. " in (tmp_path / "analysis/report.html").read_text()
    assert describe_foreign("toy") == "Profiled by Toy profiler, not by Nsight Systems: it records no CUDA events."
    with pytest.raises(SpeedproofError, match=r"b\.toy\.json: no such file; give the file that `toy record` wrote"):
        speedproof.open_trace(tmp_path / "b.toy.json")


def test_the_longest_suffix_decides_and_else_the_content(toy, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"traceEvents": []}))
    assert [find_format(tmp_path / name).profiler.name for name in ("run.toy.json", "run.json")] == ["toy", "kineto"]
    assert [path.name for path in list_inputs(tmp_path)] == ["run.json", "run.toy.json"]  # of two profilers, so two
    toy.rename(tmp_path / "renamed")
    assert find_format(tmp_path / "renamed") is TOY
    assert not is_input(tmp_path / "renamed")  # a folder of profiles is read by names alone


@pytest.mark.parametrize(
    ("content", "profiler"),
    [
        (b"SQLite format 3\0 and more", "nsys"),
        (b"NVIDIA Tegra Profiler Report 2025@1@3@1-3v0.", "nsys"),
        (b'{"schemaVersion": 1, "traceEvents": [', "kineto"),
        (gzip.compress(b'{"schemaVersion": 1, "traceEvents": [', mtime=0), "kineto"),
        (b"\x1f\x8b no gzip", None),
        (b"epoch 1 took 3 s", None),
        (b"", None),
    ],
)
def test_a_file_whose_name_tells_nothing_is_known_by_its_content(tmp_path, content, profiler):
    (tmp_path / "profile").write_bytes(content)
    found = find_format(tmp_path / "profile")
    assert (found and found.profiler.name) == profiler


def test_what_is_no_file_is_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.nsys-rep")
    with pytest.raises(SpeedproofError, match="no regular file; give the file that `nsys profile` wrote"):
        speedproof.open_trace(tmp_path / "a.nsys-rep")


def test_a_profiler_that_is_not_known_here_is_called_by_its_name():
    assert [find_profiler(name).title for name in ("nsys", "kineto", "newer")] == [
        "Nsight Systems", "kineto (torch.profiler)", "newer",
    ]  # fmt: skip
    assert describe_foreign("nsys") is describe_foreign("newer") is None


def test_the_documents_name_every_suffix():
    text = (ROOT / "docs/analysis.md").read_text()
    assert [suffix for one in FORMATS for suffix in one.suffixes if f"`{suffix}`" not in text] == []


def test_what_can_trace_a_run_has_an_entry():
    assert tuple(RUN_TRACERS) == get_args(RunTracerName)
    assert describe_run_tracers() == (
        "nsys (Nsight Systems): any program; kineto (torch.profiler): a Python program with torch"
    )


def test_errors_name_the_file_that_was_given_not_what_was_made_of_it(toy, tmp_path):
    with pytest.raises(SpeedproofError) as caught:
        speedproof.open_trace(toy, epoch="nothing")
    assert str(caught.value).startswith(f"{toy}: no range matches the epoch pattern `nothing`")
    scratch = tmp_path / "scratch"
    lost = LostTraceError(scratch / "a.sqlite", ": damaged; see ", scratch / "log.txt")
    moved = lost.moved(scratch / "a.sqlite", tmp_path / "a.nsys-rep").moved(scratch, Path())
    assert (type(moved), str(moved)) == (LostTraceError, f"{tmp_path}/a.nsys-rep: damaged; see log.txt")
    assert str(RecordError(f"{scratch}: words stay").moved(scratch, tmp_path)) == f"{scratch}: words stay"
