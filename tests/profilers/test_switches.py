"""What nsys records besides, as settings: its switches, which epochs are traced, and what is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from speedproof.config.profiling import Profiling
from speedproof.marks import CAPTURE_RANGE, CAPTURE_VARIABLE
from speedproof.profilers.nsys import Capabilities, profile_command
from speedproof.profilers.nsys_switches import capture_variables, list_switches, refused
from speedproof.profilers.required_ranges import require_closed
from speedproof.results.trace_tables import read_table
from speedproof.run.nsys_runs import REPORT_FILE, convert_reports, traced_command
from speedproof.util.errors import ProfilingError
from speedproof.util.scrub import profiled_environment
from tests.trace.handmade import TraceBuilder

OLD = Capabilities("nsys", "2021.1", frozenset({"--sample", "--cpuctxsw", "--capture-range"}))
NEW = Capabilities(
    "nsys",
    "2025.3",
    frozenset(
        f"--{name}"
        for name in (
            "sample", "cpuctxsw", "gpu-metrics-devices", "gpu-metrics-frequency", "cuda-memory-usage", "python-sampling",
            "capture-range", "capture-range-end", "nvtx-capture", "env-var",
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "switches"),
    [
        ({}, []),
        ({"trace": ["cuda", "osrt"]}, []),
        ({"gpu_metrics_per_s": 5000}, ["--gpu-metrics-devices=cuda-visible", "--gpu-metrics-frequency=5000"]),
        ({"memory_usage": True}, ["--cuda-memory-usage=true"]),
        ({"cpu_samples": True}, ["--sample=process-tree"]),
        ({"python_samples": True}, ["--python-sampling=true"]),
        ({"capture": "cudaProfilerApi"}, ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]),
        (
            {"capture": "hot loop@mine"},
            [
                "--capture-range=nvtx", "--capture-range-end=stop", "--nvtx-capture=hot loop@mine",
                "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
            ],
        ),
        (
            {"capture": "2-3"},
            [
                "--capture-range=nvtx", "--capture-range-end=stop", f"--nvtx-capture={CAPTURE_RANGE}",
                "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
            ],
        ),
    ],
)  # fmt: skip
def test_each_setting_is_a_switch_of_nsys(settings, switches):
    assert list_switches(Profiling(**settings), NEW) == switches


def test_a_version_that_knows_no_such_switch_is_named():
    with pytest.raises(
        ProfilingError, match=r"profiling\.memory_usage: nsys 2021\.1 does not support --cuda-memory-usage; set"
    ):
        list_switches(Profiling(memory_usage=True), OLD)


def test_what_is_sampled_is_asked_for_once():
    command = profile_command(NEW, Path("x.nsys-rep"), ["cuda"], ["program"], list_switches(Profiling(cpu_samples=True), NEW))
    assert [word for word in command if word.startswith("--sample")] == ["--sample=process-tree"]


def test_the_record_says_what_was_recorded():
    assert Profiling().traced == ["cuda", "nvtx"]
    profiling = Profiling(capture=2, gpu_metrics_per_s=100, memory_usage=True, cpu_samples=True, python_samples=True)
    assert profiling.traced[2:] == ["capture 2", "gpu metrics 100/s", "memory usage", "cpu samples", "python samples"]
    assert capture_variables(profiling) == {CAPTURE_VARIABLE: "2-2"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"capture": "3-2"}, "epochs count from 1, and the range must ascend"),
        ({"capture": "0-2"}, "epochs count from 1"),
        ({"gpu_metrics_per_s": 1}, "greater than or equal to 10"),
        ({"backend": "kineto", "memory_usage": True}, "kineto records no memory usage"),
    ],
)
def test_what_cannot_be_recorded_is_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        Profiling(**settings)


PROGRAM = """
from speedproof import marks
from speedproof.profilers.ranges import Ranges
import nvtx
{loop}
"""
MARKED = "for epoch in marks.epochs(5):\n    with nvtx.annotate(f'of {epoch}'): pass"
OURS = "for epoch in range(5):\n    with Ranges().phase('epoch'), nvtx.annotate(f'of {epoch}'): pass"
NAMED = "for epoch in range(5):\n    with nvtx.annotate('hot' if epoch else 'cold'), nvtx.annotate(f'of {epoch}'): pass"


@pytest.mark.parametrize(
    ("capture", "loop", "traced"),
    [("2-3", MARKED, {"of 1", "of 2"}), ("4", OURS, {"epoch", "of 3"}), ("hot", NAMED, {"of 1"})],
)
def test_nsys_traces_the_epochs_that_were_asked_for(needs_nsys, tmp_path, capture, loop, traced):
    profiling = Profiling(capture=capture, trace=["nvtx"])
    record(profiling, tmp_path, loop)
    convert_reports(tmp_path, tmp_path, nsys_at_hand(), 1, [], profiling)
    names = set(read_table(tmp_path / "trace", "ranges", ["name"])["name"].to_pylist())
    assert names - {CAPTURE_RANGE, "hot"} == traced


def test_a_capture_range_that_never_opens_is_told_at_once(needs_nsys, tmp_path):
    profiling = Profiling(capture="6-7", trace=["nvtx"])
    record(profiling, tmp_path, MARKED)
    with pytest.raises(ProfilingError, match=r"profiling\.capture: 6-7, and nothing opened these epochs"):
        convert_reports(tmp_path, tmp_path, nsys_at_hand(), 1, [], profiling)


def nsys_at_hand():
    from speedproof.profilers.nsys import read_capabilities

    return read_capabilities()


def record(profiling, folder, loop):
    program = [sys.executable, "-c", PROGRAM.format(loop=loop)]
    environ = profiled_environment(os.environ) | capture_variables(profiling)
    for _ in range(2):  # on a busy disk nsys loses its agent now and then
        ended = subprocess.run(
            traced_command(folder, nsys_at_hand(), profiling, 1) + program, env=environ, capture_output=True, text=True
        )
        (folder / "log.txt").write_text(ended.stdout + ended.stderr)
        if "Agent lost" not in ended.stdout + ended.stderr and (folder / REPORT_FILE).exists():
            return


def test_a_capture_range_that_never_closes_is_told(tmp_path):
    trace = TraceBuilder()
    trace.range("hot", 0, None)
    with pytest.raises(ProfilingError, match=r"the range `hot@mine`, which profiling\.capture traces, never ended"):
        require_closed(trace.write(tmp_path), "hot@mine")


def test_nothing_is_captured_where_nobody_waits(monkeypatch):
    from speedproof.marks import Capture

    monkeypatch.delenv(CAPTURE_VARIABLE, raising=False)
    capture = Capture()
    for _ in range(3):
        capture.epoch_begins()
        assert capture.nvtx is None
        capture.epoch_ends()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Possible --gpu-metrics-devices values are:\n\t0: NVIDIA H200 PCI[0000:19:00.0]\n\tall: Select all\n", None),
        ("Possible --gpu-metrics-device values are:\n\tNVIDIA GPUs not found, feature is not available\n", "GPUs not found"),
        ("Insufficient privilege, see https://developer.nvidia.com/ERR_NVGPUCTRPERM", "Insufficient privilege"),
    ],
)
def test_what_nsys_says_of_counters_is_understood(said, reason):
    found = refused(said)
    assert (found is None) if reason is None else re.search(reason, found)
