"""The forest plot as a picture of its own: small, legible at half a page's width, in light and in dark."""

import html
from functools import cache

from jinja2 import Template

from speedproof.report.document import Forest, Words
from speedproof.report.prose import make_environment
from speedproof.util.text import printable

_AXIS = (390, 650)  # where the axis lies, in pixels
_MOST = {"": 38, "s": 55, "f": 110}  # characters of a line, by its kind


def draw_forest_picture(forest: Forest, where: Words) -> str:
    """Return the plot as SVG, on a ground of its own, so that it is legible whatever lies around it.

    It travels alone: `where` says on which machine, when and with which data it was measured.
    """
    return _load_template().render(forest=forest, where=where, right_of_axis=_AXIS[1] + 24)


@cache
def _load_template() -> Template:
    environment = make_environment(keep_trailing_newline=True)
    environment.filters.update(across=_across, words=_fit_words)
    return environment.get_template("forest.svg.j2")


def _across(percent: float) -> float:
    """Return where a share of the axis lies."""
    return round(_AXIS[0] + percent / 100 * (_AXIS[1] - _AXIS[0]), 1)


def _fit_words(words: Words, kind: str = "") -> str:
    """Return words as a line of a kind takes them."""
    text = printable(words if isinstance(words, str) else "".join(map(str, words)))  # type: ignore[arg-type]
    return html.escape(text if len(text) <= _MOST[kind] else f"{text[: _MOST[kind] - 1]}…")
