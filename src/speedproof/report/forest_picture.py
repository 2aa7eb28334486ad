"""The forest plot as a picture of its own: small, legible at half a page's width, in light and in dark."""

import html

from speedproof.report.document import Forest, ForestRow, Words
from speedproof.util.text import printable

_WIDTH, _ROW, _TOP, _FOOT = 900, 64, 14, 78
_LEFT, _AXIS = 20, (390, 650)  # where words begin, and where the axis lies
_MOST = {"": 38, "s": 55, "f": 110}  # characters of a line, by its kind
_STYLE = (
    "text{font:600 17px Helvetica,Arial,sans-serif;fill:var(--i)}.s,.f{font-size:14px;font-weight:400;fill:var(--d)}"
    ":root{--g:#fff;--i:#1c2026;--d:#57606a;--b:#bfdbf7;--good:#12703a;--bad:#b3261e;--open:#8a5300;--plain:#57606a}"
    "@media(prefers-color-scheme:dark){:root{--g:#14171b;--i:#e8eaed;--d:#a6afb8;--b:#29486b;--good:#58c984;--bad:#ff8a80;"
    "--open:#f0b34d;--plain:#a6afb8}}"
)
# What fills a band: it fades towards a side on which the range has no end.
_FADES = {"right": "", "left": ' x1="1" x2="0"'}
_FILLS = {"": "var(--b)", **{side: f"url(#{side})" for side in _FADES}}
_STOPS = '<stop offset=".4" stop-color="var(--b)"/><stop offset="1" stop-color="var(--b)" stop-opacity="0"/>'


def draw_forest_picture(forest: Forest, where: Words) -> str:
    """Return the plot as SVG, on a ground of its own, so that it is legible whatever lies around it.

    It travels alone: `where` says on which machine, when and with which data it was measured.
    """
    height = _TOP + _ROW * len(forest.rows) + _FOOT
    bottom = _TOP + _ROW * len(forest.rows)
    one = _across(forest.one)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"><style>{_STYLE}</style>',
        "".join(f'<linearGradient id="{side}"{line}>{_STOPS}</linearGradient>' for side, line in _FADES.items()),
        f'<rect width="{_WIDTH}" height="{height}" rx="10" fill="var(--g)"/>',
        *(_draw_row(row, _TOP + _ROW * number) for number, row in enumerate(forest.rows)),
        f'<path d="M{one} {_TOP}V{bottom}" stroke="var(--d)" stroke-dasharray="5 4"/>',
        *(
            f'<text class="s" x="{_across(left)}" y="{bottom + 18}" text-anchor="middle">{text}</text>'
            for left, text in forest.ticks
        ),
        _text(_LEFT, bottom + 44, _legend(forest), "f"),
        f"{_text(_LEFT, bottom + 64, where, 'f')}</svg>",
    ]
    return "".join(parts) + "\n"


def _draw_row(row: ForestRow, top: int) -> str:
    middle = top + _ROW // 2
    drawn = [
        _text(_LEFT, middle - 4, row.what),
        _text(_LEFT, middle + 17, row.variants, "s"),
        _text(_AXIS[1] + 24, middle - 4, f"{row.value} {row.interval}" if row.left is not None else row.value),
        _text(_AXIS[1] + 24, middle + 17, row.said.text, "s", f"var(--{row.said.tone})"),
    ]
    for band in row.bands:
        left, right = _across(band.left), _across(band.left + band.width)
        size = f'width="{round(right - left, 1)}" height="30" rx="3"'
        drawn.append(f'<rect x="{left}" y="{middle - 15}" {size} fill="{_FILLS[band.fades]}"/>')
    colour = f"var(--{row.said.tone})"
    if row.left is not None and row.width is not None:
        left, right = _across(row.left), _across(row.left + row.width)
        drawn.append(f'<path d="M{left} {middle}H{right}" stroke="{colour}" stroke-width="7" stroke-linecap="round"/>')
    drawn.append(f'<circle cx="{_across(row.centre)}" cy="{middle}" r="9" fill="{colour}" stroke="var(--g)" stroke-width="2"/>')
    return "".join(drawn)


def _text(x: float, y: float, words: Words, kind: str = "", colour: str = "") -> str:
    text = printable(words if isinstance(words, str) else "".join(map(str, words)))  # type: ignore[arg-type]
    most = _MOST[kind]
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    look = f' class="{kind}"' * bool(kind) + f' style="fill:{colour}"' * bool(colour)
    return f'<text x="{x}" y="{y}"{look}>{html.escape(text)}</text>'


def _legend(forest: Forest) -> str:
    documented = f"; shaded: {forest.shaded}" if any(row.bands for row in forest.rows) else ""
    return f"dot: measured, line: its 95 % interval{documented}; dashed: no difference; {forest.meaning}"


def _across(percent: float) -> float:
    return round(_AXIS[0] + percent / 100 * (_AXIS[1] - _AXIS[0]), 1)
