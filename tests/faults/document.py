"""docs/reliability.md, made of what `make faults` saw: the rows in pytest's results files, and nothing else."""

import subprocess
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from xml.etree import ElementTree

from tests.faults.rows import Row, shorten_paths

STAGES = [
    "data",
    "doctor",
    "experiment",
    "after an experiment",
    "analyze",
    "verdicts",
    "report",
    "record",
    "the whole workflow",
    "a Slurm job",
]


@dataclass(frozen=True)
class Seen:
    """A row, when and where it was seen, and how its test ended; the reason where it did not pass."""

    row: Row
    test: str
    day: str
    machine: str
    verdict: str
    reason: str
    seconds: float


def read_rows(file: Path) -> list[Seen]:
    """Return the rows of a results file of pytest's (JUnit's form)."""
    seen = []
    for suite in ElementTree.parse(file).getroot().iter("testsuite"):
        day = suite.get("timestamp", "")[:10]
        for case in suite.iter("testcase"):
            values = {item.get("name", "")[4:]: item.get("value", "") for item in case.iter("property")}
            names = {field.name for field in fields(Row)}
            if not names <= values.keys():
                continue
            machine = next(item.get("value", "") for item in case.iter("property") if item.get("name") == "machine")
            row = Row(**{name: int(values[name]) if name == "tries" else values[name] for name in names})
            verdict, reason = "held", ""
            for ending in ("failure", "error", "skipped"):
                if (found := case.find(ending)) is not None:
                    verdict = "is known not to hold" if found.get("type") == "pytest.xfail" else "did not hold"
                    reason = shorten_paths(found.get("message") or "")
            seen.append(Seen(row, case.get("name", ""), day, machine, verdict, reason, float(case.get("time", 0))))
    return seen


def merge_rows(files: Iterable[Path]) -> list[Seen]:
    """Return the rows of all files, a later file's in place of an earlier one's, in the order of the stages."""
    rows: dict[tuple[str, str], Seen] = {}
    for file in files:
        for one in read_rows(file):
            rows[one.row.stage, one.row.fault] = one
    return sorted(rows.values(), key=lambda one: (_number(one.row.stage), one.row.stage))


def list_tests() -> list[str]:
    """Return the names of all tests that make rows."""
    words = [sys.executable, "-m", "pytest", str(Path(__file__).parent), "-m", "faults", "--collect-only", "-q", "-n", "0"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [line.partition("::")[2] for line in said.splitlines() if "::" in line]


def write_document(seen: list[Seen], tests: Collection[str] = ()) -> str:
    """Return the page; of `tests`, those that made no row are named.

    Raises:
        SystemExit: a row that held has an empty field, so that it would prove nothing.
    """
    empty = [
        f"{one.row.stage}: {one.row.fault}: {one.row.missing()}" for one in seen if one.verdict == "held" and one.row.missing()
    ]
    if empty or not seen:
        raise SystemExit(f"rows that prove nothing: {empty or 'there is none'}")
    days = sorted({one.day for one in seen})
    machines = sorted({one.machine for one in seen})
    held = sum(one.verdict == "held" for one in seen)
    lines = [
        "# What happens when something goes wrong",
        "",
        "`make faults` writes this page from what its tests saw; do not edit it. Each row is a fault that was really injected",
        "into one stage. It shows what the command printed, its exit status (or the signal that ended it), and which of the",
        "existing files were kept. Then the same command ran again without the fault. *The undisturbed result* means: the",
        "same files, order of runs, losses, Dice, form of verdicts and report as without any fault; times differ. No process",
        "may survive, no half-written file may have a final name, and no temporary file may stay.",
        "",
        f"Seen {' and '.join(days)} on {'; and on '.join(machines)}: "
        f"**{len(seen)} rows, {sum(one.row.tries for one in seen)} faults; {held} rows held**"
        + (f", {len(seen) - held} did not: see the last column." if held < len(seen) else "."),
        "",
    ]
    if untried := [f"`{name}`" for name in tests if name not in {one.test for one in seen}]:
        lines += [f"Tests that made no row there: {', '.join(untried)}.", ""]
    for stage in dict.fromkeys(one.row.stage for one in seen):
        lines += [
            f"## {stage[0].upper()}{stage[1:]}",
            "",
            "| fault | said | exit | kept | a rerun | tries |",
            "|---|---|---|---|---|---|",
        ]
        for one in (one for one in seen if one.row.stage == stage):
            row = one.row
            rerun = row.rerun if one.verdict == "held" else f"{row.rerun} **{one.verdict}**: {one.reason}"
            cells = [row.fault, row.said, row.status, row.kept, rerun, str(row.tries)]
            lines.append(f"| {' | '.join(_escape(shorten_paths(cell)) for cell in cells)} |")
        lines.append("")
    return "\n".join(lines)


def _number(stage: str) -> int:
    return next(number for number, name in enumerate(STAGES) if stage.startswith(name))


def _escape(text: str) -> str:
    if text.count("`") % 2:  # what was said was cut within a command
        text = "".join(text.rsplit("`", 1))
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") or "–"


if __name__ == "__main__":
    out, *files = map(Path, sys.argv[1:])
    out.write_text(write_document(merge_rows(files), list_tests()), encoding="utf-8")
    print(f"{out}: written")
