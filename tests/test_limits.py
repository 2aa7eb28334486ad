"""A test that takes too much fails by its name, and the rest goes on."""

import os
import re
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
MEMORY = """
import multiprocessing, subprocess, sys, time
from hypothesis import given, strategies

def test_forks():
    shared = bytearray(200 << 20)
    children = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(2,)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert all(child.exitcode == 0 for child in children)

def test_child_eats():
    subprocess.run([sys.executable, "-c", "x = bytearray(1 << 30); import time; time.sleep(60)"], check=True)

@given(strategies.integers())
def test_eats_under_hypothesis(number):
    eaten = []
    while True:
        eaten.append(bytearray(1 << 20))

def test_eats():
    eaten = []
    while True:
        eaten.append(b"x" * (10 << 20))
        time.sleep(0.02)

def test_sleeps():
    time.sleep(1.5)
"""
TIME = """
import time, pytest
from hypothesis import given, strategies

def test_sleeps():
    time.sleep(60)

@given(strategies.integers())
def test_loops_under_hypothesis(number):
    while True:
        pass

@pytest.mark.timeout(1)
def test_goes_on():
    ends = time.monotonic() + 2
    while time.monotonic() < ends:
        try:
            time.sleep(0.1)
        except BaseException:
            pass

@pytest.mark.whole
def test_whole():
    time.sleep(1.5)
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
LEAVES = """
import tempfile
def test_leaves():
    tempfile.mkdtemp(prefix="mine-")
"""


def find_failed(ended: subprocess.CompletedProcess[str], why: str) -> set[str]:
    """Return which tests failed, each of which must give this reason."""
    failures = ended.stdout.split("= FAILURES =")[1].split("= short test summary info =")[0]
    reasons = re.split(r"^_{3,} (\w+) _{3,}$", failures, flags=re.MULTILINE)[1:]
    assert all(why in reason for reason in reasons[1::2])
    return set(reasons[::2])


def test_a_test_that_eats_memory_fails_by_its_name(run_tests: Run) -> None:
    ended = run_tests(EATS, workers=2)
    assert "FAILED test_it.py::test_eats" in ended.stdout and "memory limit: the test and what it" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout


def test_any_way_to_eat_memory_is_seen_and_neither_shared_memory_nor_the_next_test_is_to_blame(run_tests: Run) -> None:
    """What is eaten by a child, under hypothesis, or when the next test sleeps; memory that processes share counts once."""
    ended = run_tests(MEMORY)
    names = {"test_child_eats", "test_eats", "test_eats_under_hypothesis"}
    assert find_failed(ended, "memory limit: the test and what it") == names
    assert "3 failed, 3 passed" in ended.stdout


def test_a_test_that_takes_too_long_fails_by_its_name(run_tests: Run) -> None:
    """Under hypothesis, too; one that goes on after its limit fails at its end, and a marked one has its marker's time."""
    ended = run_tests(TIME, "-o", "timeout=1")
    names = {"test_goes_on", "test_loops_under_hypothesis", "test_sleeps"}
    assert find_failed(ended, "time limit: the test takes longer than 1 s") == names
    assert "3 failed, 2 passed" in ended.stdout


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
