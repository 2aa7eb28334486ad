"""Runs targets on spoilt inputs: in a process of its own with bounded memory and file sizes, watched for hangs.

An input is decided by target, seed and index alone. A target is a module of `tests.fuzz.targets`: `seeds()` returns sound
inputs, `mutate(random, files)` spoils one, `run(files, folder, sound)` says what became of it.
"""

import multiprocessing
import os
import resource
import shutil
import tempfile
import time
import traceback
from functools import cache
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import ModuleType

import psutil

from tests.fuzz.calling import Outcome, shorten
from tests.fuzz.mutation import Files

TARGETS = (
    "configuration", "claims", "registry", "records", "exports", "parquet", "nifti", "archives", "leavings", "command_line",
)  # fmt: skip
LIMIT_S = 60  # of the processor: a call that takes longer hangs, or one of ten times that by the clock
MEMORY_BYTES = 4 << 30  # beyond what the process has once everything is imported
FILE_BYTES = 256 << 20


class Worker:
    """A process that tries inputs, one after the other; started again where one hung or killed it."""

    def __init__(self) -> None:
        self.process: multiprocessing.process.BaseProcess | None = None

    def attempt(self, target: str, seed: int, index: int) -> Outcome:
        """Return what became of an input."""
        if self.process is None:
            self._start()
        self.pipe.send((target, seed, index))
        try:
            if self._wait():
                outcome: Outcome = self.pipe.recv()
                return outcome
            ended = Outcome("hang", f"longer than {LIMIT_S} s")
        except (EOFError, psutil.Error):
            ended = Outcome("traceback", "the process died")
        self.close()
        return ended

    def _wait(self) -> bool:
        """Wait for an answer, and return whether there is one; what others do on the machine is no hang."""
        assert self.process is not None
        used, began = psutil.Process(self.process.pid).cpu_times(), time.monotonic()
        while not self.pipe.poll(1):
            now = psutil.Process(self.process.pid).cpu_times()
            if now.user + now.system - used.user - used.system > LIMIT_S or time.monotonic() - began > 10 * LIMIT_S:
                return False
        return True

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.scratch = tempfile.mkdtemp(prefix="fuzz-")
        self.process = context.Process(target=_serve, args=(other, Path(self.scratch)), daemon=True)
        self.process.start()
        other.close()
        self.pipe.recv()  # everything is imported


def make_input(target: str, seed: int, index: int) -> tuple[Files, Files]:
    """Return a spoilt input, and the sound one that it was."""
    random = Random(f"{target}-{seed}-{index}")
    sound = random.choice(_seeds(target))
    return load(target).mutate(random, sound), sound


def run_input(target: str, files: Files, sound: Files, scratch: Path) -> Outcome:
    """Run a target on an input, in an empty folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(dir=scratch)).resolve()
    before = Path.cwd()
    os.chdir(folder)
    try:
        outcome: Outcome = load(target).run(files, folder, sound)
        return outcome
    except Exception:  # what nobody expected, here or there: to be looked at
        return Outcome("traceback", shorten(traceback.format_exc()))
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


def write_files(folder: Path, files: Files) -> Path:
    """Write an input's files into a folder, and return it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def read_files(folder: Path) -> Files:
    """Read all files below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def load(target: str) -> ModuleType:
    """Return a target's module."""
    return import_module(f"tests.fuzz.targets.{target}")


@cache
def _seeds(target: str) -> list[Files]:
    seeds: list[Files] = load(target).seeds()
    return seeds


def _serve(pipe: Connection, scratch: Path) -> None:
    tempfile.tempdir = str(scratch)  # this process is killed: what it leaves goes with the folder
    for target in TARGETS:
        load(target)
    os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    _bound_memory()
    pipe.send("ready")
    while True:
        target, seed, index = pipe.recv()
        files, sound = make_input(target, seed, index)
        pipe.send(run_input(target, files, sound, scratch))


def _bound_memory() -> None:
    """Let a bomb end in an error here, and not the machine."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
