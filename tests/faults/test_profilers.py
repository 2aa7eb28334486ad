"""nsys missing, hanging, silent; an importer that dies; NVML missing, and NVML that stops answering."""

import csv
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.faults.conftest import UNDER_NSYS
from tests.faults.judge import judge_end, judge_kept, judge_rerun
from tests.faults.nsys import write_nsys
from tests.faults.place import Place
from tests.support import require

pytestmark = pytest.mark.faults

FAILURES = {
    # what it is called: the subcommand at which it happens, what happens then, and whether nsys' own test meets it too
    "says nothing and leaves no report": ("profile", '"$@" >/dev/null 2>&1; exit 0', False),
    "ends with an error": ("profile", "echo 'Failed to start the daemon' >&2; exit 1", False),
    "the importer dies": ("export", "kill -SEGV $$", False),
    "the importer leaves an empty file": ("export", "exit 0", False),
    "statistics crash": ("stats", "kill -SEGV $$", False),
    "the importer dies in its own test, too": ("export", "kill -SEGV $$", True),
}
HANGS = {"its version hangs": "--version", "the importer hangs": "export", "statistics hang": "stats"}
HURRIED = Path(__file__).with_name("hurried.py")


@pytest.mark.parametrize("fault", FAILURES)
def test_nsys_fails(row, place, prepared, profiled, fault):
    on, then, probe = FAILURES[fault]
    judge(row("experiment, under nsys", fault), place(prepared), profiled, on, then, probe)


@pytest.mark.parametrize("fault", HANGS)
def test_nsys_hangs(row, place, prepared, profiled, fault):
    given = place(prepared)
    here = Hurried(given.folder, given.mark)  # by its mark, what it leaves is removed
    judge(row("experiment, under nsys", fault), here, profiled, HANGS[fault], "sleep 3000", fault == "its version hangs")


class Hurried(Place):
    """A working folder in which nsys gets 25 seconds where it else gets minutes."""

    def words(self, step, *options):
        words = super().words(step, *options)
        return [*words[:1], str(HURRIED), *words[3:]] if step == "experiment" else words


def test_a_recording_hangs(row, place, prepared, profiled):
    """How long a training takes is not known: what hangs in its place is ended by a stop signal."""
    here = place(prepared)
    program = write_nsys(here.folder, "profile", f"touch {here.folder}/begun; sleep 3000")
    here.configure(**UNDER_NSYS | {"profiling": {"backend": "nsys", "nsys": str(program)}})
    one, before = row("experiment, under nsys", "the recording hangs, until TERM"), here.snapshot()
    running = here.start("experiment")
    running.wait_for((here.folder / "begun").exists)
    judge_end(one, running.kill(signal.SIGTERM))
    judge_kept(one, here, before)
    shutil.copy(profiled / "results/config.json", here.results)
    judge_rerun(one, here, ["experiment"], profiled)


def judge(one, here, profiled, on, then, probe):
    program = write_nsys(here.folder, on, then, probe)
    here.configure(**UNDER_NSYS | {"profiling": {"backend": "nsys", "nsys": str(program)}})
    before = here.snapshot()
    judge_end(one, here.run("experiment"))
    judge_kept(one, here, before)
    shutil.copy(profiled / "results/config.json", here.results)
    judge_rerun(one, here, ["experiment"], profiled)


def test_nsys_is_missing(row, place, prepared, profiled):
    here = place(prepared)
    here.configure(**UNDER_NSYS | {"profiling": {"backend": "nsys", "nsys": "/nowhere/nsys"}})
    one, before = row("experiment, under nsys", "nsys is missing, and demanded"), here.snapshot()
    judge_end(one, here.run("experiment"))
    judge_kept(one, here, before)
    shutil.copy(profiled / "results/config.json", here.results)
    judge_rerun(one, here, ["experiment"], profiled)


