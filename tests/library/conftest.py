"""A working folder with all that the examples name: two scripts, two traces, a record."""

import shutil

import pytest

import speedproof
from speedproof.run import outside_watch
from speedproof.run.archive.rebuild import rebuild_report
from speedproof.run.proof.executor import LocalExecutor
from tests.profilers.exports import MAIN, make_export, strings, thread
from tests.prove.recorded import leave_experiment
from tests.workflow.checkout import ROOT

RECORD = "records/2026-11-28-h200-published-turbo"
US = 1000
COMMANDS = ["sh slow.sh", "sh fast.sh"]
READ = {"epoch_s": r"took (\S+) s", "rounds": 6}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: ())
    monkeypatch.chdir(tmp_path)
    for name, took_s in (("slow.sh", 0.02), ("fast.sh", 0.01)):
        (tmp_path / name).write_text(f"for n in 1 2 3; do sleep {took_s}; echo epoch took {took_s} s; done\n")
    export_epochs(tmp_path / "before.sqlite", loading_us=6000)
    export_epochs(tmp_path / "after.sqlite", loading_us=2000)
    return tmp_path


@pytest.fixture
def record(place):
    shutil.copytree(ROOT / RECORD, place / RECORD, ignore=shutil.ignore_patterns("analysis", "figures"))
    return place / RECORD


@pytest.fixture
def measured(monkeypatch):
    """Have experiments measure nothing, and leave epochs of 20 ms of the first command, 10 ms of others, with noise."""

    def epoch_s(variant, number):
        return (0.02 if variant == "a" else 0.01) * (1 + 0.004 * ((number + (variant == "a")) % 3))

    def leave(executor, measured, progress):
        shutil.rmtree(executor._out / "results/experiments", ignore_errors=True)
        evidence = leave_experiment(executor._out, measured.config, epoch_s)
        rebuild_report(evidence, executor._out / "results")
        return evidence

    monkeypatch.setattr(LocalExecutor, "measure", leave)


@pytest.fixture
def proof(place, measured):
    return speedproof.prove(*COMMANDS, **READ)


def export_epochs(path, loading_us):
    """Write three epochs, each of which loads data, then keeps the GPU busy from 0.12 to 3.9 ms of its other 4 ms."""
    ranges, calls, kernels = [], [], []
    for number in range(3):
        begin = (4000 + loading_us) * number
        work, end = begin + loading_us, begin + loading_us + 4000
        ranges += [_range(begin, end, "epoch"), _range(begin, work, "dataload")]
        ranges += [_range(work, work + 1000, "forward"), _range(work + 1000, work + 2000, "backward")]
        ranges += [_range(work + 2000, end, "update")]
        calls += [_call(work + 100, work + 110, 2 * number + 1), _call(work + 1100, work + 1110, 2 * number + 2)]
        kernels += [_kernel(work + 120, work + 2000, 2 * number + 1, 20), _kernel(work + 2000, work + 3900, 2 * number + 2, 30)]
    make_export(
        path,
        {
            "StringIds": strings("cudaLaunchKernel_v7000", "gemm", "wgrad"),
            "NVTX_EVENTS": ranges,
            "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
            "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
            "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 0, "cudaId": 0, "pid": MAIN >> 24 & 0xFFFFFF}],
        },
    )


def _range(start, end, name):
    times = {"start": start * US, "end": end * US}
    return {**times, "eventType": 59, "globalTid": thread(1), "text": name, "domainId": 0}


def _call(start, end, number):
    return {"start": start * US, "end": end * US, "globalTid": thread(1), "correlationId": number, "nameId": 10}


def _kernel(start, end, number, name):
    times = {"start": start * US, "end": end * US, "correlationId": number, "demangledName": name}
    return {**times, "deviceId": 0, "streamId": 7, "globalPid": MAIN}
