"""What a notebook shows of a result: sentences and a small table, with everything in them escaped."""

from collections.abc import Sequence
from html import escape

from speedproof.report.trace_listings import Listing
from speedproof.util.text import printable


def write_html(sentences: Sequence[str], listing: Listing) -> str:
    paragraphs = "".join(f"<p>{_show(sentence)}</p>" for sentence in sentences)
    head = "".join(f"<th{_align(column)}>{_show(column.removeprefix('>'))}</th>" for column in listing.columns)
    rows = "".join(f"<tr>{_write_row(listing.columns, row)}</tr>" for row in listing.rows[: listing.most])
    left_out = len(listing.rows) - listing.most
    more = f"<p>and {left_out} more</p>" if left_out > 0 else ""
    return f"{paragraphs}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _write_row(columns: Sequence[str], row: Sequence[str]) -> str:
    return "".join(f"<td{_align(column)}>{_show(cell)}</td>" for column, cell in zip(columns, row, strict=True))


def _align(column: str) -> str:
    return f' style="text-align: {"right" if column.startswith(">") else "left"}"'


def _show(text: str) -> str:
    return escape(printable(text))