def test_nsys_is_missing_and_not_demanded(row, place, prepared, shared):
    """`profiling.backend: auto` takes torch's own profiler then, and the run's record says so."""
    settings = {"measurement": {"rounds": 0, "profiled": 1}}

    def measure(other):
        shutil.copytree(prepared, other.folder, dirs_exist_ok=True)
        other.configure(**settings)
        assert other.run("experiment").status == 0

    undisturbed = shared("kineto", measure)
    here = place(prepared)
    here.configure(**settings | {"profiling": {"backend": "auto", "nsys": "/nowhere/nsys"}})
    one, before = row("experiment", "nsys is missing, and not demanded"), here.snapshot()
    ended = here.run("experiment")
    (line,) = [line for line in ended.said.splitlines() if line.startswith("profiler: ")]
    one.said, one.status, one.tries = line, str(ended.status), 1
    assert ended.status == 0 and "kineto" in line, ended.said
    judge_kept(
        one,
        here,
        before
        | {
            "results/experiments/experiment-1/experiment.json": here.snapshot()[
                "results/experiments/experiment-1/experiment.json"
            ]
        },
    )
    shutil.copy(undisturbed / "results/config.json", here.results)
    judge_rerun(one, here, ["experiment"], undisturbed)


NVML = r"""
#include <stdio.h>
#include <string.h>
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Rates;
static int asked;
static int device;
#define ANSWER(what) do { if (++asked > 40) return 15; what; return 0; } while (0)  /* 15: the GPU is lost */
int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { return 0; }
const char *nvmlErrorString(int error) { return "GPU is lost"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = &device; return index ? 2 : 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) { strncpy(text, "GPU-0", length); return 0; }
int nvmlDeviceGetName(void *handle, char *text, unsigned length) { strncpy(text, "Fake", length); return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) { ANSWER(memset(memory, 0, sizeof *memory)); }
int nvmlDeviceGetUtilizationRates(void *handle, Rates *rates) { ANSWER(rates->gpu = 7; rates->memory = 3); }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *value) { ANSWER(*value = 100000); }
int nvmlDeviceGetTemperature(void *handle, int kind, unsigned *value) { ANSWER(*value = 40); }
int nvmlDeviceGetClockInfo(void *handle, int kind, unsigned *value) { ANSWER(*value = 1000); }
"""


@pytest.mark.parametrize("fault", ["NVML is missing", "NVML stops answering"])
def test_nvml(row, place, measured, tmp_path, fault):
    """What samples the GPU never ends a run: cells stay empty."""
    here = place(measured)
    (here.experiment / "experiment.json").unlink()
    shutil.rmtree(here.experiment / "runs/02-baseline-timed")
    folder = tmp_path / "nvml"
    folder.mkdir()
    if fault == "NVML stops answering":
        require("cc", shutil.which("cc") is not None, "no C compiler")
        (folder / "nvml.c").write_text(NVML)
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", folder / "nvml.c"], check=True)
    else:
        (folder / "libnvidia-ml.so.1").write_text("no library\n")
    here.variables["LD_LIBRARY_PATH"] = str(folder)
    one, before = row("experiment, in a timed run", fault), here.snapshot()
    ended = here.run("experiment")
    one.status, one.tries = str(ended.status), 1
    assert ended.status == 0, ended.said
    with (here.experiment / "runs/02-baseline-timed/gpu.csv").open() as table:
        samples = list(csv.DictReader(table))
    told = [sample for sample in samples if sample["gpu_busy_percent"]]
    one.said = "nothing"
    one.kept = f"gpu.csv: {'no samples' if not samples else 'samples, then empty cells'}"
    if fault == "NVML stops answering":
        assert told and len(told) < len(samples) and not samples[-1]["power_w"]
    else:
        assert not samples
    now = here.snapshot()
    assert not [name for name in before if now.get(name) != before[name]]
    here.variables.clear()
    judge_rerun(one, here, ["experiment"], measured)
