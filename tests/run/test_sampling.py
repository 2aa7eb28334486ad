"""Sampling a run's GPUs from outside: which files, from which moment on, and what the record says of gaps."""

import pytest

from speedproof.results.observations import MachineLoad
from speedproof.results.run_record import GPU_COLUMNS, GPU_FILE, NOT_ALONE, read_gpu_samples, read_run
from speedproof.run.gpu_sampling import note_problems, sampling_gpus
from tests.report.example import write_example
from tests.run.test_gpu_monitor import FakeNvml

HEADER = ",".join(GPU_COLUMNS) + "\n"


def line(time_s):
    return f"{time_s:.6f},50,20,1000,1700,3201,300.0,40,none\n"


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch):
    FakeNvml(monkeypatch)


def test_each_process_of_a_node_has_its_gpus_samples_in_its_folder(tmp_path):
    folders = [tmp_path / "rank0", tmp_path / "rank1"]
    with sampling_gpus(folders, 100, {}):
        pass
    for folder in folders:
        assert list(read_gpu_samples(folder).columns) == GPU_COLUMNS


def test_a_run_that_goes_on_keeps_the_samples_up_to_its_checkpoint(tmp_path):
    (tmp_path / GPU_FILE).write_text(HEADER + line(1) + line(2) + line(3) + "4.0,5")
    with sampling_gpus([tmp_path], 100, {}, before_s=2.5):
        pass
    times_s = read_gpu_samples(tmp_path)["time_s"].tolist()
    assert times_s[:2] == [1, 2]
    assert all(time_s >= 2.5 for time_s in times_s[2:])
    assert len(times_s) > 2


def test_a_run_that_starts_again_keeps_none(tmp_path):
    (tmp_path / GPU_FILE).write_text(HEADER + line(1))
    with sampling_gpus([tmp_path], 100, {}):
        pass
    assert all(time_s < 0.9 for time_s in read_gpu_samples(tmp_path)["time_s"])


def test_the_record_says_that_nothing_was_sampled(tmp_path):
    (folder, *_) = sorted((write_example(tmp_path) / "experiments/experiment-1/runs").iterdir())
    assert read_run(folder).warnings == []
    with sampling_gpus([folder], 100, {"CUDA_VISIBLE_DEVICES": ""}) as monitors:
        pass
    assert note_problems(folder, monitors).warnings == ["NVML sees no GPU: it is not sampled"]
    assert read_run(folder).warnings == ["NVML sees no GPU: it is not sampled"]


def test_a_gpu_of_a_variants_own_choice_is_sampled(tmp_path):
    with sampling_gpus([tmp_path], 100, {"CUDA_VISIBLE_DEVICES": "7"}) as monitors:
        pass
    assert not monitors[0].sees_gpu


def test_who_else_was_on_the_gpu_or_the_machine_stands_in_the_runs_record(tmp_path):
    write_example(tmp_path)
    folder = next((tmp_path / "experiments").glob("*/runs/*"))
    run = note_problems(folder, [], ["process 12 (python3)"], beside=True)
    assert run.warnings[-2:] == ["other processes were on the GPU when it began: process 12 (python3)", NOT_ALONE]
    assert read_run(folder).warnings == run.warnings


def test_what_the_machine_did_and_who_was_on_the_gpu_is_observed_of_a_run(tmp_path):
    write_example(tmp_path)
    folder = next((tmp_path / "experiments").glob("*/runs/*-timed"))
    machine = MachineLoad(cores=2, seconds=3.0, others_cpu_s=0.5, gpu_processes=["process 12 (a)", "process 13 (b)"])
    run = note_problems(folder, [], ["process 11 (c)", "process 12 (a)"], machine=machine)
    assert run.observed is not None and run.observed.machine is not None
    assert run.observed.machine.gpu_processes == ["process 11 (c)", "process 12 (a)", "process 13 (b)"]
    assert run.observed.machine.others_share == pytest.approx(0.5 / 6)
    assert read_run(folder).observed == run.observed
