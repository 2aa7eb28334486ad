"""`python -m tests.fuzz`: the long run. Prints progress, keeps inputs that fail, writes the table of docs/fuzzing.md."""

import argparse
import json
import platform
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.fuzz.calling import BAD, GOOD
from tests.fuzz.driver import TARGETS, Worker, make_input, read_files, run_input, write_files

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/fuzzing.md"
BEGIN, END = "<!-- figures: written by `make fuzz` -->", "<!-- end of figures -->"
TITLES = {"right": "says something else, rightly", "silent": "silently different", "unclear": "unclear refusals"}


def main() -> int:
    """Run targets, or one kept input; the exit status is 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=f"of {', '.join(TARGETS)}; without any, all")
    parser.add_argument("--inputs", type=int, default=10_000, help="of each target")
    parser.add_argument("--minutes", type=float, default=600, help="after which a target ends with fewer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first input's index")
    parser.add_argument("--input", type=Path, help="the folder of a kept input, to run this one alone")
    parser.add_argument("--failures", type=Path, default=ROOT / "results/fuzz", help="where inputs that fail are kept")
    parser.add_argument("--document", action="store_true", help="write the figures into docs/fuzzing.md")
    asked = parser.parse_args()
    if unknown := set(asked.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    if asked.input:
        return _repeat_one(asked.targets[0], asked.input)
    figures = {target: _run_target(target, asked) for target in asked.targets}
    if asked.document:
        _write_document(figures, asked.seed)
    return int(any(row[kind] for row in figures.values() for kind in BAD))


def _repeat_one(target: str, folder: Path) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        outcome = run_input(target, read_files(folder / "spoilt"), read_files(folder / "sound"), Path(scratch))
    print(outcome.kind, outcome.text)
    return int(outcome.kind in BAD)


def _run_target(target: str, asked: argparse.Namespace) -> Counter[str]:
    counts: Counter[str] = Counter()
    worker, began = Worker(), time.monotonic()
    for index in range(asked.first, asked.first + asked.inputs):
        if time.monotonic() - began > 60 * asked.minutes:
            break
        outcome = worker.attempt(target, asked.seed, index)
        counts[outcome.kind] += 1
        if outcome.kind in BAD:
            kept = asked.failures / f"{target}-{asked.seed}-{index}"
            spoilt, sound = make_input(target, asked.seed, index)
            write_files(kept / "spoilt", spoilt)
            write_files(kept / "sound", sound)
            (kept / "outcome.txt").write_text(f"{outcome.kind}: {outcome.text}\n", encoding="utf-8")
            print(f"{outcome.kind}: {outcome.text}\n  python -m tests.fuzz {target} --seed {asked.seed} --input {kept}")
        if (index + 1 - asked.first) % 500 == 0:
            print(f"{target}: {sum(counts.values())} inputs, {time.monotonic() - began:.0f} s: {dict(counts)}", flush=True)
    worker.close()
    counts["inputs"], counts["seconds"] = sum(counts.values()), round(time.monotonic() - began)
    print(f"{target}: {json.dumps(counts)}", flush=True)
    return counts


def _write_document(figures: dict[str, Counter[str]], seed: int) -> None:
    """Replace the rows of these targets in the document; the others' stay."""
    kinds = ["inputs", *GOOD, *BAD, "seconds"]
    text = DOCUMENT.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    old, _, tail = rest.partition(END)
    rows = {line.split("|")[1].strip(" `"): line for line in old.splitlines() if line.startswith("| `")}
    packages = ", ".join(f"{name} {version(name)}" for name in ("speedproof", "pydantic", "pyyaml", "pyarrow", "nibabel"))
    when = f"{datetime.now(UTC):%Y-%m-%d}, seed {seed}, Python {platform.python_version()}, {packages}"
    for target, counts in figures.items():
        rows[target] = f"| `{target}` | " + " | ".join(str(counts[kind]) for kind in kinds) + f" | {when} |"
    titles = ["target", *(TITLES.get(kind, f"{kind}s" if kind in ("traceback", "hang") else kind) for kind in kinds), "run"]
    table = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles), *(rows[name] for name in TARGETS if name in rows)]
    DOCUMENT.write_text(f"{head}{BEGIN}\n" + "\n".join(table) + f"\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
