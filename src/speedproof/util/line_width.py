"""Lines as a terminal of any width takes them, and as a program does that reads them."""

import os
import re
import textwrap
from typing import TextIO

from speedproof.util.text import SPACES

_PLAIN = dict.fromkeys(map(ord, SPACES), " ")


def find_width(stream: TextIO) -> int | None:
    """Return how many columns a line may take: `COLUMNS` where that is set, else the terminal's; None where there is none."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError, AttributeError):  # a file, a pipe, or what has no descriptor
        return None


def fold(text: str, width: int | None) -> str:
    """Return lines that are no wider than that, with spaces that anybody can search for.

    A number stays on one line with its unit, and a word that is longer than a line is whole: a path can be copied.
    """
    lines = text.split("\n")
    if width is not None:
        lines = [part for line in lines for part in _break(line, width)]
    return plain("\n".join(lines))


def plain(text: str) -> str:
    """Return text in which numbers and their units are joined by plain spaces."""
    return text.translate(_PLAIN)


def _break(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    line = re.sub(r"(?<=\d) (?=%)", SPACES[0], line)
    return textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [line]
