"""Cost of prove's checks, in seconds per run and per proof, compared with a version without them.

`git worktree add ../before REVISION; python benchmarks/checks.py ../before` lets both versions prove two trivial programs in
turns, with few and with many rounds. The part that grows with the rounds is the cost per run; the rest is the cost per proof.
The shortest of several proofs counts. On an idle machine the difference should be at most 0.3 s per run and 2 s per proof.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FEW, MANY = 4, 12  # rounds
PROGRAM = "import time\nfor epoch in range(4):\n    time.sleep(0.01)\n    print('epoch took 0.01 s', flush=True)\n"
ROOT = Path(__file__).parents[1]


def time_proof(source: Path, rounds: int) -> float:
    """Return how long a proof takes by the checkout `source`, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.py", "b.py"):
            Path(folder, name).write_text(PROGRAM)
        words = [sys.executable, "-m", "speedproof", "prove", "python a.py", "python b.py", "--epoch-s", r"took (\S+) s"]
        words += ["--rounds", str(rounds), "--device", "cpu", "--quiet", "--json"]
        environ = os.environ | {"PYTHONPATH": str(source.resolve() / "src")}
        began = time.perf_counter()
        ended = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True)
        if ended.returncode not in (0, 1, 2):
            raise SystemExit(f"{source}: {ended.stdout}{ended.stderr}")
        return time.perf_counter() - began


def split_costs(few_s: float, many_s: float) -> tuple[float, float]:
    """Return the seconds of a run, and of a proof beside its runs."""
    run_s = (many_s - few_s) / (2 * (MANY - FEW))
    return run_s, few_s - 2 * FEW * run_s


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?", help="checkout without the checks. Default: none, time only this one")
    parser.add_argument("--repeats", type=int, default=3, help="proofs of each kind (default: 3)")
    asked = parser.parse_args()
    sources = [*([asked.before] if asked.before else []), ROOT]
    shortest: dict[tuple[Path, int], float] = {}
    for _ in range(asked.repeats):
        for source in sources:
            for rounds in (FEW, MANY):
                seconds = time_proof(source, rounds)
                shortest[source, rounds] = min(seconds, shortest.get((source, rounds), seconds))
    costs = {source: split_costs(shortest[source, FEW], shortest[source, MANY]) for source in sources}
    print(f"{'checkout':40} {'s per run':>10} {'s per proof':>12}")
    for source, (run_s, proof_s) in costs.items():
        print(f"{str(source)[-40:]:40} {run_s:10.3f} {proof_s:12.3f}")
    if asked.before:
        run_s, proof_s = (new - old for new, old in zip(costs[ROOT], costs[asked.before], strict=True))
        print(f"{'the checks':40} {run_s:10.3f} {proof_s:12.3f}")


if __name__ == "__main__":
    main()
