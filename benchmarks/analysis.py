"""Time and memory of our analysis, compared with `nsys stats` with five reports on the same file.

`python benchmarks/analysis.py` prints a row for each generated export (see generated_export.py). Each command runs in its own
process and is timed from start to end. On small exports the fastest of three runs counts. `nsys stats` is skipped on large
ones, where it would need many minutes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from generated_export import MIXES

# The sums that our summary also has, and nsys' one report of the GPU work that a range caused.
REPORTS = ["cuda_gpu_kern_sum", "cuda_api_sum", "cuda_gpu_mem_time_sum", "nvtx_sum", "nvtx_gpu_proj_sum"]
HEADER = ["mix", "events", "convert", "analyze", "both in one command", "peak memory", "`nsys stats`", "ours is"]
SMALL = 1_000_000  # events
REPEATS = 3  # of our commands on a small export


class Cost(NamedTuple):
    """What a command took."""

    wall_s: float
    peak_mib: float


def run_measured(*command: str | Path) -> Cost:
    """Run a command and return its wall time and its largest resident memory."""
    start_s = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"{command[0]} failed: {said}")
    return Cost(time.monotonic() - start_s, usage.ru_maxrss / 1024)


def measure_fastest(repeats: int, *command: str | Path) -> Cost:
    """Return the shortest time of several runs and the largest memory."""
    costs = [run_measured(*command) for _ in range(repeats)]
    return Cost(min(cost.wall_s for cost in costs), max(cost.peak_mib for cost in costs))


def measure_size(folder: Path, mix: str, events: int) -> list[str]:
    """Generate an export, measure all commands on it, and return the table's row."""
    repeats, nsys = (REPEATS, shutil.which("nsys")) if events <= SMALL else (1, None)
    export, trace, out = folder / "generated.sqlite", folder / "trace", folder / "out"
    generator = Path(__file__).with_name("generated_export.py")
    made = subprocess.run([sys.executable, generator, export, str(events), mix], check=True, capture_output=True, text=True)
    speedproof = [sys.executable, "-m", "speedproof"]
    convert = measure_fastest(repeats, *speedproof, "trace", "convert", export, "--out", trace)
    analyze = measure_fastest(repeats, *speedproof, "trace", "analyze", trace, "--out", out, "--no-page")
    both = measure_fastest(repeats, *speedproof, "trace", "analyze", export, "--out", out, "--no-page")
    row = [mix, f"{int(made.stdout):,}", *(f"{cost.wall_s:.2f} s" for cost in (convert, analyze, both))]
    row.append(f"{max(cost.peak_mib for cost in (convert, analyze, both)):,.0f} MiB")
    if nsys is None:
        return [*row, "–", "–"]
    reports = [f"--report={name}" for name in REPORTS]
    stats = measure_fastest(
        1, nsys, "stats", *reports, "--format=csv", "--force-overwrite=true", "--output", folder / "s", export
    )
    missing = [name for name in REPORTS if not (folder / f"s_{name}.csv").stat().st_size]
    if missing:  # nsys exits with 0 if it skips a report
        sys.exit(f"nsys stats skipped {', '.join(missing)}")
    return [*row, f"{stats.wall_s:.2f} s", f"{stats.wall_s / both.wall_s:.1f}× as fast"]


def main() -> None:
    """Print a table of what each size of each mix takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=int, nargs="*", default=[700_000, 7_000_000, 20_000_000])
    parser.add_argument("--mix", choices=MIXES, action="append", help="mix of events (repeatable). Default: all")
    options = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
    for mix in options.mix or MIXES:
        for events in options.events:
            with tempfile.TemporaryDirectory() as folder:
                row = measure_size(Path(folder), mix, events)
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
