"""`report.html`: the report as one file that needs nothing else."""

import base64
import html
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from speedproof.common.errors import RecordError
from speedproof.records.files import opened, write_text
from speedproof.records.names import inside

_MIME_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def render_html(text: str, folder: Path, out: Path) -> None:
    """Render a report in Markdown as a self-contained page: figures in its folder are embedded, raw HTML shows as text.

    Raises :class:`RecordError` where a figure is missing or lies outside of the folder.
    """
    # The `js-default` preset lets no raw HTML through, and markdown-it accepts no `javascript:` or `data:` links.
    parser = MarkdownIt("js-default", {"linkify": False})
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    environment = {"folder": folder}
    tokens = parser.parse(text, environment)
    body = parser.renderer.render(tokens, parser.options, environment)
    write_text(out, _environment().get_template("report.html.j2").render(title=_find_title(tokens), body=body))


def _render_image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    path = inside(Path(env["folder"]), unquote(str(token.attrs["src"])))
    if path.suffix not in _MIME_TYPES:
        raise RecordError(f"{path}: is no figure; a report shows {' and '.join(_MIME_TYPES)} files only")
    with opened(path) as file:
        data = base64.b64encode(file.read()).decode()
    alternative = html.escape(token.content)
    return f'<img src="data:{_MIME_TYPES[path.suffix]};base64,{data}" alt="{alternative}">'


def _open_table(*_: Any) -> str:
    return '<div class="table"><table>\n'  # wide tables scroll by themselves


def _close_table(*_: Any) -> str:
    return "</table></div>\n"


def _find_title(tokens: Sequence[Token]) -> str:
    """Return the text of the first heading."""
    heading = next((number for number, token in enumerate(tokens) if token.type == "heading_open"), None)
    inline = tokens[heading + 1].children if heading is not None else None
    return "".join(token.content for token in inline or []) or "Report"


def _environment() -> Environment:
    return Environment(loader=PackageLoader("speedproof.report"), undefined=StrictUndefined, autoescape=True)
