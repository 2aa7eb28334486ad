"""What a rehearsal makes ready, with a driver of a GPU that is not there (compiling_program.py)."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch

from speedproof_spleen.config import load_config
from speedproof_spleen.training import compiling, rehearsal
from tests.support import require

ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.xdist_group("compiling")


def run_program(cache, program="compiling_program.py", **changes):
    require("triton", find_spec("triton") is not None, "triton is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    turbo = load_config(ROOT / "config.yaml").variants["turbo"].model_copy(update=changes)
    command = [sys.executable, str(Path(__file__).with_name(program)), turbo.model_dump_json()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def counted(compiled):
    return run_program(compiled)


def test_noted_kernels_are_not_launched(counted):
    assert counted["before"] == {}


def test_each_kernel_is_compiled_once(counted):
    # Of several kinds of volumes and weights there are kernels of one name; by name they are as many as are launched.
    assert sum(counted["ready"].values()) == counted["noted"]
    assert set(counted["ready"]) == set(counted["launched"])


def test_calls_find_all_kernels_ready(counted):
    assert counted["after"] == {}


def test_the_compiler_is_digested_once_and_not_by_each_thread(counted):
    assert counted["digests"] == 1


def test_torchs_compiler_is_not_imported(counted):
    """It takes seconds, and nothing here needs it; torch's optimizers import it."""
    assert not counted["dynamo"]


def test_kernels_are_found_on_disk_whichever_is_asked_for_first(counted):
    keys, of_reversed = counted["keys"]
    assert keys == of_reversed
    assert len(set(keys.values())) == len(keys) > 1


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return run_program(
        tmp_path_factory.mktemp("ahead"), program="compiling_ahead_program.py", kernels=["norm", "loss", "crops"]
    )


def test_a_run_finds_on_disk_what_forks_compiled_ahead(made):
    assert made["found"] == [True] * 15


def test_forks_compile_each_launcher_once(made):
    assert len(made["asked"]) == 15
    assert sorted(made["launchers"]) == sorted(set(made["asked"]))
    assert len(made["launchers"]) < 15
    assert made["ahead"] == 15 + len(made["launchers"])


def test_kernels_are_compiled_ahead_for_the_gpu_that_is_known(made):
    assert made["overlap"] == {"launch_pdl": True}


def test_listing_kernels_leaves_torchs_threads_as_they_were(monkeypatch):
    before, used = torch.get_num_threads(), []
    require("triton", find_spec("triton") is not None, "triton is not installed")
    from speedproof_accelerate.kernels import precompile

    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(precompile, "collect_kernels", lambda calls: [used.append(torch.get_num_threads()) for call in calls])
    torch.set_num_threads(2)
    try:
        rehearsal._list_kernels([lambda: None], torch.device("cpu"))
        assert (used, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def begin(monkeypatch, device="auto", **changes):
    monkeypatch.setattr(compiling.subprocess, "Popen", lambda *_, **__: MagicMock())
    config = load_config(ROOT / "config.yaml")
    variant = config.variants["turbo"].model_copy(update=changes)
    return compiling.begin_compiling(config.case, config.workload, variant, device)


def test_kernels_are_compiled_ahead_only_if_a_run_surely_compiles_them(monkeypatch, tmp_path):
    assert begin(monkeypatch).begun
    assert not begin(monkeypatch, device="cpu").begun
    assert not begin(monkeypatch, kernels=[]).begun
    assert not begin(monkeypatch, prepared_folder=str(tmp_path)).begun
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    assert not begin(monkeypatch).begun


def begin_program(monkeypatch, tmp_path, text):
    (tmp_path / "compiles.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(compiling, "_PROGRAM", "compiles")
    config = load_config(ROOT / "config.yaml")
    return compiling.begin_compiling(config.case, config.workload, config.variants["turbo"], "auto")


def test_a_run_goes_on_if_compiling_ahead_fails(monkeypatch, tmp_path, caplog):
    with begin_program(monkeypatch, tmp_path, "raise SystemExit('no\\nroom')") as ahead:
        ahead.wait()
    assert caplog.messages == ["kernels were not compiled ahead: no room"]


def test_a_run_goes_on_whatever_the_process_that_compiles_prints(monkeypatch, tmp_path, caplog):
    said = "import os, signal; os.write(1, bytes([99, 233, 10])); os.kill(os.getpid(), signal.SIGKILL)"
    with begin_program(monkeypatch, tmp_path, said) as ahead:
        ahead.wait()
    assert caplog.messages == ["kernels were not compiled ahead: c\N{REPLACEMENT CHARACTER}"]


def test_the_process_that_compiles_starts_no_idle_threads(monkeypatch, tmp_path, caplog):
    said = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['OPENBLAS_NUM_THREADS']); raise SystemExit(1)"
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    with begin_program(monkeypatch, tmp_path, said) as ahead:
        ahead.wait()
    assert caplog.messages == ["kernels were not compiled ahead: 1 1"]


@pytest.mark.parametrize(("changes", "given", "threads"), [({}, None, "1"), ({}, "4", "4"), ({"kernels": []}, None, None)])
def test_numpy_starts_no_threads_in_a_run_with_kernels(monkeypatch, changes, given, threads):
    monkeypatch.setattr(compiling.os, "environ", {"OPENBLAS_NUM_THREADS": given} if given else {})
    compiling.spare_threads(load_config(ROOT / "config.yaml").variants["turbo"].model_copy(update=changes))
    assert compiling.os.environ.get("OPENBLAS_NUM_THREADS") == threads


def test_a_run_goes_on_if_no_process_can_be_started(monkeypatch, caplog):
    monkeypatch.setattr(compiling.sys, "executable", "/nowhere/python")
    config = load_config(ROOT / "config.yaml")
    assert not compiling.begin_compiling(config.case, config.workload, config.variants["turbo"], "auto").begun
    assert "/nowhere/python" in caplog.text


def test_a_run_does_not_wait_until_the_process_that_compiled_has_ended(monkeypatch, tmp_path, caplog):
    said = f"print('noise'); print({compiling.COMPILED!r}, flush=True); import signal; signal.pause()"
    with begin_program(monkeypatch, tmp_path, said) as ahead:
        ahead.wait()
    assert not caplog.messages


def test_without_a_gpu_nothing_is_compiled_ahead(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    config = load_config(ROOT / "config.yaml")
    with compiling.begin_compiling(config.case, config.workload, config.variants["turbo"], "auto") as ahead:
        ahead.wait()
    assert not list(tmp_path.iterdir())
