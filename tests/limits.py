"""What a test may take: memory, time, and what it may leave in the temporary folder. Whatever exceeds it fails by name.

A watcher samples the memory of the process that runs the tests and of all that it started. A test at fault gets an exception,
and the largest process that it started is killed. If the test does not end within a grace period, its process does, after
printing the test's name and its stacks; pytest-xdist then reports the test as the one that crashed its worker.

The limits: `memory_limit_mib` in pyproject.toml; `timeout` there, the marker of the same name, or LIMITS_S by marker.
"""

import contextlib
import faulthandler
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest
import pytest_timeout

from tests.session_folders import remove_session_folders

# Tests of these markers take minutes; of several the longest counts.
LIMITS_S = {"whole": 1200, "cluster": 1800, "records": 1800, "faults": 3600}
_MIB = 1 << 20
_LOOK_EVERY_S = 0.1
_LOOK_AT_CHILDREN_EVERY_S = 0.5
_GRACE_S = 30.0  # to clean up after the first exception
# Caches of what torch compiles, which it keeps for other processes; sockets of `multiprocessing`, which go when a process ends.
# A folder of nsys, which it keeps too.
_KEPT = ("torchinductor_", "pymp-", "nvidia")
_LEFT = pytest.StashKey[dict[str, str]]()  # what lies in the temporary folder: during which test it came
_PLACE = pytest.StashKey[Path]()  # this process' temporary folder
_TOP = pytest.StashKey[Path]()  # the session's, which holds those of all its processes
_WATCHER = pytest.StashKey["Watcher"]()


class LimitExceededError(BaseException):
    """A test took too much. Not an `Exception`: hypothesis would run the test again, and code under test might go on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("memory_limit_mib", "Memory of a process that runs tests, and of all that it starts", default="3072")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker is None:
        # pytest keeps its own folders of the last three sessions where it would have kept them.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        config.stash[_TOP] = Path(tempfile.mkdtemp(prefix="sp-"))
        config.stash[_LEFT] = {}
    place = config.stash.get(_TOP, Path(tempfile.gettempdir())) / (worker or "main")
    place.mkdir()
    config.stash[_PLACE] = place
    # A controller's workers make theirs beside its own.
    distributes = worker is None and getattr(config.option, "dist", "no") != "no" and getattr(config.option, "tx", None)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place.parent if distributes else place)
    config.stash[_WATCHER] = Watcher(config, int(config.getini("memory_limit_mib")) * _MIB)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        limits = [limit for marker, limit in LIMITS_S.items() if item.get_closest_marker(marker)]
        if limits and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(limits)))


class Watcher:
    """Looks at memory and time from a thread of its own while a test runs."""

    def __init__(self, config: pytest.Config, limit: int) -> None:
        self._config = config
        self._limit = limit
        self._process = psutil.Process()
        self._test = ""
        self._reason = ""
        self._time_reason = ""
        self.exceeded = ""  # which limit the test was told of
        self._time_at = float("inf")
        self._exit_at = float("inf")
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, test: str) -> None:
        """Watch a test; the thread starts with the first one, in the process that runs it."""
        self._test, self._reason, self._time_at, self._exit_at = test, "", float("inf"), float("inf")
        self.exceeded = ""
        signal.signal(signal.SIGALRM, self._raise)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True, name="limits")
            self._thread.start()

    def end(self) -> None:
        """Watch no more until the next test."""
        self._exit_at, self._test = float("inf"), ""

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()

    def limit_time(self, seconds: float) -> None:
        """Raise in the test after so long, and again and again, in case that something catches it."""
        self._time_at = time.monotonic() + seconds
        self._exit_at = self._time_at + _GRACE_S
        self._time_reason = f"time limit: the test takes longer than {seconds:g} s"
        signal.setitimer(signal.ITIMER_REAL, seconds, _GRACE_S / 3)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        late = time.monotonic() >= self._time_at - _LOOK_EVERY_S  # else it was meant for the test before
        if self._test and (self._reason or late) and not pytest_timeout.is_debugging():
            self.exceeded = self._reason or self._time_reason
            raise LimitExceededError(self.exceeded)

    def _watch(self) -> None:
        look_at_children = 0.0
        while not self._ended.wait(_LOOK_EVERY_S):
            if not self._test:
                continue
            now = time.monotonic()
            if now > self._exit_at and not pytest_timeout.is_debugging():
                self._exit()
            with contextlib.suppress(psutil.Error, OSError):
                if now >= look_at_children or self._process.memory_info().rss > self._limit:
                    look_at_children = now + _LOOK_AT_CHILDREN_EVERY_S
                    self._check_memory()

    def _check_memory(self) -> None:
        children = self._process.children(recursive=True)
        if _sum_memory([self._process, *children], "rss") <= self._limit:
            return
        used = _sum_memory([self._process, *children], "pss")  # forked processes share pages, which `rss` counts for each
        if used <= self._limit or not self._test:
            return
        first = not self._reason
        self._reason = (
            f"memory limit: the test and what it started use {used // _MIB} MiB, over {self._limit // _MIB}; "
            f"{_sum_memory(children, 'pss') // _MIB} of them in {len(children)} processes"
        )
        if first:
            self._exit_at = min(self._exit_at, time.monotonic() + _GRACE_S)
        largest = max(children, key=lambda child: _sum_memory([child], "pss"), default=None)
        if largest and _sum_memory([largest], "pss") > _sum_memory([self._process], "pss"):
            largest.kill()
        if first:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    def _exit(self) -> None:
        """End this process, which hangs in a test, with the test's name and the stacks of all threads."""
        capture = self._config.pluginmanager.getplugin("capturemanager")
        if capture:
            capture.suspend_global_capture(in_=True)
        reason = self._reason or self._time_reason
        sys.__stderr__.write(f"\n{self._test}: {reason}; it does not end when told to, so its process does\n")
        sys.__stderr__.flush()
        faulthandler.dump_traceback(sys.__stderr__)
        for child in self._process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
        _remove_top(self._config)
        os._exit(1)


