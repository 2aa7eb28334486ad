"""The timeline as a piece of a page: markup, data, style and script in one, which needs nothing else of the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from speedproof.trace.iterations import Choice
from speedproof.trace.loop import CHOOSES_NOTHING


@dataclass(frozen=True)
class TracedSide:
    """A trace to be shown: its title, its folder, and what the user says of its loop."""

    title: str
    trace: Path
    choice: Choice = CHOOSES_NOTHING


def render_timeline(sides: Sequence[TracedSide]) -> str:
    """Return the timeline of one trace, or of several below one another, as HTML to be placed inside of a page's body.

    Raises :class:`speedproof.common.errors.RecordError` where a trace cannot be read.
    """
    return _environment().get_template("timeline.html.j2").render(titles=[side.title for side in sides])


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("speedproof.report.timeline", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
