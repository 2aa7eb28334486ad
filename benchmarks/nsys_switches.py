"""Cost of each thing that nsys can record, per training step, in one experiment on one machine.

    python benchmarks/nsys_switches.py OUT [--seconds 250]

One program trains two networks in turn. A step of the first is a row of short kernels, so that the CPU is the bottleneck; a
step of the second has few long ones. Rounds of it run without nsys, with the default trace, and with one more setting of
`profiling` at a time. Each round has another order. Rounds end with the time; the first one is always complete.

`costs.json` and a table on standard output hold three things: the ratio of each step time to that without nsys in the same
round, the settings that a machine refused, in nsys' words, and the content of the reports. `tables.json` holds the columns and
the first rows of each table of an export.
"""

import argparse
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from speedproof.config.profiling import Profiling
from speedproof.profilers.nsys import Capabilities, export_report, profile_command, read_capabilities
from speedproof.profilers.nsys_switches import capture_variables, list_switches
from speedproof.util.errors import ProfilingError
from speedproof.util.scrub import profiled_environment, scrub_text

EPOCHS, TRACED = 5, "2-3"  # the first epoch warms up
PLAIN = "no nsys"
API = "SWITCHES_CALL_CUDA_PROFILER"

# Each setting that is tried, besides the default.
SETTINGS: dict[str, dict[str, Any] | None] = {
    PLAIN: None,
    "cuda, nvtx (the default)": {},
    "osrt": {"trace": ["cuda", "nvtx", "osrt"]},
    "cudnn, cublas": {"trace": ["cuda", "nvtx", "cudnn", "cublas"]},
    "memory_usage": {"memory_usage": True},
    "gpu_metrics_per_s: 10000": {"gpu_metrics_per_s": 10_000},
    "cpu_samples": {"cpu_samples": True},
    "python_samples": {"python_samples": True},
    f"capture: {TRACED}": {"capture": TRACED},
    "capture: cudaProfilerApi": {"capture": "cudaProfilerApi"},
    f"{PLAIN}, again": None,
}


