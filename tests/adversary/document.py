"""docs/adversary.md, made of what `make adversary` saw: the rows in pytest's results files, and nothing else."""

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.adversary.kinds import CHECKED
from tests.adversary.mutated import read_purpose
from tests.adversary.trial import PROGRAMS, Trial
from tests.faults.rows import shorten_paths


@dataclass(frozen=True)
class Row:
    """What one test saw of a kind, as text."""

    kind: str
    check: str
    does: str
    truth: str
    said: str
    status: str
    verdict: str
    unreachable: str
    seed: str

    def properties(self) -> list[tuple[str, str]]:
        return [(f"row_{name}", value) for name, value in asdict(self).items()]


class Seen(NamedTuple):
    """A row, and when it was seen."""

    row: Row
    day: str


def make_row(trial: Trial, seed: int) -> Row:
    """Return a trial as a row, with both commands by a letter: their names are drawn."""
    said = trial.proof.said
    for letter, command in zip("AB", trial.pair.commands, strict=True):
        said = said.replace(command, letter)
    kind = trial.kind
    does = " ".join(text for text in (read_purpose(PROGRAMS / f"{kind.program}.py"), kind.does) if text)
    seen = f"{trial.truth:.3g}"
    return Row(kind.title, kind.check, does, seen, said, str(trial.proof.status), trial.verdict, kind.unreachable, str(seed))


def read_rows(file: Path) -> list[Seen]:
    """Return the rows of a results file of pytest's (JUnit's form)."""
    seen, names = [], [field.name for field in fields(Row)]
    for suite in ElementTree.parse(file).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            values = {one.get("name", "")[4:]: one.get("value", "") for one in case.iter("property")}
            if set(names) <= values.keys():
                seen.append(Seen(Row(**{name: values[name] for name in names}), suite.get("timestamp", "")[:10]))
    return seen


def write_document(seen: Iterable[Seen]) -> str:
    """Return the page.

    Raises:
        SystemExit: there is no row.
    """
    kinds: dict[str, list[Seen]] = {}
    for one in seen:
        kinds.setdefault(one.row.kind, []).append(one)
    if not kinds:
        raise SystemExit("no row: did the tests run?")
    rows = [one for of_kind in kinds.values() for one in of_kind]
    beyond = {kind for kind, of_kind in kinds.items() if of_kind[0].row.unreachable}
    believed = {one.row.kind for one in rows if one.row.verdict == "believed"} - beyond
    lines = [
        "# Programs that cheat",
        "",
        "`make adversary` writes this page from what its tests saw; do not edit it. For each program a seed draws",
        "names, numbers, wording, order of statements, and which of the two commands cheats. The test times both programs from",
        "outside to check the truth, then compares them with `speedproof prove`. A program is caught if its claim is not",
        "confirmed, if the command refuses it, or if the ratio that is confirmed is the true one. In the sentences the two",
        "commands are A and B.",
        "",
        f"{len(kinds)} kinds, {len(rows)} programs, {' and '.join(sorted({one.day for one in rows}))}: "
        f"{len(kinds) - len(beyond) - len(believed)} kinds are caught, {len(beyond)} cannot be"
        + (f", **{len(believed)} should be and are not**." if believed else "."),
        "",
    ]
    for check, title in CHECKED.items():
        lines += [
            f"## {title}",
            "",
            "| program | what it does | true ratio | exit | what is printed | caught |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_write_row(of_kind) for of_kind in kinds.values() if of_kind[0].row.check == check]
        lines.append("")
    return "\n".join(lines)


def _write_row(of_kind: list[Seen]) -> str:
    """Write a kind's row: the seed that went worst."""
    rows = [one.row for one in of_kind]
    row = max(rows, key=lambda one: one.verdict == "believed")
    caught = {
        "believed": f"no: {row.unreachable}" if row.unreachable else "**no**",
        "true": "yes: the ratio is the true one",
    }.get(row.verdict, f"yes: {row.verdict}")
    cells = [f"`{row.kind}`", row.does, row.truth, row.status, shorten_paths(row.said), caught]
    return f"| {' | '.join(_escape(cell) for cell in cells)} |"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


if __name__ == "__main__":
    out, *files = map(Path, sys.argv[1:])
    out.write_text(write_document(one for file in files for one in read_rows(file)), encoding="utf-8")
    print(f"{out}: written")
