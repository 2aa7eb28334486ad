"""The parts of a report in any format: a first screen, and sections of text, tables, figures and bars."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from speedproof.util.numbers import format_value

PAGE_FILE = "report.html"

Tone = Literal["good", "bad", "open", "plain"]


class Marked(str):
    """Text in Markdown: of this package, or with what is not escaped."""

    __slots__ = ()


class VariantName(str):
    """A user's name for a variant: shown apart from the words around it, and shortened if it is too long for its place."""

    __slots__ = ()


@dataclass(frozen=True)
class Link:
    """Text that leads to a page on the web."""

    text: str
    target: str


@dataclass(frozen=True)
class Folded:
    """Lines that a page shows once its summary is clicked; Markdown says `instead`."""

    summary: str
    lines: Sequence[str]
    instead: str


Words = str | Link | Sequence[str]
Cell = Words | Folded  # of a table


def join_words(words: Words) -> str:
    """Return words as one plain text."""
    return words.text if isinstance(words, Link) else "".join(words)


@dataclass(frozen=True)
class Text:
    """Paragraphs, or the items of a list; a page may have no need of them."""

    lines: Sequence[Words]
    bullets: bool = False
    on_page: bool = True


Row = list[str]  # of a table


@dataclass(frozen=True)
class Table:
    """A header, rows, and notes."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


def write_row(*cells: str | float | None) -> Row:
    """Return cells as text: whole numbers as they are, others as times in seconds, a dash for none."""
    return [str(cell) if isinstance(cell, str | int) else format_value(cell, "s") for cell in cells]


@dataclass(frozen=True)
class Picture:
    """A figure as SVG markup, made by this package."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Piece:
    """A part of a bar: what it is, how long in words, and where it lies, in percent of the bar's room."""

    name: str
    kind: str
    text: str
    left: float
    width: float
    colour: str


@dataclass(frozen=True)
class Bar:
    """A variant's bar, or a step of a waterfall."""

    title: str
    text: str
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class Bars:
    """Bars below one another, with a key to their colours (name, colour) if they have several."""

    title: str
    bars: Sequence[Bar]
    key: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ShellCommand:
    """A command to type."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Markup:
    """HTML that another part of this package made; a report in Markdown says `instead`."""

    html: str
    instead: str


Element = Text | Table | Picture | Bars | ShellCommand | Markup


def make_table(header: Sequence[str], rows: Sequence[Sequence[Cell]], *notes: str) -> list[Element]:
    """Return a table with its notes as the elements of a section; none without rows."""
    return [Table(header, rows, notes)] if rows else []


@dataclass(frozen=True)
class Section:
    """A part of a report with an anchor to link to."""

    anchor: str
    title: str
    elements: Sequence[Element]
    folded: bool = True


def make_sections(parts: Sequence[tuple[str, str, Sequence[Element]]], unfolded: Collection[str]) -> list[Section]:
    """Return sections of these anchors, titles and elements; those without elements are left out."""
    return [Section(anchor, title, elements, anchor not in unfolded) for anchor, title, elements in parts if elements]


@dataclass(frozen=True)
class Badge:
    """A verdict in a word or two."""

    text: str
    tone: Tone


@dataclass(frozen=True)
class Band:
    """A documented or claimed range on the forest plot, in percent of its axis; `fades` towards its open end."""

    left: float
    width: float
    text: str
    fades: Literal["left", "right", ""] = ""


@dataclass(frozen=True)
class ForestRow:
    """A ratio on the forest plot; positions are in percent of the axis."""

    what: str
    variants: Words
    value: str
    interval: str
    said: Badge
    judged: Badge | None  # beside what is claimed or documented
    centre: float
    left: float | None
    width: float | None
    bands: Sequence[Band] = ()
    pairs: Sequence[tuple[float, float]] = ()  # of each pair of runs, and how far down it is drawn: in order, the first on top


@dataclass(frozen=True)
class Forest:
    """A forest plot: rows over a logarithmic axis with its ticks (position in percent, text) and the line of no difference."""

    rows: Sequence[ForestRow]
    ticks: Sequence[tuple[float, str]]
    one: float
    meaning: str
    shaded: str = "documented"  # what bands are


@dataclass(frozen=True)
class Fact:
    """On the first screen: a question in a word, and its answer; `warns` if it must not be overlooked."""

    name: str
    text: Words
    warns: bool = False


@dataclass(frozen=True)
class FirstScreen:
    """What was found, how sure, on what, at what quality, and why."""

    badges: Sequence[Badge]
    sentence: Words
    facts: Sequence[Fact]
    spread: str = ""  # the interval of the sentence's ratio
    note: str = ""  # what a shown speedup leaves open
    forest: Forest | None = None
    why: Words = ""
    caveats: Sequence[Fact] = ()  # the gravest first
    waterfall: Bars | None = None  # from the slower variant's epoch to the faster one's


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    first: FirstScreen
    sections: Sequence[Section] = field(default_factory=list)
    measured: str = ""  # on which days
