"""A row of the fault matrix: what one test injected and what it then saw. docs/reliability.md is made of these alone."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

# Folders are named by what they are, so that the same fault gives the same row everywhere.
_TEMPORARY = re.compile(r"(?<![\w.:/])/[^\s:;,'\"()]*/(?=[^\s/:;,'\"()]+)")
SAID_MOST = 260  # characters of a message that a row repeats


@dataclass
class Row:
    """What is filled in by the test's own helpers, never by hand; an empty field is a row that proves nothing."""

    stage: str
    fault: str
    said: str = ""
    status: str = ""
    kept: str = ""
    rerun: str = ""
    tries: int = 0

    def properties(self) -> list[tuple[str, str]]:
        return [(f"row_{name}", str(value)) for name, value in asdict(self).items()]

    def missing(self) -> list[str]:
        return [field.name for field in fields(self) if not getattr(self, field.name)]


def shorten_paths(text: str) -> str:
    """Return a message with the last part of each absolute path only, on one line."""
    line = _TEMPORARY.sub("…/", " ".join(text.split()))
    return line if len(line) <= SAID_MOST else f"{line[: SAID_MOST - 1]}…"


def join_distinct(values: Iterable[str]) -> str:
    """Return what several tries said, each once."""
    return "; or ".join(dict.fromkeys(value for value in values if value))