def _sum_memory(processes: list[psutil.Process], kind: str) -> int:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            total += process.memory_info().rss if kind == "rss" else process.memory_full_info().pss
    return total


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Replace pytest-timeout's timer, whose one exception hypothesis catches; then it runs the test again without a limit."""
    item.config.stash[_WATCHER].limit_time(settings.timeout)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    signal.setitimer(signal.ITIMER_REAL, 0)
    return True


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Watch a test with its fixtures, and note what appears in the temporary folder meanwhile."""
    watcher = item.config.stash[_WATCHER]
    watcher.begin(item.nodeid)
    try:
        return (yield)
    finally:
        watcher.end()
        left = item.config.stash.setdefault(_LEFT, {})
        for path in item.config.stash[_PLACE].iterdir():
            left.setdefault(str(path), item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """Fail a test that went on and ended well after it was told of its limit."""
    result = yield
    if exceeded := item.config.stash[_WATCHER].exceeded:
        raise LimitExceededError(exceeded)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Let go of what a test that took too much still holds by its traceback: the next test is not to blame for it."""
    report = yield
    if call.excinfo and isinstance(call.excinfo.value, LimitExceededError):
        traceback.clear_frames(call.excinfo.tb)
        for frame, _ in traceback.walk_tb(call.excinfo.tb):
            dict(frame.f_locals)  # renews the copy of its variables, which holds what they were
        gc.collect()
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove what the tests of this process shared; in the session's first process fail if anything else is left."""
    config = session.config
    config.stash[_WATCHER].stop()
    remove_session_folders()
    if _TOP not in config.stash:
        config.workeroutput["left"] = config.stash.get(_LEFT, {})  # type: ignore[attr-defined]
    elif list_left(config) and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a worker saw appear in the temporary folder."""
    node.config.stash[_LEFT].update(getattr(node, "workeroutput", {}).get("left", {}))


def list_left(config: pytest.Config) -> list[str]:
    """Return what is left in the session's temporary folder, each with the test during which it appeared."""
    seen = config.stash[_LEFT]
    left = sorted(path for place in config.stash[_TOP].iterdir() for path in place.iterdir() if not path.name.startswith(_KEPT))
    return [f"{path.name}: {seen.get(str(path), 'after the last test of its process')}" for path in left]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := list_left(config):
        terminalreporter.section("left in the temporary folder, by the test during which it appeared", red=True)
        for line in left:
            terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    _remove_top(config)


def _remove_top(config: pytest.Config) -> None:
    if _TOP in config.stash:
        shutil.rmtree(config.stash[_TOP], ignore_errors=True)
