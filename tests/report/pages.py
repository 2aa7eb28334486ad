"""What a page in HTML holds: its tags, its text, and what in it would run or be fetched."""

import re
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

OWN_SCRIPTS = ("templates/report.js", "timeline/timeline.js")
_DATA = {"application/json", "application/octet-stream"}  # no script of these types runs
_FORBIDDEN = {"iframe", "object", "embed", "form", "base", "video", "audio", "img", "image", "foreignobject"}


class Page(HTMLParser):
    """The tags of a page, with their attributes, its scripts, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._runs = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append((tag, values))
        self._runs = tag == "script" and values.get("type") not in _DATA
        if self._runs:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._runs = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._runs:
            self.scripts[-1] += data

    def count(self, tag: str) -> int:
        """Return how many of a tag there are."""
        return [name for name, _ in self.tags].count(tag)


def find_live(page: Page) -> list[Any]:
    """Return what in a report's page would run or be fetched, and is none of this package's own scripts and links."""
    own = {files("speedproof.report").joinpath(name).read_text(encoding="utf-8").strip() for name in OWN_SCRIPTS}
    live: list[Any] = [script[:80] for script in page.scripts if script.strip() not in own]
    for tag, values in page.tags:
        link = values.get("href", values.get("xlink:href", "#"))
        allowed = re.match(r"#|https?://", link) if tag != "link" else values == {"rel": "icon", "href": "data:,"}
        if (
            tag in _FORBIDDEN
            or not allowed
            or any(name.startswith("on") or name in ("src", "srcset", "srcdoc") for name in values)
        ):
            live.append((tag, values))
        if tag == "meta" and values.get("http-equiv", "Content-Security-Policy") != "Content-Security-Policy":
            live.append((tag, values))
    return live
