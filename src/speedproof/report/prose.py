"""The templates of reports: pages, and fixed prose, whose paragraphs are macros filled with data."""

from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from speedproof.util.numbers import format_count, format_duration, format_large, format_range, format_value
from speedproof.util.units import MIB


def make_environment(package: str = "speedproof.report", folder: str = "templates", **options: Any) -> Environment:
    """Return an environment of a package's templates, in which a name without a value is an error."""
    loader = PackageLoader(package, folder)
    return Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, **options)


def is_of_kind(element: object, name: str) -> bool:
    """Return whether a page's element is of the class of this name, as a template's test."""
    return type(element).__name__ == name


@cache
def _load_macros(template: str) -> Any:
    # Paragraphs are text, not markup: who shows them escapes them.
    environment = make_environment(autoescape=False)
    environment.filters.update(
        value=format_value,
        large=format_large,
        count=format_count,
        range=format_range,
        duration=format_duration,
        mib=lambda number: format_value(number / MIB, "MiB"),
    )
    return environment.get_template(template).module


class Prose:
    """A template of paragraphs by name."""

    def __init__(self, template: str) -> None:
        self._template = template

    def __getitem__(self, name: str) -> Callable[..., str]:
        """Return what fills a paragraph with data; the template is read when it is first filled."""

        def fill(*data: Any) -> str:
            lines = getattr(_load_macros(self._template), name)(*data).split("\n")
            return " ".join(filter(None, (line.strip(" ") for line in lines)))

        return fill
