"""Rows of the fault matrix, and working folders in which a fault costs seconds: what is there before it is made once."""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.place import MODULES, ROOT, Place, end_marked
from tests.faults.rows import Row
from tests.support import require

PART = 2  # dear rows that CI does each time
pytest.register_assert_rewrite("tests.faults.judge")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", action="store_true", help=f"Of the dear rows only {PART}, chosen by the commit")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a few of the dear rows, others for each commit, so that all of them have their turn."""
    if not config.getoption("part", False):
        return
    dear = [item for item in items if item.get_closest_marker("faults")]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    first = int(hashlib.sha256(commit.encode()).hexdigest(), 16) % max(len(dear), 1)
    chosen = [*dear, *dear][first : first + PART]
    print(f"of {len(dear)} dear rows, by commit {commit[:12] or 'unknown'}: {', '.join(item.name for item in chosen)}")
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def describe_machine() -> str:
    return f"{platform.system()} {platform.machine()} with {os.cpu_count()} cores and Python {platform.python_version()}"


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], Row]]:
    """Return what begins this test's row; it goes into the results file when the test ends, however it ends."""
    rows: list[Row] = []

    def begin(stage: str, fault: str) -> Row:
        rows.append(Row(stage, fault))
        return rows[-1]

    yield begin
    for one in rows:
        request.node.user_properties += [*one.properties(), ("machine", describe_machine())]
    if not hasattr(request.node, "failed"):
        assert [one.missing() for one in rows if one.missing()] == [], "a row with empty fields proves nothing"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    if call.when == "call" and call.excinfo is not None:
        item.failed = True  # type: ignore[attr-defined]
    yield


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Place], None]], Path]:
    """Return what makes a folder once for all processes of a session."""
    top = tmp_path_factory.getbasetemp()
    top = top.parent if os.environ.get("PYTEST_XDIST_WORKER") else top

    def make_once(name: str, make: Callable[[Place], None]) -> Path:
        folder = top / f"shared-{name}"
        with (top / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                draft = top / f"draft-{name}"
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir()
                place = Place(draft)
                make(place)
                shutil.rmtree(place.temporary, ignore_errors=True)
                draft.rename(folder)
        return folder

    return make_once


@pytest.fixture(scope="session")
def prepared(shared) -> Path:
    """Tiny volumes, and dataset.json."""

    def make(place: Place) -> None:
        place.configure()
        ended = place.run("data")
        assert ended.status == 0, ended.said

    return shared("prepared", make)


@pytest.fixture(scope="session")
def measured(shared, prepared) -> Path:
    """The same with a finished experiment of two timed runs."""
    return shared("measured", lambda place: _measure(place, prepared))


@pytest.fixture(scope="session")
def profiled(shared, prepared) -> Path:
    """The same with a finished experiment of one run under nsys."""
    require("nsys", shutil.which("nsys") is not None, "nsys is not on PATH")
    return shared("profiled", lambda place: _measure(place, prepared, **UNDER_NSYS))


@pytest.fixture(scope="session")
def complete(shared, prepared) -> Path:
    """A results folder of two variants with all that the workflow makes, doctor's findings and report included."""

    def make(place: Place) -> None:
        _measure(
            place,
            prepared,
            measurement={"variants": ["baseline", "fast"], "rounds": 1, "profiled": 1},
            variants={"fast": FAST},
        )
        for step in ("doctor", "rebuild"):
            ended = place.run(step)
            assert ended.status == 0, ended.said

    return shared("complete", make)


FAST = {
    "network": {"channels": [4, 8], "dropout": 0.0},
    "cache_workers": 1,
    "validation_cache_workers": 1,
    "precision": "fp32",
    "step_log": False,
}
UNDER_NSYS = {"measurement": {"rounds": 0, "profiled": 1}, "profiling": {"backend": "nsys"}}


def _measure(place: Place, prepared: Path, **changes) -> None:
    shutil.copytree(prepared, place.folder, dirs_exist_ok=True)
    place.configure(**changes)
    ended = place.run("experiment")
    assert ended.status == 0, f"{ended.said}\n{place.log_of('*')}"


@pytest.fixture
def place(tmp_path) -> Iterator[Callable[[Path | None], Place]]:
    """Return what makes a working folder, a copy of one that was made before; nothing it started may live on."""
    places: list[Place] = []

    def make(source: Path | None = None) -> Place:
        folder = tmp_path / f"work{len(places)}"
        shutil.copytree(source, folder) if source else folder.mkdir()
        places.append(Place(folder))
        return places[-1]

    yield make
    for one in places:
        end_marked(one.mark)
        shutil.rmtree(one.temporary, ignore_errors=True)


@pytest.fixture
def needs_mount(tmp_path) -> None:
    folder = tmp_path / "mount"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "fault", folder], capture_output=True)
    if done.returncode:
        pytest.skip("small disks cannot be mounted here: needs root")
    subprocess.run(["umount", folder], check=True)


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset_s(void) {
    long seconds = 0;
    FILE *file = fopen(getenv("TORCH_CLOCK_FILE"), "r");
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += offset_s();
    return status;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec; now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""
# A training process sees no LD_PRELOAD of ours: Python starts itself again, with it, before anything is read of a clock.
AGAIN = """import os, sys
if "LD_PRELOAD" not in os.environ and "TORCH_CLOCK_LIBRARY" in os.environ:
    os.environ["LD_PRELOAD"] = os.environ["TORCH_CLOCK_LIBRARY"]
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
"""


@pytest.fixture
def clock(tmp_path) -> tuple[Path, dict[str, str]]:
    """A file whose number is added to the system's time in seconds, and the variables of commands that believe it."""
    require("cc", shutil.which("cc") is not None, "no C compiler")
    folder = tmp_path / "clock"
    folder.mkdir()
    (folder / "clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "clock.so", folder / "clock.c", "-ldl"], check=True)
    (folder / "sitecustomize.py").write_text(AGAIN)
    (folder / "offset").write_text("0")
    paths = [str(folder), MODULES, *([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [])]
    variables = {"TORCH_CLOCK_FILE": str(folder / "offset"), "TORCH_CLOCK_LIBRARY": str(folder / "clock.so")}
    return folder / "offset", {**variables, "PYTHONPATH": os.pathsep.join(paths)}