def train(steps: int) -> None:
    """Train both networks and print the seconds of each epoch's steps, by network."""
    import nvtx
    import torch

    from speedproof import marks

    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shapes = {"short kernels": (8, 24, 12, 16), "long kernels": (64, 6, 4, 128)} if device.type == "cuda" else {
        "short kernels": (1, 2, 3, 8), "long kernels": (2, 2, 2, 16)
    }  # fmt: skip
    torch.backends.cudnn.benchmark = True
    trainings = {}
    for name, (batch, depth, channels, size) in shapes.items():
        layers = [torch.nn.Sequential(torch.nn.LazyConv2d(channels, 3, padding=1), torch.nn.ReLU()) for _ in range(depth)]
        network = torch.nn.Sequential(*layers).to(device)
        inputs = torch.randn(batch, channels, size, size, device=device)
        network(inputs)
        trainings[name] = (network, inputs, torch.optim.SGD(network.parameters(), lr=1e-4), steps if depth > 6 else steps // 4)
    took: dict[str, list[float]] = {name: [] for name in shapes}
    for epoch in marks.epochs(EPOCHS):
        if os.environ.get(API) and device.type == "cuda" and epoch == 1:
            torch.cuda.cudart().cudaProfilerStart()
        with nvtx.annotate("epoch"):
            for name, (network, inputs, optimizer, number) in trainings.items():
                begun_s = time.perf_counter()
                for _ in range(number):
                    _do_step(network, inputs, optimizer)
                if device.type == "cuda":
                    torch.cuda.synchronize()
                took[name].append((time.perf_counter() - begun_s) / number)
        if os.environ.get(API) and device.type == "cuda" and epoch == 2:
            torch.cuda.cudart().cudaProfilerStop()
    print(json.dumps(took))


def _do_step(network: Any, inputs: Any, optimizer: Any) -> None:
    import nvtx

    with nvtx.annotate("forward"):
        loss = network(inputs).square().mean()
    with nvtx.annotate("backward"):
        loss.backward()
    with nvtx.annotate("update"):
        optimizer.step()
        optimizer.zero_grad()


def run_once(name: str, nsys: Capabilities, folder: Path, steps: int) -> dict[str, Any]:
    """Run the program under one setting; return its times, or nsys' message if it was refused."""
    program = [sys.executable, str(Path(__file__).resolve()), str(folder), "--program", f"--steps={steps}"]
    settings = SETTINGS[name]
    environ = profiled_environment(os.environ)
    report = folder / f"{list(SETTINGS).index(name)}.nsys-rep"
    report.unlink(missing_ok=True)
    if settings is not None:
        profiling = Profiling.model_validate(settings)
        environ |= capture_variables(profiling) | ({API: "1"} if profiling.capture == "cudaProfilerApi" else {})
        try:
            program = profile_command(nsys, report, profiling.trace, program, list_switches(profiling, nsys))
        except ProfilingError as error:
            return {"refused": str(error)}
    begun_s = time.monotonic()
    ended = subprocess.run(program, env=environ, capture_output=True, text=True, errors="replace")
    process_s = time.monotonic() - begun_s
    said = scrub_text(" ".join((ended.stdout + ended.stderr).split()))
    lines = [line for line in ended.stdout.splitlines() if line.startswith('{"short kernels"')]
    if not lines:
        return {"refused": said[-600:], "status": ended.returncode}
    found: dict[str, Any] = {"epochs_s": json.loads(lines[0]), "process_s": process_s, "switches": program[2:12]}
    if settings is not None:
        found["report_mib"] = report.stat().st_size / 2**20 if report.exists() else None
        complaints = [line.strip() for line in said.split(". ") if any(word in line.lower() for word in ("warn", "privilege"))]
        found["said"] = scrub_text("; ".join(complaints))[-400:]
        if not report.exists():
            found["refused"] = said[-600:]
    return found


def describe_export(nsys: Capabilities, report: Path) -> dict[str, Any]:
    """Return the rows, columns and first rows of the tables of a report's export, and how long exporting took."""
    export = report.with_suffix(".sqlite")
    begun_s = time.monotonic()
    export_report(nsys, report, export)
    export_s = time.monotonic() - begun_s
    tables: dict[str, Any] = {}
    with closing(sqlite3.connect(export)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if name.startswith(("META", "ENUM", "TARGET_INFO_SYSTEM", "PROCESS", "StringIds")):
                continue
            rows = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
            cursor = connection.execute(f'SELECT * FROM "{name}" LIMIT 3')
            columns = [column[0] for column in cursor.description]
            tables[name] = {"rows": rows, "columns": columns, "first": [*map(list, cursor.fetchall())]}
        named = "SELECT value FROM StringIds WHERE value LIKE 'cudnn%' OR value LIKE 'cublas%' LIMIT 20"
        strings = [value for (value,) in connection.execute(named)]
    export.unlink()
    return {"export_s": export_s, "tables": tables, "library_names": strings}


def median_step(run: dict[str, Any], network: str, name: str = PLAIN) -> float:
    """Return the median of the epochs after the first, in seconds a step; of a captured part, that of its epochs."""
    epochs_s = run["epochs_s"][network][1:]
    return statistics.median(epochs_s[:2] if name.startswith("capture") else epochs_s)


def tabulate(rounds: list[dict[str, dict[str, Any]]]) -> list[str]:
    """Return the table of costs: medians and ranges over the rounds of ratios within each."""
    networks = ("short kernels", "long kernels")
    lines = [
        f"| recorded | {' | '.join(f'a step of {network}' for network in networks)} | process, s | report, MiB | rounds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in SETTINGS:
        runs = [(one[name], one[PLAIN]) for one in rounds if name in one and "epochs_s" in one[name]]
        if not runs:
            reasons = [one[name]["refused"] for one in rounds if name in one]
            lines.append(f"| {name} | refused: {reasons[0] if reasons else 'not run'} | | | | |")
            continue
        cells = []
        for network in networks:
            ratios = sorted(median_step(run, network, name) / median_step(plain, network) for run, plain in runs)
            step_ms = 1e3 * statistics.median(median_step(run, network, name) for run, _ in runs)
            cells.append(f"{statistics.median(ratios):.3f} ({ratios[0]:.3f}–{ratios[-1]:.3f}), {step_ms:.2f} ms")
        process_s = statistics.median(run["process_s"] for run, _ in runs)
        sizes = [run["report_mib"] for run, _ in runs if run.get("report_mib")]
        size = f"{statistics.median(sizes):.1f}" if sizes else "–"
        lines.append(f"| {name} | {' | '.join(cells)} | {process_s:.1f} | {size} | {len(runs)} |")
    return lines


def main() -> None:
    """Run rounds until the time is over, write what was found, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=250, help="time limit of the whole benchmark")
    parser.add_argument(
        "--steps", type=int, default=120, help="steps per epoch of short kernels; a quarter of these of long ones"
    )
    parser.add_argument("--program", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        train(options.steps)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    ends_s = time.monotonic() + options.seconds
    nsys = read_capabilities()
    run_once(PLAIN, nsys, options.out, options.steps)  # reads torch from the disk, and compiles what is compiled once
    rounds: list[dict[str, dict[str, Any]]] = []
    exported: dict[str, Any] = {}
    longest_s = 0.0
    order = list(SETTINGS)
    randomness = random.Random(0)
    while not rounds or time.monotonic() + longest_s < ends_s:
        rounds.append({})
        randomness.shuffle(order)
        for name in [PLAIN, *(name for name in order if name != PLAIN)]:
            begun_s = time.monotonic()
            if len(rounds) > 1 and begun_s + longest_s > ends_s:
                break
            rounds[-1][name] = run_once(name, nsys, options.out, options.steps)
            report = options.out / f"{list(SETTINGS).index(name)}.nsys-rep"
            if report.exists() and name not in exported:
                try:
                    exported[name] = describe_export(nsys, report)
                except ProfilingError as error:
                    exported[name] = {"refused": str(error)}
            report.unlink(missing_ok=True)
            longest_s = max(longest_s, time.monotonic() - begun_s)
            found = {"nsys": nsys.version, "rounds": rounds}
            (options.out / "costs.json").write_text(json.dumps(found, indent=1))
            (options.out / "tables.json").write_text(json.dumps(exported, indent=1, default=str))
    print("\n".join(tabulate(rounds)))


if __name__ == "__main__":
    main()
