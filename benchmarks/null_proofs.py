"""Rate of false claims of `prove` for two equal commands, in real proofs on a machine with other work.

    python -m benchmarks.null_proofs                # all proofs, an hour; writes the table of docs/simulations.md
    python -m benchmarks.null_proofs --proofs 2     # two of each kind; prints the table only

Each proof runs one command against itself, as a user would, until it is decided or futile. *Faster* and *slower* are false
claims. A binomial test asks whether there are more of them than an error of 5 % allows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

from benchmarks.tables import write_table

ERROR = 0.05
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/simulations.md"
# Epochs of about 0.1 s: logistic regression by gradient descent, as many steps whatever the seed.
TRAINING = """
import os, time
import numpy as np
random = np.random.default_rng(int(os.environ["SPEEDPROOF_SEED"]))
x = random.normal(size=(20_000, 64))
y = (x @ random.normal(size=64) > 0).astype(float)
w = np.zeros(64)
for epoch in range(4):
    began = time.perf_counter()
    for step in range(40):
        w -= 0.5 * x.T @ (1 / (1 + np.exp(-x @ w)) - y) / len(y)
    print(f"epoch {epoch} took {time.perf_counter() - began:.6f} s", flush=True)
"""


@dataclass(frozen=True)
class Kind:
    """Equal commands, and how many proofs are made of them."""

    title: str
    command: str
    options: tuple[str, ...]
    proofs: int


KINDS = (
    Kind("`sleep 0.2`, the whole process", "sleep 0.2", (), 40),
    Kind("a small training, its epochs", "python train.py", ("--epoch-s", r"took (\S+) s"), 20),
)


def prove_null(kind: Kind) -> tuple[str, int]:
    """Return the outcome of a proof of a command against itself, and its number of pairs."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(TRAINING)
        words = [sys.executable, "-m", "speedproof", "prove", kind.command, kind.command, *kind.options, "--budget", "3"]
        environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        ended = subprocess.run([*words, "--quiet", "--json"], cwd=folder, env=environ, capture_output=True, text=True)
    found = json.loads(ended.stdout)
    if found["outcome"] == "error":
        raise SystemExit(f"{kind.title}: {found['message']}")
    (candidate,) = found["candidates"]
    return candidate["outcome"], candidate["pairs"]


def format_row(kind: Kind, outcomes: Counter[str], pairs: int) -> str:
    """Return a kind's row of the table."""
    proofs = outcomes.total()
    false = outcomes["faster"] + outcomes["slower"]
    p = stats.binomtest(false, proofs, ERROR, alternative="greater").pvalue
    counts = [outcomes[name] for name in ("faster", "slower", "equivalent", "inconclusive")]
    return f"| {' | '.join(map(str, [kind.title, proofs, *counts, f'{pairs / proofs:.1f}', f'{p:.2f}']))} |"


def main() -> None:
    """Make the proofs, and write or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proofs", type=int, help="number of proofs of each kind; only print the table")
    asked = parser.parse_args()
    rows = ["| command | proofs | faster | slower | equivalent | inconclusive | pairs, mean | p of more than 5 % |"]
    rows += ["|" + " --- |" * 8]
    load = [os.getloadavg()[1]]
    for kind in KINDS:
        outcomes, pairs = Counter[str](), 0
        for _ in range(asked.proofs or kind.proofs):
            outcome, count = prove_null(kind)
            outcomes[outcome] += 1
            pairs += count
            load.append(os.getloadavg()[1])
            print(f"{kind.title}: {outcome} after {count} pairs, load {load[-1]:.1f}", file=sys.stderr, flush=True)
        rows.append(format_row(kind, outcomes, pairs))
    measured = f"On {os.cpu_count()} cores with a load of {min(load):.1f} to {max(load):.1f} (over 5 minutes):"
    table = "\n".join([measured, "", *rows])
    print(table)
    if not asked.proofs:
        write_table(PAGE, "null proofs", "benchmarks/null_proofs.py", table)


if __name__ == "__main__":
    main()
