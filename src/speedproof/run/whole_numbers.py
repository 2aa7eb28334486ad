"""The numbers in a line as a whole, so that a pattern's group finds no mere part of one."""

import re

from speedproof.util.errors import RecordError

_NUMBER = re.compile(
    r"""(?:(?<![^\s=:,(\[])[-−])?  # a sign; after anything else it is a dash
    (?:(?P<grouped>(?<![\w.,])\d{1,3}(?:,\d{3})+(?P<decimals>\.\d+)?(?![.,]?\d))  # 1,234.5 and 1,234,567
    |\d+(?:['’]\d+)+(?:\.\d+)?
    |\d+,\d+(?!\.?\d)  # the comma may be a decimal one, unlike that of 0.12,0.13
    |\d+(?:\.\d+)*
    |(?<![\w.])\.\d+)
    (?:e[+-]?\d+)?""",
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST = 64  # characters
_QUANTIFIER = re.compile(r"\{\d*,\d*\}")


def find_number(match: re.Match[str], key: str) -> str | None:
    """Return what a pattern's group found, with numbers such as 1,234.5 written as 1234.5; None if it took no part.

    A comma beside the group separates if the pattern has a comma that matches it: `^\\d+,(\\S+)` finds 100.133 in 2,100.133.

    Raises:
        RecordError: the group found only a part of a number, or 1,234, whose comma may be a decimal one.
    """
    group = min(1, match.re.groups)  # a pattern of `evaluation` may have none
    if match[group] is None:
        return None
    text, (start, end) = match.string, match.span(group)
    commas = "," in _QUANTIFIER.sub("", match.re.pattern)
    cut_before = commas and match.start() < start and text[start - 1] == ","
    cut_after = commas and end < match.end() and text[end] == ","
    first, last = start if cut_before else max(0, start - _LONGEST), end if cut_after else end + _LONGEST
    found = match[group]
    for number in _NUMBER.finditer(text, first, last):
        if number.start() >= end or number.end() <= start:
            continue
        if number.start() < start or number.end() > end:
            comma = ", or print no comma; if it separates two numbers, write it in the pattern" if "," in number[0] else ""
            raise RecordError(
                f"{key}: {found!r:.40} is only part of {number[0]:.40}; have the pattern's group match all of it, "
                f"as (\\S+) does{comma}"
            )
        found = _join(found, number, key)
    return found


def join_thousands(text: str, key: str) -> str:
    """Return a text with numbers such as 1,234.5 written as 1234.5; raise :class:`RecordError` of 1,234."""
    found = text
    for number in _NUMBER.finditer(text):
        found = _join(found, number, key)
    return found


def _join(text: str, number: re.Match[str], key: str) -> str:
    if number["grouped"] is None:
        return text
    if number["decimals"] is None and number["grouped"].count(",") == 1:
        raise RecordError(f"{key}: the comma of {number['grouped']} may separate thousands or decimals; print no comma")
    return text.replace(number["grouped"], number["grouped"].replace(",", ""))
