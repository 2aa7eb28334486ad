"""Progress bars, which draw one line of the terminal many times: which of its states stand for an epoch."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise

from speedproof.run.printed_output import Line

Match = tuple[int, Line, re.Match[str]]  # with the line's number

_BAR = re.compile(r"%\||[━█=#>]{2,}|[╸╺]")
_PERCENT = re.compile(r"(\d+)(?:\.0*)?\s?%")
_COUNTER = re.compile(r"(\d+)/(\d+)")


def is_bar(text: str) -> bool:
    return _BAR.search(text) is not None


def is_complete(text: str) -> bool:
    """Return whether a bar has come to its end: at 100 %, or at the last of its steps."""
    if percents := _PERCENT.findall(text):
        return "100" in percents
    bar, counters = _BAR.search(text), list(_COUNTER.finditer(text))
    before = [one for one in counters if bar and one.end() <= bar.start()]  # Keras counts steps before its bar
    return not counters or len(set((before or counters)[-1].groups())) == 1


def select_states(found: Sequence[Match]) -> list[Match]:
    """Leave out the matches in bars that have not come to their end, and those that are drawn once more as they are.

    A bar shows an average over the steps so far: only its last state is of the whole epoch. What is printed behind a bar, in
    its row, is no part of it: it matches once, where the row ends.
    """
    matches = Counter(one[1].row for one in found)
    whole = [
        one
        for one in found
        if one[1].row is None
        or not is_bar(one[1].text)
        or is_complete(one[1].text)
        or (one[1].ends_row and matches[one[1].row] == 1)
    ]
    kept = [one for one, after in pairwise(whole) if not _is_drawn_again(one, after)]
    return [*kept, *whole[-1:]]


def _is_drawn_again(one: Match, after: Match) -> bool:
    same_row = one[1].row is not None and one[1].row == after[1].row
    return same_row and is_bar(one[1].text) and one[0] != after[0]


def group_draws(found: Sequence[Match]) -> list[list[Match]]:
    """Return the matches of a pattern that begins an epoch, with those that draw the same line again together.

    A bar whose line names its epoch by a number may go on in another row, after other lines.
    """

    def name_draw(one: Match) -> object:
        order, line, match = one
        if line.row is None:
            return order
        return match[0] if any(map(str.isdigit, match[0])) else (line.row, match[0])

    return [list(group) for _, group in groupby(found, key=name_draw)]
