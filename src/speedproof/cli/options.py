"""What the commands here have in common: their groups and examples in `--help`, options of one name, and one way to be read."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

PEOPLE, STEPS = "Commands", "Steps of the workflow"

ConfigFiles = Annotated[list[Path], typer.Option("--config", help="YAML or JSON file (repeatable; later ones override)")]
LogFile = Annotated[Path | None, typer.Option("--log", help="Also write the log to this file")]
ClaimsPath = Annotated[Path, typer.Option("--claims", help="File of documented numbers: workloads/<name>/claims.yaml")]
FoundResults = Annotated[
    Path | None,
    typer.Option("--from", help="Results folder, record or proof. Default: the newest results"),
]

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]  # click's, of which typer may bring a copy of its own
_OLD_NAMES = {**dict.fromkeys(("--results", "--folder", "--records"), "--from"), "--block": "--experiment"}


class RenamedOptionsCommand(TyperCommand):
    """A command that knows what its options were called before."""

    def make_context(self, *words: Any, **more: Any) -> Any:
        """Read the command line."""
        try:
            return super().make_context(*words, **more)
        except USAGE_ERROR as error:
            old = str(getattr(error, "option_name", "")).partition("=")[0]
            new = _OLD_NAMES.get(old)
            if new in {name for parameter in self.params for name in parameter.opts}:
                error.message = f"{old} is called {new} now; write {new}"  # type: ignore[attr-defined]
                error.possibilities = None  # type: ignore[attr-defined]
            raise


def examples(*lines: str) -> str:
    """Return what stands below a command's options: a line an example, each as it would be typed."""
    return "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *lines])


def one_of(value: str, option: str, choices: tuple[str, ...]) -> Any:
    """Return an option's value, which must be one of its choices."""
    if value not in choices:
        raise typer.BadParameter(f"{option} must be one of {', '.join(choices)}, not {value}")
    return value


def asking(options: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, before its own options, those that a data class names; its first argument is then one of these."""
    hints = get_type_hints(options, include_extras=True)

    def give(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(**given: Any) -> None:
            command(options(**{field.name: given.pop(field.name) for field in fields(options)}), **given)

        shared = [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(options)
        ]
        own = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in list(signature(command).parameters.values())[1:]]
        call.__signature__ = Signature([*shared, *own])  # type: ignore[attr-defined]
        return call

    return give
