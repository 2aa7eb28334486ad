"""`report.html`: the report as one file that needs nothing else."""

import base64
import html
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from speedproof.errors import RecordError
from speedproof.records.files import write_text

_MIME_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def render_html(markdown_file: Path, out: Path) -> None:
    """Render a report as a self-contained page: figures are embedded, raw HTML in the Markdown shows as text.

    Raises :class:`RecordError` where the report or one of its figures is missing.
    """
    try:
        text = markdown_file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecordError(f"{markdown_file}: no such file; write the report first") from None
    # The `js-default` preset lets no raw HTML through, and markdown-it accepts no `javascript:` or `data:` links.
    parser = MarkdownIt("js-default", {"linkify": False})
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    body = parser.render(text, {"folder": markdown_file.parent})
    write_text(out, _environment().get_template("report.html.j2").render(title=_title(text), body=body))


def _render_image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    path = Path(env["folder"], str(token.attrs["src"]))
    try:
        data = base64.b64encode(path.read_bytes()).decode()
    except FileNotFoundError:
        raise RecordError(f"{path}: no such figure; draw the figures again") from None
    alternative = html.escape(token.content)
    return f'<img src="data:{_MIME_TYPES[path.suffix]};base64,{data}" alt="{alternative}">'


def _open_table(*_: Any) -> str:
    return '<div class="table"><table>\n'  # wide tables scroll by themselves


def _close_table(*_: Any) -> str:
    return "</table></div>\n"


def _title(text: str) -> str:
    return next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")), "Report")


def _environment() -> Environment:
    return Environment(loader=PackageLoader("speedproof.report"), undefined=StrictUndefined, autoescape=True)
