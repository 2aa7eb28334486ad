"""CPU time and memory of speedproof and of similar tools, on the same files.

    python benchmarks/peers.py FOLDER --peers VENV/bin

FOLDER holds the files that docs/peers.md names. VENV has `nsys-ai` and `HolisticTraceAnalysis`, and `nsys` is on PATH. Each
command runs RUNS times in its own process, in turns with the others. The lowest CPU time counts, since other work on a shared
machine can only add to it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

LIMIT_S = 300

HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='.')
"""
HTA_QUESTIONS = {
    "HTA, idle time": "print(analysis.get_idle_time_breakdown(ranks=[0], visualize=False)[0])",
    "HTA, temporal breakdown": "print(analysis.get_temporal_breakdown(visualize=False))",
    "HTA, queue length": "print(analysis.get_queue_length_summary())",
    "HTA, critical path": "path, good = analysis.critical_path_analysis(0, 'ProfilerStep', 1); print(path.summary())",
}
NSYS_REPORTS = ["cuda_gpu_kern_sum", "cuda_api_sum", "cuda_gpu_mem_time_sum", "nvtx_sum", "nvtx_gpu_proj_sum"]
NSYS_RULES = ["cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync", "cuda_api_sync", "gpu_gaps", "gpu_time_util"]


class Cost(NamedTuple):
    """What one run of a command took."""

    processor_s: float
    wall_s: float
    peak_mib: float
    ended: str  # empty if it ended well


def list_commands(file: Path, peers: Path, out: Path) -> dict[str, list[str]]:
    """Return the commands that read such a file, by tool and question."""
    name = str(file)
    analyze = [sys.executable, "-m", "speedproof", "trace", "analyze", name, "--out", str(out), "--no-page"]
    commands = {"speedproof trace analyze": analyze}
    if file.suffix == ".sqlite":
        stats = ["--format=csv", "--force-overwrite=true", f"--output={out}/stats"]
        commands["nsys stats, five reports"] = ["nsys", "stats", *(f"--report={one}" for one in NSYS_REPORTS), *stats, name]
        commands["nsys analyze, six rules"] = ["nsys", "analyze", *(f"--rule={one}" for one in NSYS_RULES), name]
        for question in ("summary", "iters", "diagnose"):
            commands[f"nsys-ai {question}"] = [str(peers / "nsys-ai"), question, name]
    else:
        for question, code in HTA_QUESTIONS.items():
            commands[question] = [str(peers / "python"), "-c", HTA + code, name]
    return commands


def measure(command: list[str], folder: Path) -> Cost:
    """Run a command in a folder and return what it took with all that it started."""
    begun_s = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(["timeout", str(LIMIT_S), *command], cwd=folder, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - begun_s
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    code = os.waitstatus_to_exitcode(status)
    ended = "" if code == 0 else f"exit {code}: {lines[-1][:100] if lines else ''}"
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, ended)


def main() -> None:
    """Print a table of all commands on all files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", type=Path, required=True, help="folder with nsys-ai and the python that has HTA")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    print("| file | command | CPU, s | wall, s | peak memory, MiB |\n| --- | --- | --- | --- | --- |")
    for file in sorted(path.resolve() for path in options.folder.iterdir() if path.name.endswith((".sqlite", ".json.gz"))):
        with tempfile.TemporaryDirectory() as scratch:
            commands = list_commands(file, options.peers.absolute(), Path(scratch))
            costs: dict[str, list[Cost]] = {name: [] for name in commands}
            for _ in range(options.runs):
                for name, command in commands.items():
                    costs[name].append(measure(command, Path(scratch)))
        for name, found in costs.items():
            best = min(found)
            numbers = f"{best.processor_s:.1f} | {best.wall_s:.1f} | {max(cost.peak_mib for cost in found):,.0f}"
            print(f"| {file.name} | {name} | {best.ended or numbers} |", flush=True)


if __name__ == "__main__":
    main()
