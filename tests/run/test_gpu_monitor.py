import os
import time
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from speedproof.cluster.gpu_monitor import (
    GpuMonitor,
    counting_gpus,
    describe_gpu,
    find_compute_capability,
    list_gpu_uuids,
    name_gpu_processes,
    naming_others,
)
from speedproof.results.run_record import GPU_COLUMNS, read_gpu_samples


class FakeNvml:
    """Two GPUs; answers like an H200 whose utilisation, ECC and MIG modes are not supported."""

    uuids = ("GPU-aaaa-1111", "GPU-bbbb-2222")

    def __init__(self, monkeypatch):
        answers = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": self.by_index,
            "nvmlDeviceGetUUID": lambda handle: self.uuids[handle],
            "nvmlDeviceGetCudaComputeCapability": lambda handle: [9, handle],
            "nvmlDeviceGetName": lambda handle: f"Fake {handle}",
            "nvmlSystemGetDriverVersion": lambda: "580.1",
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=141 << 30, used=3 << 20),
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
            "nvmlDeviceGetPowerUsage": lambda handle: 123_456,
            "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1980,
            "nvmlDeviceGetApplicationsClock": lambda handle, kind: 1500,
            "nvmlDeviceGetClockInfo": lambda handle, kind: 1700 if kind == pynvml.NVML_CLOCK_SM else 3201,
            "nvmlDeviceGetTemperature": lambda handle, kind: 41,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x4 | 0x20,
            "nvmlDeviceGetEccMode": self.unsupported,
            "nvmlDeviceGetMigMode": self.unsupported,
            "nvmlDeviceGetUtilizationRates": self.unsupported,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(pynvml, name, answer)

    def by_index(self, index):
        if index >= 2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return index

    def unsupported(self, *_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "Fake 0"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "Fake 1"),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, "Fake 1"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bbbb-2222"}, "Fake 1"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bb"}, "Fake 1"),
    ],
)
def test_the_gpu_is_the_first_visible_one(monkeypatch, environ, name):
    FakeNvml(monkeypatch)
    assert describe_gpu(environ).name == name


