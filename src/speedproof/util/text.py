"""Text that others wrote, such as a title, a path, a kernel's name: as it can be shown without commanding who shows it."""

import difflib
import os
import re
import textwrap
from collections.abc import Iterable
from typing import IO, Any

# Spaces that numbers and their units are joined by.
SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"


def printable(text: str, keep: str = "") -> str:
    """Return `text` with every character that shows nothing of itself written out, such as `\\x1b` or `\\u202e`.

    Those are a terminal's commands, marks that turn the direction of reading, line breaks, and halves of characters that no
    file can hold. Characters of `keep` stay.
    """
    return "".join(
        character if character.isprintable() or character in SPACES or character in keep else _write_out(character)
        for character in text
    )


def capitalize(text: str) -> str:
    """Return a sentence with its first letter large."""
    return text[:1].upper() + text[1:]


def shorten(text: str, longest: int = 1000) -> str:
    """Return a line with the middle of long words, and its own, left out: a path may have thousands of characters."""
    text = re.sub(r"\S{301,}", lambda word: _cut(word[0], 200), text)
    return text if len(text) <= longest else _cut(text, longest)


def write_setting(value: Any) -> str:
    """Write a setting's value as people say it: a switch as yes or no, what is unset or empty as none, several with commas.

    Of settings by name each stands behind its own, but a name without one.
    """
    if value is None or value in ([], (), {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(
            write_setting(item) if key == "name" else f"{key} {write_setting(item)}" for key, item in value.items()
        )
    return ", ".join(map(write_setting, value)) if isinstance(value, list | tuple) else str(value)


def suggest(word: object, known: Iterable[str], alike: float = 0.6) -> str:
    """Return `; did you mean NAME?` with the known name that is closest to a word; nothing if none is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=alike)
    return f"; did you mean {close[0]}?" if close else ""


def _cut(text: str, kept: int) -> str:
    return f"{text[: kept // 2]}…{text[-kept // 2 :]}"


def _write_out(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_PLAIN = dict.fromkeys(map(ord, SPACES), " ")


def find_width(stream: IO[str]) -> int | None:
    """Return how many columns a line may take: `COLUMNS` if set, else the terminal's; None without a terminal."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError, AttributeError):  # a file, a pipe, or what has no descriptor
        return None


def fold(text: str, width: int | None) -> str:
    """Wrap lines to that width, with ordinary spaces, so that they can be searched.

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
