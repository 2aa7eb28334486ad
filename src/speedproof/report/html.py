"""`report.html`: a document as one page that needs nothing else, asks nobody, and runs nothing that others wrote."""

import html
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Template
from markdown_it import MarkdownIt
from markupsafe import Markup as Safe

from speedproof import __version__
from speedproof.report.document import Document, Folded, Link, Marked, Picture, VariantName
from speedproof.report.prose import is_of_kind, make_environment
from speedproof.results.files import read_text, write_text
from speedproof.util.numbers import format_count
from speedproof.util.text import printable

_LONG = 480  # characters: a longer text scrolls in its place
_LONG_WORD = 24
_LONG_NAME = 48  # a longer name is cut, and whole where the mouse rests on it
# A browser breaks lines at hyphens: not in an option, nor in a date.
_UNBROKEN = re.compile(r"\S*(?<!\w)--?\w\S*|\S*\d{4}-\d\d-\d\d\S*")
_WEB = ("https://", "http://")
# The colours of figures that are the page's own in light and in dark: text and axes, the ground, lines.
_THEME = {
    "#262626": "ink",
    "#000000": "ink",
    "black": "ink",
    "#ffffff": "ground",
    "white": "ground",
    "#cccccc": "line",
    "#e4e4e4": "pale",
    "#3b3b3b": "dim",
}


def render_html(page: Document, out: Path) -> None:
    """Write a document as a self-contained page. Whatever comes from a file shows as text, however it is written."""
    write_text(out, compose_html(page))


def compose_html(page: Document) -> str:
    """Return a document as a self-contained page."""
    return _load_template().render(page=page, version=__version__)


def load_picture(title: str, caption: str, path: Path) -> Picture:
    """Return a figure that was drawn as SVG, in the page's own colours, and with names that no other figure of a page has."""
    text = read_text(path)
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    name = re.sub(r"\W", "", path.stem)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    colours = "|".join(map(re.escape, _THEME))
    text = re.sub(rf"((?:fill|stroke)(?:: |=\"))({colours})\b", lambda found: f"{found[1]}{_theme(found[2])}", text)
    return Picture(title, caption, text)


def _theme(colour: str) -> str:
    return f"var(--{_THEME[colour]}, {colour})"


def show(value: Any) -> Safe:
    """Return text as HTML that shows it as it is: names apart, Markdown of this package rendered, long text scrolling."""
    text = _show_one(value)
    if isinstance(value, Folded):
        return Safe(text)
    shown = value if isinstance(value, str) else value.text if isinstance(value, Link) else "".join(map(str, value))
    long = len(shown) > _LONG and not isinstance(value, Marked)
    return Safe(f'<span class="long" tabindex="0">{text}</span>' if long else text)


def _show_one(value: Any) -> str:
    match value:
        case Safe():
            return str(value)
        case Marked():
            return _parser().renderInline(value)
        case VariantName():
            name = printable(" ".join(value.split()))
            shown = html.escape(name)
            cut = " cut" if len(value) > _LONG_NAME else ""
            return f'<bdi class="variant{cut}" title="{shown}">{shown if cut else _show_words(name)}</bdi>'
        case Link():
            text = _show_one(value.text)
            to_web = value.target.startswith(_WEB)
            return f'<a href="{html.escape(value.target)}" rel="noreferrer">{text}</a>' if to_web else text
        case Folded():
            lines = "".join(f"<li>{_show_one(line)}</li>" for line in value.lines)
            return f"<details><summary>{_show_one(value.summary)}</summary><ul>{lines}</ul></details>" if lines else ""
        case str():  # only a word that is longer than any column may be broken inside
            return _show_words(printable(value, keep="\n"))
        case Sequence():
            return "".join(map(_show_one, value))
        case _:
            return html.escape(printable(str(value)))


def _show_words(text: str) -> str:
    return "".join(map(_show_word, re.split(r"(\s+)", text)))


def _show_word(word: str) -> str:
    if len(word) > _LONG_WORD:
        return f'<span class="word">{html.escape(word)}</span>'
    return f'<span class="unbroken">{html.escape(word)}</span>' if _UNBROKEN.fullmatch(word) else html.escape(word)


@cache
def _parser() -> MarkdownIt:
    # The `js-default` preset lets no raw HTML through, and markdown-it accepts no `javascript:` or `data:` links.
    return MarkdownIt("js-default", {"linkify": False})


@cache
def _load_template() -> Template:
    environment = make_environment(autoescape=True)
    environment.filters.update(show=show, count=format_count)
    environment.tests.update(of_kind=is_of_kind)
    return environment.get_template("report.html.j2")
