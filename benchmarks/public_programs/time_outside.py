"""Time a public program's two commands in turns, without any code of speedproof.

`python -m benchmarks.public_programs.time_outside NAME --programs FOLDER` runs the commands in the order ABBA ABBA …. Each run
starts in a fresh copy of the folder that lay_out.py wrote. The first run of each command is not used. A run's time is the
median of the times that the program prints, or of the gaps between its lines, or its process's wall time (see programs.yaml).
An endless program is stopped after enough times. Prints JSON: the times, and the ratio with a 95 % interval of Student's t.
The programs run with the Python that runs this module.
"""

import argparse
import json
import math
import os
import pty
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from scipy.stats import t as student

from benchmarks.public_programs.catalogue import Program, choose_programs

UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
TIME = re.compile(r"\s*([\d.]+(?:[eE][+-]?\d+)?)\s*(us|ms|sec|s)?")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WARM_FROM = 5  # times; a run with fewer keeps its first


class Ratio(NamedTuple):
    """How many times as fast b is as a, with its 95 % interval."""

    speedup: float
    low: float
    high: float


class Reading(NamedTuple):
    """The seconds of one unit in one run."""

    seconds: float
    source: str


def parse_time(text: str, rate: bool) -> float:
    """Return the seconds of a printed time such as `12.5ms`, or of one unit of a printed rate."""
    match = TIME.match(text)
    if not match:
        raise SystemExit(f"{text!r} is not a time; correct the pattern in programs.yaml")
    number = float(match[1]) * UNITS_S.get(match[2], 1.0)
    return 1 / number if rate else number


def estimate_ratio(a_s: list[float], b_s: list[float]) -> Ratio:
    """Compare runs pair by pair: the mean log ratio of a to b, and its interval."""
    logs = [math.log(a / b) for a, b in zip(a_s, b_s, strict=True)]
    mean = statistics.mean(logs)
    half = math.inf
    if len(logs) > 1:
        half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def list_order(runs: int) -> str:
    """Return the order of `runs` runs of each command: abba, repeated."""
    return ("abba" * runs)[: 2 * runs]


def read_lines(terminal: int, process: subprocess.Popen[bytes]) -> Iterator[tuple[float, str]]:
    """Yield each line and its moment; an empty line at least once per second, so that a caller can look at the clock."""
    rest = b""
    while True:
        ready, _, _ = select.select([terminal], [], [], 1.0)
        if not ready and process.poll() is not None:
            break
        chunk = b""
        if ready:
            with suppress(OSError):  # Linux's way to report that the last program has closed its terminal
                chunk = os.read(terminal, 65536)
            if not chunk:
                break
        now = time.monotonic()
        *whole, rest = re.split(rb"[\r\n]+", rest + chunk)
        yield from ((now, ESCAPES.sub("", raw.decode("utf-8", "replace"))) for raw in whole or [b""])
    yield time.monotonic(), rest.decode("utf-8", "replace")


def stop_program(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a program's group as Ctrl-C does, and kill what is left after a second."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        os.killpg(process.pid, signal.SIGKILL)


def summarize_run(program: Program, printed: list[str], moments: list[float], wall_s: float) -> Reading:
    """Return the median of what a run showed."""
    if program.lines:
        times, source = [after - before for before, after in pairwise(moments)], "gaps between lines"
    elif program.printed:
        times, source = [parse_time(text, program.rate) for text in printed], "printed times"
        times = times[1:] if len(times) >= WARM_FROM else times
    else:
        return Reading(wall_s, "wall time of the process")
    if not times:
        raise SystemExit(f"{program.name}: too few lines match {program.lines or program.printed!r}")
    return Reading(statistics.median(times), f"median of {len(times)} {source}")


def time_run(program: Program, command: str, folder: Path, enough: int, environ: dict[str, str]) -> Reading:
    """Run a command on a terminal of its own and return its time."""
    pattern = re.compile(program.lines or program.printed or "(?!)")
    terminal, its_end = pty.openpty()
    began = time.monotonic()
    start = {"cwd": folder / program.folder, "env": environ, "start_new_session": True}
    process = subprocess.Popen(["bash", "-c", command], stdin=its_end, stdout=its_end, stderr=its_end, **start)
    os.close(its_end)
    printed: list[str] = []
    moments: list[float] = []
    stopped = False
    try:
        for now, line in read_lines(terminal, process):
            if match := pattern.search(line):
                printed.append(match[1] if pattern.groups else match[0])
                moments.append(now)
            stopped = program.endless_s is not None and (len(moments) >= enough or now - began > program.endless_s)
            if stopped:
                break
        if not stopped:
            process.wait()
    finally:
        stop_program(process)
        os.close(terminal)
    wall_s = time.monotonic() - began
    if process.wait() and not stopped:
        raise SystemExit(f"{command}: exit status {process.returncode}")
    return summarize_run(program, printed, moments, wall_s)


def time_program(program: Program, laid_out: Path, runs: int, enough: int, environ: dict[str, str]) -> dict[str, object]:
    """Run both commands in turns, and return times and ratio."""
    times: dict[str, list[float]] = {"a": [], "b": []}
    source, order = "", list_order(runs)
    with tempfile.TemporaryDirectory(prefix="outside-") as scratch:
        base = Path(scratch, "base")
        shutil.copytree(laid_out, base, symlinks=True)
        if program.setup:
            subprocess.run(["bash", "-c", program.setup], cwd=base, env=environ, check=True, stdout=sys.stderr)
        for number, variant in enumerate(order):
            folder = Path(scratch, f"run{number}")
            shutil.copytree(base, folder, symlinks=True)
            command = program.a if variant == "a" else program.b
            seconds, source = time_run(program, command, folder, enough, environ)
            times[variant].append(seconds)
            shutil.rmtree(folder)
            print(f"{program.name} {variant} {seconds:.6g} s ({source})", file=sys.stderr, flush=True)
    ratio = estimate_ratio(times["a"][1:], times["b"][1:])
    facts = {"name": program.name, "unit": program.unit, "source": source, "order": order, "load": os.getloadavg()}
    return {**facts, "a_s": times["a"], "b_s": times["b"], "pairs": runs - 1, **ratio._asdict()}


def main() -> None:
    """Time one program, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="program of programs.yaml")
    parser.add_argument("--programs", type=Path, required=True, help="folder that lay_out.py wrote")
    parser.add_argument("--runs", type=int, default=6, help="runs of each command (default: 6)")
    parser.add_argument("--times", type=int, default=30, help="times after which an endless program is stopped (default: 30)")
    asked = parser.parse_args()
    if asked.runs < 3:
        parser.error("--runs: at least 3, since the first run of each command is not used and an interval needs two pairs")
    [program] = choose_programs([asked.name])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "COLUMNS": "200"}
    print(json.dumps(time_program(program, asked.programs / program.name, asked.runs, asked.times, environ), indent=1))


if __name__ == "__main__":
    main()
