"""Exports that lack tables, columns or bytes: analysed, or refused in one line; never a crash, and nothing written half."""

import random

import pytest

from speedproof.profilers.nsys_export import convert_export
from speedproof.results.summary import SUMMARY_FILE, read_summary
from speedproof.trace.summarize import analyze_trace, write_summary
from speedproof.util.errors import RecordError
from tests.profilers.exports import MAIN, make_export, strings, thread
from tests.profilers.test_nsys_export import gpu, nvtx

PHASES = ["dataload", "forward", "backward", "update"]


def training_tables():
    """Return three epochs of ten steps, with two calls, a kernel and a copy each phase."""
    names = strings("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "gemm")
    ranges, calls, kernels, copies = [], [], [], []
    for step in range(30):
        if step % 10 == 0:
            ranges.append(nvtx(1000 * step, 1000 * step + 10_000, "epoch"))
        for number, phase in enumerate(PHASES):
            start, correlation = 1000 * step + 250 * number, 8 * step + 2 * number + 1
            ranges.append(nvtx(start, start + 200, phase))
            for other, name in enumerate((10, 20)):
                called = {"start": start + 20 * other, "end": start + 20 * other + 10, "globalTid": thread(1)}
                calls.append({**called, "correlationId": correlation + other, "nameId": name})
            kernels.append(gpu(start + 30, start + 90, correlationId=correlation, demangledName=30))
            copies.append(gpu(start + 95, start + 99, correlationId=correlation + 1, bytes=8, copyKind=1, srcKind=0, dstKind=2))
    return {
        "StringIds": names,
        "NVTX_EVENTS": ranges,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 0, "cudaId": 0, "pid": MAIN >> 24 & 0xFFFFFF}],
    }


def analyze(export, folder):
    convert_export(export, folder)
    return analyze_trace(folder)


def test_the_whole_export_is_explained_as_worked_out_by_hand(tmp_path):
    summary = analyze(make_export(tmp_path / "whole.sqlite", training_tables()), tmp_path / "trace")
    assert [(epoch.start_ns, epoch.end_ns) for epoch in summary.epochs] == [(0, 10_000), (10_000, 20_000), (20_000, 30_000)]
    # Each phase: a kernel of 60 ns and a copy of 4, ten steps an epoch.
    assert {phase.name: round(1e9 * phase.gpu_busy_s) for phase in summary.phases} == dict.fromkeys(PHASES, 30 * 64)
    assert summary.unattributed_fraction == 0


@pytest.mark.parametrize("table", training_tables())
def test_any_table_may_be_absent(tmp_path, table):
    tables = training_tables()
    del tables[table]
    summary = analyze(make_export(tmp_path / "export.sqlite", tables), tmp_path / "trace")
    if table == "NVTX_EVENTS":
        assert "repetitions of one kernel" in summary.warnings[0]
    elif table == "CUPTI_ACTIVITY_KIND_KERNEL":  # launches are there, their kernels are not
        assert not summary.recorded
    else:
        assert len(summary.epochs) == 3
    busy_s = sum(phase.gpu_busy_s for phase in summary.phases)
    expected = {"CUPTI_ACTIVITY_KIND_KERNEL": 0, "CUPTI_ACTIVITY_KIND_MEMCPY": 60, "NVTX_EVENTS": 0}
    assert round(1e9 * busy_s) == 120 * (0 if table == "CUPTI_ACTIVITY_KIND_RUNTIME" else expected.get(table, 64))
    if table == "CUPTI_ACTIVITY_KIND_RUNTIME":
        assert [part.reason for part in summary.unattributed] == ["its launching call is not in the trace"]


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table, rows in training_tables().items() for column in rows[0] if table != "StringIds"],
)
def test_any_column_may_be_absent(tmp_path, table, column):
    tables = training_tables()
    tables[table] = [{name: value for name, value in row.items() if name != column} for row in tables[table]]
    try:
        summary = analyze(make_export(tmp_path / "export.sqlite", tables), tmp_path / "trace")
    except RecordError as error:
        assert "\n" not in str(error)
    else:
        epochs_ns = sum(epoch.end_ns - epoch.start_ns for epoch in summary.epochs)
        assert sum(share.total_ns for share in summary.account) == epochs_ns


def test_a_mutated_export_is_analysed_or_refused_in_one_line(tmp_path):
    whole = make_export(tmp_path / "whole.sqlite", training_tables()).read_bytes()
    chance = random.Random(0)
    analysed = 0
    for attempt in range(24):
        content = bytearray(whole)
        for _ in range(chance.choice([1, 5, 30])):
            content[chance.randrange(4096, len(content))] = chance.randrange(256)  # the first page holds the tables' names
        mutated, trace, out = tmp_path / "mutated.sqlite", tmp_path / f"trace-{attempt}", tmp_path / f"out-{attempt}"
        mutated.write_bytes(content)
        try:
            write_summary(analyze(mutated, trace), out)
        except RecordError as error:
            assert "\n" not in str(error)
            assert not (out / SUMMARY_FILE).exists()
        else:
            shares = read_summary(out).account
            assert sum(share.total_ns for share in shares) > 0
            analysed += 1
    assert 0 < analysed < 24
