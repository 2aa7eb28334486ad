"""A test that takes too much fails by its name, and the rest goes on."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.checkout import ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs tests of a text by the repository's own settings, with small limits."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)

    def run(text: str, *options: str, workers: int = 0) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "project"
        folder.mkdir()
        (tmp_path / "temporary").mkdir()
        (folder / "test_it.py").write_text(text + "\n\ndef test_honest():\n    pass\n")
        settings = ["-c", ROOT / "pyproject.toml", "--rootdir", folder, "-p", "tests.limits", "-p", "no:cacheprovider"]
        limits = ["-o", "timeout=30", "-o", "memory_limit_mib=500", "-n", str(workers), *options]
        command = [sys.executable, "-m", "pytest", *settings, *limits, folder / "test_it.py"]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        assert list((tmp_path / "temporary").iterdir()) == []
        return ended

    return run


EATS = """
def test_eats():
    eaten = []
    while True:
        eaten.append(bytearray(1 << 20))
"""
EATS_AND_THE_NEXT_SLEEPS = """
import time
def test_eats():
    eaten = []
    while True:
        eaten.append(b"x" * (10 << 20))
        time.sleep(0.02)
def test_sleeps():
    time.sleep(1.5)
"""
GOES_ON = """
import pytest, time
@pytest.mark.timeout(1)
def test_goes_on():
    ends = time.monotonic() + 2
    while time.monotonic() < ends:
        try:
            time.sleep(0.1)
        except BaseException:
            pass
"""
EATS_IN_A_CHILD = """
import subprocess, sys
def test_eats():
    subprocess.run([sys.executable, "-c", "x = bytearray(1 << 30); import time; time.sleep(60)"], check=True)
"""
EATS_UNDER_HYPOTHESIS = """
from hypothesis import given, strategies
@given(strategies.integers())
def test_eats(number):
    eaten = []
    while True:
        eaten.append(bytearray(1 << 20))
"""
FORKS = """
import multiprocessing, time
def test_forks():
    shared = bytearray(200 << 20)
    children = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(2,)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert all(child.exitcode == 0 for child in children)
"""
SLEEPS = """
import time
def test_sleeps():
    time.sleep(60)
"""
LOOPS_UNDER_HYPOTHESIS = """
from hypothesis import given, strategies
@given(strategies.integers())
def test_sleeps(number):
    while True:
        pass
"""
HANGS = """
import signal, threading, tests.limits
tests.limits._GRACE_S = 2
def test_hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # as code does that never returns to Python
    threading.Event().wait(60)
"""
KILLED = """
import os, signal
def test_is_killed():
    os.kill(os.getpid(), signal.SIGKILL)
"""
IS_WHOLE = """
import time, pytest
@pytest.mark.whole
def test_whole():
    time.sleep(1.5)
"""
LEAVES = """
import tempfile
def test_leaves():
    tempfile.mkdtemp(prefix="mine-")
"""


@pytest.mark.parametrize(
    ("text", "workers"),
    [(EATS, 2), (EATS_IN_A_CHILD, 0), (EATS_UNDER_HYPOTHESIS, 0)],
    ids=["itself", "child", "hypothesis"],
)
def test_a_test_that_eats_memory_fails_by_its_name(run_tests: Run, text: str, workers: int) -> None:
    ended = run_tests(text, workers=workers)
    assert "FAILED test_it.py::test_eats" in ended.stdout and "memory limit: the test and what it" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout


def test_the_test_after_one_that_ate_memory_is_not_to_blame(run_tests: Run) -> None:
    ended = run_tests(EATS_AND_THE_NEXT_SLEEPS)
    assert "2 passed" in ended.stdout and "1 failed" in ended.stdout
    assert "FAILED test_it.py::test_eats" in ended.stdout


def test_a_test_that_goes_on_after_its_limit_fails_at_its_end(run_tests: Run) -> None:
    ended = run_tests(GOES_ON)
    assert "FAILED test_it.py::test_goes_on" in ended.stdout and "1 passed" in ended.stdout
    assert "time limit: the test takes longer than 1 s" in ended.stdout


def test_memory_that_processes_share_counts_once(run_tests: Run) -> None:
    assert "2 passed" in run_tests(FORKS).stdout


@pytest.mark.parametrize("text", [SLEEPS, LOOPS_UNDER_HYPOTHESIS], ids=["sleeps", "hypothesis"])
def test_a_test_that_takes_too_long_fails_by_its_name(run_tests: Run, text: str) -> None:
    ended = run_tests(text, "-o", "timeout=1")
    assert "FAILED test_it.py::test_sleeps" in ended.stdout
    assert "time limit: the test takes longer than 1 s" in ended.stdout and "1 failed, 1 passed" in ended.stdout


def test_a_marked_test_has_its_markers_time(run_tests: Run) -> None:
    assert "2 passed" in run_tests(IS_WHOLE, "-o", "timeout=1").stdout


@pytest.mark.parametrize("workers", [0, 2])
def test_a_test_that_does_not_end_when_told_to_ends_its_process(run_tests: Run, workers: int) -> None:
    ended = run_tests(HANGS, "-o", "timeout=1", workers=workers)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1 and "test_it.py::test_hangs: time limit" in said and "in test_hangs" in said
    assert not workers or "FAILED test_it.py::test_hangs" in ended.stdout


def test_a_lost_worker_ends_the_run_with_the_tests_name(run_tests: Run) -> None:
    ended = run_tests(KILLED, workers=2)
    assert ended.returncode != 0 and "crashed while running 'test_it.py::test_is_killed'" in ended.stdout


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_test_leaves_in_the_temporary_folder_fails_the_run(run_tests: Run, workers: int) -> None:
    ended = run_tests(LEAVES, workers=workers)
    assert ended.returncode == 1 and "2 passed" in ended.stdout
    assert any(line.startswith("mine-") and line.endswith(": test_it.py::test_leaves") for line in ended.stdout.splitlines())
