"""Exports with bytes changed at random: analysed, or refused in one line; never a crash, and nothing written half."""

import random

from speedproof.analysis.summarize import analyze_trace, write_summary
from speedproof.errors import RecordError
from speedproof.profiling.nsys_export import convert_export
from speedproof.records.summary import SUMMARY_FILE, read_summary
from tests.profiling.exports import MAIN, make_export, strings, thread
from tests.profiling.test_nsys_export import gpu, nvtx

PHASES = ["dataload", "forward", "backward", "update"]


def make_training(path):
    """Write an export of three epochs of ten steps, with a launch, a kernel and a copy each phase."""
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
    return make_export(
        path,
        {
            "StringIds": names,
            "NVTX_EVENTS": ranges,
            "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
            "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
            "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
            "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 0, "cudaId": 0, "pid": MAIN >> 24 & 0xFFFFFF}],
        },
    )


def test_a_mutated_export_is_analysed_or_refused_in_one_line(tmp_path):
    whole = make_training(tmp_path / "whole.sqlite").read_bytes()
    chance = random.Random(0)
    analysed = 0
    for attempt in range(80):
        content = bytearray(whole)
        for _ in range(chance.choice([1, 5, 30])):
            content[chance.randrange(4096, len(content))] = chance.randrange(256)  # the first page holds the tables' names
        mutated, trace, out = tmp_path / "mutated.sqlite", tmp_path / f"trace-{attempt}", tmp_path / f"out-{attempt}"
        mutated.write_bytes(content)
        try:
            convert_export(mutated, trace)
            write_summary(analyze_trace(trace), out)
        except RecordError as error:
            assert "\n" not in str(error)
            assert not (out / SUMMARY_FILE).exists()
        else:
            shares = read_summary(out).account
            assert sum(share.total_ns for share in shares) > 0
            analysed += 1
    assert 0 < analysed < 80