@pytest.mark.parametrize(
    ("environ", "numbers"),
    [
        ({}, [0, 1]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, [1, 0]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bb,GPU-aa"}, [1, 0]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_all_visible_gpus_are_listed_in_cudas_order(monkeypatch, environ, numbers):
    FakeNvml(monkeypatch)
    assert list_gpu_uuids(environ) == [FakeNvml.uuids[number] for number in numbers]


def test_the_compute_capability_is_the_first_visible_gpus(monkeypatch):
    nvml = FakeNvml(monkeypatch)
    assert find_compute_capability({}) == (9, 0)
    assert find_compute_capability({"CUDA_VISIBLE_DEVICES": "1"}) == (9, 1)
    assert find_compute_capability({"CUDA_VISIBLE_DEVICES": ""}) is None
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", nvml.unsupported)
    assert find_compute_capability({}) is None


@pytest.mark.parametrize("visible", ["", "-1", "7", "GPU-cccc"])
def test_no_visible_gpu_is_none(monkeypatch, visible):
    FakeNvml(monkeypatch)
    assert describe_gpu({"CUDA_VISIBLE_DEVICES": visible}) is None


def test_what_nvml_does_not_tell_is_none(monkeypatch):
    FakeNvml(monkeypatch)
    gpu = describe_gpu({})
    assert (gpu.memory_mib, gpu.power_limit_w, gpu.max_sm_clock_mhz, gpu.application_sm_clock_mhz) == (
        144384,
        700.0,
        1980,
        1500,
    )
    assert gpu.ecc is None
    assert gpu.mig is None


def test_samples_have_units_words_and_empty_cells(monkeypatch, tmp_path):
    FakeNvml(monkeypatch)
    path = tmp_path / "gpu.csv"
    with GpuMonitor(path, 200, time.perf_counter() - 5, {}):
        time.sleep(0.05)
    samples = read_gpu_samples(tmp_path)
    assert list(samples.columns) == GPU_COLUMNS
    first = samples.iloc[0]
    assert first.time_s >= 5
    assert samples.time_s.is_monotonic_increasing
    assert (first.memory_used_mib, first.sm_clock_mhz, first.memory_clock_mhz, first.power_w, first.temperature_c) == (
        3, 1700, 3201, 123.456, 41,
    )  # fmt: skip
    assert first.throttle_reasons == "power cap|software thermal slowdown"
    assert samples.gpu_busy_percent.isna().all()
    assert samples.memory_busy_percent.isna().all()


def test_rows_are_on_disk_before_the_run_ends(monkeypatch, tmp_path):
    FakeNvml(monkeypatch)
    path = tmp_path / "gpu.csv"
    with GpuMonitor(path, 200, time.perf_counter(), {}):
        deadline_s = time.monotonic() + 10
        while len(path.read_text().splitlines()) < 3 and time.monotonic() < deadline_s:
            time.sleep(0.005)
        lines = path.read_text().splitlines()
    assert len(lines) >= 3


def test_without_a_gpu_the_table_is_empty_and_has_its_header(monkeypatch, tmp_path):
    def no_driver():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    with GpuMonitor(tmp_path / "gpu.csv", 10, 0.0, {}):
        pass
    assert (tmp_path / "gpu.csv").read_text() == ",".join(GPU_COLUMNS) + "\n"
    assert describe_gpu({}) is None


def sample(monkeypatch, path, seconds=0.1):
    with GpuMonitor(path, 200, time.perf_counter(), {}) as monitor:
        time.sleep(seconds)
    return monitor.problem


def test_a_gpu_that_falls_off_the_bus_midway_is_told_and_the_run_goes_on(monkeypatch, tmp_path):
    FakeNvml(monkeypatch)
    assert sample(monkeypatch, tmp_path / "gpu.csv") is None

    def lost(*_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    for name in ("MemoryInfo", "PowerUsage", "ClockInfo", "Temperature", "CurrentClocksThrottleReasons"):
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{name}", lost)
    (tmp_path / "gpu.csv").unlink()
    problem = sample(monkeypatch, tmp_path / "gpu.csv")
    rows = len(read_gpu_samples(tmp_path))
    assert problem == f"NVML reported nothing in {rows} of {rows} samples of the GPU"


def test_samples_that_cannot_go_on_are_told(monkeypatch, tmp_path, capsys):
    FakeNvml(monkeypatch)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", lambda handle, kind: 1 / 0)
    assert sample(monkeypatch, tmp_path / "gpu.csv") == "samples of the GPU end after 0: ZeroDivisionError: division by zero"
    assert capsys.readouterr().err == ""


def test_a_gpu_that_nvml_does_not_name_is_none(monkeypatch):
    FakeNvml(monkeypatch)

    def unknown(*_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", unknown)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", unknown)
    assert describe_gpu({}) is None
    assert list_gpu_uuids({}) == []


def test_who_else_computes_on_the_gpus_is_named(monkeypatch):
    FakeNvml(monkeypatch)
    computing = {0: [os.getpid(), os.getppid()], 1: [2**22 + 1]}  # no system numbers a process so
    answer = lambda handle: [SimpleNamespace(pid=number) for number in computing[handle]]  # noqa: E731
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", answer, raising=False)
    above = Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    assert name_gpu_processes(1, {}) == [f"process {os.getppid()} ({above})"]
    assert name_gpu_processes(2, {}) == [f"process {os.getppid()} ({above})", f"process {2**22 + 1}"]
    assert name_gpu_processes(1, {"CUDA_VISIBLE_DEVICES": ""}) == []


def test_the_gpus_that_a_run_uses_are_those_with_processes_that_were_not_there_before(monkeypatch):
    FakeNvml(monkeypatch)
    computing = {0: [17], 1: []}
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetComputeRunningProcesses",
        lambda handle: [SimpleNamespace(pid=number) for number in (*computing[handle], os.getpid())],
    )
    with counting_gpus({}) as use:
        use.look()
        assert use.gpus is None  # none is seen used
        computing[1] = [18]
        use.look()
        computing[1] = []
        use.look()
        assert use.gpus == 1
        computing[0] = [17, 19]
        use.look()
        assert use.gpus == 2
    with counting_gpus({"CUDA_VISIBLE_DEVICES": ""}) as use:
        assert use.gpus is None


def test_while_a_run_goes_on_others_on_the_gpu_are_those_that_are_not_of_it(monkeypatch):
    FakeNvml(monkeypatch)
    ours, other, of_another_container = os.getppid(), 1, 2**30
    listed = [SimpleNamespace(pid=pid) for pid in (os.getpid(), ours, other, of_another_container)]
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", lambda handle: listed)
    name_others = naming_others(1, lambda number: number == ours, {})
    assert name_others is not None
    (named,) = name_others()
    assert named.startswith("process 1 (")
    assert naming_others(1, lambda _: False, {"CUDA_VISIBLE_DEVICES": ""}) is None
