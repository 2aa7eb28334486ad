"""Cost of recording a program's NVTX ranges: nanoseconds per range, and an A/B test with the instrument itself.

`python benchmarks/injection.py` times push and pop in loops of Python's `nvtx`, each in its own process: without the library,
with ranges that are not wanted, and with ranges that are. `--rounds 6` also proves one program against itself with the library,
by the epochs that it prints: are they equal within 1 %? The program makes 10,000 ranges per second during CPU work or, with
`--gpu`, during work that keeps a GPU busy, as in a training.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from speedproof.profilers.nvtx_library import injected_variables, read_ranges

RANGES, LOOPS, PROCESSES = 20_000, 10, 5
TIMED = f"""
import nvtx, time
best = []
for loop in range({LOOPS}):
    begin = time.perf_counter_ns()
    for _ in range({RANGES}):
        nvtx.push_range("step")
        nvtx.pop_range()
    best.append((time.perf_counter_ns() - begin) / {RANGES})
print(min(best))
"""
# One range about every 100 µs, around CPU work of a fixed amount: the cost of a range adds to the time.
PROGRAM = """
import nvtx, time
def work():
    total = 0
    for number in range(2000):
        total += number * number
    return total
def epoch(number):
    for _ in range(number):
        nvtx.push_range("step")
        work()
        nvtx.pop_range()
begin = time.perf_counter()
epoch(500)
a_second = 500 / (time.perf_counter() - begin)
for _ in range(5):
    begin = time.perf_counter()
    epoch(5000)
    print("took", time.perf_counter() - begin, "at", round(a_second), "ranges a second", flush=True)
"""
# The same rate: 20 ranges per product of matrices, which takes about 2 ms on an H200.
GPU_PROGRAM = """
import nvtx, time, torch
one = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
def epoch(number):
    for _ in range(number):
        for _ in range(20):
            nvtx.push_range("step")
        torch.mm(one, one)
        for _ in range(20):
            nvtx.pop_range()
    torch.cuda.synchronize()
epoch(500)
for _ in range(3):
    begin = time.perf_counter()
    epoch(500)
    print("took", time.perf_counter() - begin, flush=True)
"""
SAME = 0.01


def time_range(names: list[str] | None) -> tuple[float, int]:
    """Return nanoseconds a push and pop of a range called `step` in a process of its own, and how many ranges it left."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("NVTX_", "NSYS_"))}
        given = injected_variables(Path(folder), names, environ) if names else {}
        done = subprocess.run(
            [sys.executable, "-c", TIMED], env={**environ, **given}, capture_output=True, text=True, check=True
        )
        return float(done.stdout), sum(len(one.records) for one in read_ranges(Path(folder)))


def prove_same(rounds: int, gpu: bool) -> None:
    """Print the ratio of a program to itself with the library, on the CPU or on a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        left, here, out = Path(folder, "left"), Path(folder, "here"), Path(folder, "out")
        left.mkdir()
        here.mkdir()
        (here / "program.py").write_text(GPU_PROGRAM if gpu else PROGRAM)
        given = [f"{name}={value}" for name, value in injected_variables(left, ["step"], os.environ).items()]
        plain = [sys.executable, "program.py"]
        commands = [" ".join(plain), " ".join(["env", *given, *plain])]
        words = ["--epoch-s", r"took (\S+)", "--rounds", str(rounds), "--json", "--quiet", "--out", str(out)]
        words += ["--device", "cuda" if gpu else "cpu"]
        done = subprocess.run(
            [sys.executable, "-m", "speedproof", "prove", *commands, *words], cwd=here, capture_output=True, text=True
        )
        if not done.stdout.startswith("{"):
            sys.exit(f"prove: {done.stderr.strip()[-500:]}")
        (candidate,) = json.loads(done.stdout)["candidates"]
        recorded = [len(one.records) for one in read_ranges(left)]
    low, high = candidate["low"], candidate["high"]
    within = low is not None and low >= 1 - SAME and high <= 1 + SAME
    ratio, pairs = candidate["ratio"], candidate["pairs"]
    print(f"without over with: {ratio:.4f} ({low:.4f}-{high:.4f}), {pairs} pairs, {set(recorded)} ranges per run")
    print(f"the same within {SAME:.0%}: {'yes' if within else 'not established'}")


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=0, help="also prove a program against itself in this many rounds")
    parser.add_argument("--gpu", action="store_true", help="use a program that keeps a GPU busy (needs torch)")
    asked = parser.parse_args()
    cases = {"no library": None, "library, not wanted": ["epoch"], "library, wanted": ["step"]}
    times = {case: [time_range(names) for _ in range(PROCESSES)] for case, names in cases.items()}
    bare = min(ns for ns, _ in times["no library"])  # other work on the machine can only add
    for case, found in times.items():
        ns = min(each for each, _ in found)
        share = (ns - bare) * 1e-9 * 10_000
        print(f"{case:20} {ns:7.0f} ns a range, {ns - bare:6.0f} ns of the library: {share:.2%} of time at 10,000 a second")
    if asked.rounds:
        prove_same(asked.rounds, asked.gpu)


if __name__ == "__main__":
    main()
