"""`report.md`: a document as Markdown, as GitHub shows it, and beside it the forest plot as a picture."""

import html
import os
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Template
from markupsafe import Markup

from speedproof.report.compose import compose_document
from speedproof.report.document import Document, Folded, Link, Marked
from speedproof.report.figures.figure_data import Evidence, read_evidence
from speedproof.report.forest import draw_forest_picture
from speedproof.report.prose import is_of_kind, make_environment
from speedproof.results.comparison import COMPARISON_FILE
from speedproof.results.files import write_text
from speedproof.util.text import printable

PICTURE_FILE = "report.svg"
# An underscore inside a word is none.
_MARKDOWN_MARKS = re.compile(r"([\\`*\[\]<>|#~&]|(?<!\w)_|_(?!\w))")
# The target of a link, which no text can hold: there, brackets are escaped.
_TARGETS = re.compile(r"(?<!\\)\]\((https?://[^()\s]+)\)")
# At the start of a line: an item of a list, a rule, the line below a heading.
_LINE_STARTS = re.compile(r"^(\d*)([-+=.)])(?=[\s=-]|$)")
# What may stand in a link as it is; a bracket would end it.
_OF_LINKS = "/:?#@!$&'*+,;=%~"


def write_report(results: Evidence | Path, out: Path) -> None:
    """Write the report on a results folder, with its `comparison.json`, as the Markdown file `out` with its picture beside it.

    The same results give the same bytes. Raises :class:`RecordError` where something that the report needs is missing.
    """
    evidence = results if isinstance(results, Evidence) else read_evidence(results)
    page = compose_document(evidence)
    numbers = Path(os.path.relpath(evidence.results.folder / COMPARISON_FILE, out.parent)).as_posix()
    write_text(out, compose_markdown(page, numbers))
    if page.first.forest:
        where = " ".join(str(fact.text) for fact in page.first.facts if fact.name in ("Machine", "Data"))
        write_text(out.with_name(PICTURE_FILE), draw_forest_picture(page.first.forest, where))
    else:
        out.with_name(PICTURE_FILE).unlink(missing_ok=True)


def compose_markdown(page: Document, numbers: str) -> str:
    """Return a document as Markdown; `numbers` is where its `comparison.json` lies, from the file that it is written to."""
    return _share_targets(_load_template().render(page=page, picture=PICTURE_FILE, numbers=numbers))


def _share_targets(text: str) -> str:
    """Return Markdown in which a page that several links lead to stands once, at the end: records are many."""
    counts = Counter(_TARGETS.findall(text))
    shared = {target: number for number, target in enumerate((one for one in counts if counts[one] > 1), start=1)}
    text = _TARGETS.sub(lambda found: f"][{shared[found[1]]}]" if found[1] in shared else found[0], text)
    return text + "".join(f"\n[{number}]: {target}" for target, number in shared.items()) + "\n" * bool(shared)


def escape_markdown(value: Any) -> Markup:
    """Return text that Markdown shows as it is, on one line: nothing that comes from a file can become markup."""
    match value:
        case Markup():
            return value
        case Marked():
            return Markup(value)
        case Link():
            return Markup(f"[{escape_markdown(value.text)}]({escape_link(value.target)})")
        case Folded():
            return escape_markdown(value.instead)
        case str():
            return _escape_marks(" ".join(value.split()))
        case Sequence():  # of parts, whose spaces at their ends stay
            return Markup("").join(
                Markup(part) if isinstance(part, Marked) else _escape_marks(re.sub(r"\s+", " ", part)) for part in value
            )
    return escape_markdown(str(value))


def escape_link(value: Any) -> Markup:
    """Return the target of a Markdown link: of a page on the web, or of a file by its relative path; of nothing else."""
    link = quote(str(value), safe=_OF_LINKS)
    scheme = link.split("/")[0]
    return Markup(link if ":" not in scheme or scheme in ("https:", "http:") else "")


def _escape_marks(text: str) -> Markup:
    return Markup(_MARKDOWN_MARKS.sub(r"\\\1", printable(text)))


def _escape_line(value: Any) -> Markup:
    """Return text as a line of its own, which begins no list and no rule."""
    return Markup(_LINE_STARTS.sub(r"\1\\\2", escape_markdown(value)))


def _escape_html(text: str) -> Markup:
    """Return text for a line of HTML, in which Markdown's marks mean nothing."""
    return Markup(html.escape(printable(" ".join(text.split()))))


@cache
def _load_template() -> Template:
    # Whatever the template prints is escaped, unless it says that it is Markdown; `autoescape` makes macros give Markup.
    environment = make_environment(keep_trailing_newline=True, autoescape=True, finalize=escape_markdown)
    environment.filters.update(escape=escape_markdown, line=_escape_line, link=escape_link, as_html=_escape_html)
    environment.tests.update(of_kind=is_of_kind)
    return environment.get_template("report.md.j2")
