"""Compares every number of every `comparison.json` of two trees: `python -m tests.results.numbers BEFORE AFTER`.

Each is a folder that holds `records/`, a folder of records, or a revision of git. Numbers are compared exactly, in their order
in the file, whatever their keys are called: renaming a key changes nothing, another order or another digit does.
Exit status: 0 if all are the same, 1 if not, 2 if there is nothing to compare.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

FILE = "comparison.json"
MOST_LINES = 5  # differences of a record that are printed


class Number(NamedTuple):
    """A number of a file, and where it stands."""

    place: str
    value: float


def list_numbers(value: Any, place: str = "") -> Iterator[Number]:
    """Yield the numbers of a JSON value in its order; the version of its schema is none of its results."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != "schema_version":
                yield from list_numbers(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from list_numbers(inner, f"{place}[{index}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield Number(place, value)


def compare_numbers(before: Any, after: Any) -> list[str]:
    """Return a line for each number of two JSON values that differs."""
    pairs = zip_longest(list_numbers(before), list_numbers(after))
    return [_describe(one, other) for one, other in pairs if one is None or other is None or one.value != other.value]


def _describe(before: Number | None, after: Number | None) -> str:
    if before is None or after is None:
        there = before or after
        assert there is not None
        return f"{there.place}: {there.value!r} is {'new' if before is None else 'gone'}"
    place = before.place if before.place == after.place else f"{before.place}, now {after.place}"
    return f"{place}: {before.value!r}, now {after.value!r}"


def read_comparisons(tree: str) -> dict[str, Any]:
    """Return the `comparison.json` of each record of a tree, by the record's name."""
    if (folder := Path(tree)).is_dir():
        records = folder / "records" if (folder / "records").is_dir() else folder
        return {path.parent.name: json.loads(path.read_bytes()) for path in sorted(records.glob(f"*/{FILE}"))}
    names = _git("ls-tree", "-r", "--name-only", tree, "records/").decode().splitlines()
    return {Path(name).parent.name: json.loads(_git("show", f"{tree}:{name}")) for name in names if name.endswith(f"/{FILE}")}


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], check=True, capture_output=True).stdout


def main(before: str, after: str) -> int:
    """Print how two trees' numbers differ, record by record; return the exit status."""
    old, new = read_comparisons(before), read_comparisons(after)
    counted = differing = 0
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            differing += 1
            print(f"{name}: only in {before if name in old else after}")
            continue
        counted += sum(1 for _ in list_numbers(old[name]))
        found = compare_numbers(old[name], new[name])
        differing += len(found)
        for line in found[:MOST_LINES]:
            print(f"{name}: {line}")
        if len(found) > MOST_LINES:
            print(f"{name}: and {len(found) - MOST_LINES} more")
    print(f"{counted} numbers of {len(old.keys() & new.keys())} records compared, {differing} differences")
    return 1 if differing else 0 if counted else 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
