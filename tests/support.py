"""What tests of several parts share."""

import gc
import hashlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import settings

from speedproof.cli import main
from speedproof.cluster.isolation import explain_no_isolation
from speedproof.results.comparison_rows import MACHINE_KINDS

# Before anybody imports torch: one thread a process, in what tests start, too. What they train is tiny and gains nothing by
# more; two tests at once would wait for each other's.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Started under nohup, or in the background of a script, this process ignores these, and so would all that tests start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Tests measure on the processor beside each other: each process of theirs has locks of its own.
os.environ["SPEEDPROOF_LOCKS"] = f"tests {os.getpid()}"

# Real parts, separated by commas: no test may be skipped for lack of the first; the second are hidden, and none may find them.
REQUIRED, HIDDEN = (os.environ.get(f"SPEEDPROOF_{name}", "").split(",") for name in ("REQUIRE", "HIDDEN"))
# Fixtures that stand for a program which not every machine has: `pytest -m parts` runs the tests that use one.
PARTS = {"needs_nsys", "needs_slurm", "base_image", "browser", "needs_isolation"}
# Of these, what somebody sets up first, and what takes minutes (`make cluster`): an image is built, jobs wait for each other.
DEAR = {"killed_and_finished", "trained"}  # whole runs that their tests share
CLUSTER = {"needs_slurm", "base_image"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[Any]:
    """Give the next test the module path of this one: a command line that runs in this process takes the working folder out."""
    before = list(sys.path)
    try:
        return (yield)
    finally:
        sys.path[:] = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[Any]:
    """Remove the link that pytest leaves beside a test's folder: each run of a proof mirrors the folder that holds it.

    There would be one for each test before, so that a run makes and removes hundreds of links.
    """
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    try:
        return (yield)
    finally:
        for link in folder.parent.glob("*current") if folder else ():
            if not link.exists():
                link.unlink()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Pause the collector: imports leave millions of objects and hardly any garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if PARTS & set(getattr(item, "fixturenames", [])):
            item.add_marker("parts")
        if CLUSTER & set(getattr(item, "fixturenames", [])):
            item.add_marker("cluster")
        if DEAR & set(getattr(item, "fixturenames", [])):
            item.add_marker("dear")
        if item.get_closest_marker("timed"):
            item.add_marker(pytest.mark.flaky(reruns=2))
        if shares_fixture(item) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    # The longest first: what is short fills the end, where one process would wait for the other.
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("whole", "dear")])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the collector from the millions of objects that are imported by now: each full collection looked at them for 0.5 s.

    Comparisons of functions ask for one each, as does pytest at the end of each run in this process.
    """
    gc.collect()
    gc.freeze()


def shares_fixture(item: pytest.Item) -> bool:
    """Return whether a test needs what its own module makes once: in one process then, or each makes it."""
    needed = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).values()
    module = item.nodeid.partition("::")[0]
    return any(one.scope == "module" and one.baseid == module for definitions in needed for one in definitions)


def require(part: str, available: bool, reason: str) -> None:
    """Skip a test whose real part is missing.

    It fails where the environment says otherwise: SPEEDPROOF_REQUIRE names it, or SPEEDPROOF_HIDDEN does and it is there.
    """
    if available and part in HIDDEN:
        pytest.fail(f"SPEEDPROOF_HIDDEN hides {part}, but it is there")
    if available:
        return
    if part in REQUIRED:
        pytest.fail(f"SPEEDPROOF_REQUIRE demands {part}: {reason}")
    pytest.skip(reason)


@pytest.fixture
def speedproof_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CompletedProcess[str]]:
    """A function that runs a command line in this process: one of its own takes seconds to import what it needs."""

    def run(*arguments: object) -> CompletedProcess[str]:
        words = ["speedproof", *map(str, arguments)]
        monkeypatch.setattr("sys.argv", words)
        monkeypatch.setattr(logging.getLogger("speedproof"), "handlers", [])
        with pytest.raises(SystemExit) as ended:
            main()
        return CompletedProcess(words, int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def published(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """A function by which a program of a test's own passes for a published one, which alone are run as such."""

    def pass_for_one(program: Path) -> None:
        listed = tmp_path_factory.mktemp("published") / "published.yaml"
        listed.write_text(hashlib.sha256(program.read_bytes()).hexdigest())
        monkeypatch.setattr("speedproof_common.program.PROGRAMS", listed)

    return pass_for_one


@pytest.fixture(scope="session")
def needs_nsys() -> None:
    require("nsys", shutil.which("nsys") is not None, "nsys is not on PATH")


@pytest.fixture(scope="session")
def needs_isolation() -> None:
    why = explain_no_isolation()
    require("isolation", not why, f"programs cannot be isolated here: {why}")


@pytest.fixture
def apptainer_to_plan_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `apptainer` for dry runs: they ask for its version, and start nothing."""
    program = tmp_path / "programs" / "apptainer"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$*" = --version ] && echo apptainer version 1.4.5\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


@pytest.fixture(scope="session")
def samples() -> Path:
    """Real inputs that are not ours to ship: $SPEEDPROOF_SAMPLES, else ../shared/samples beside the checkout."""
    beside = Path(__file__).parents[2] / "shared" / "samples"
    folder = Path(os.environ.get("SPEEDPROOF_SAMPLES", beside))
    require("samples", folder.is_dir(), f"no samples in {folder}; set SPEEDPROOF_SAMPLES to their folder")
    return folder


def without_machine(objections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what a verdict says of the machine that the tests run on: other tests run there, too."""
    return [one for one in objections if one["kind"] not in MACHINE_KINDS]
