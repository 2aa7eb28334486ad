"""What the commands have in common: examples in `--help`, shared options, and usage errors with a hint."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from speedproof.util.text import suggest

ConfigFiles = Annotated[list[Path], typer.Option("--config", help="YAML or JSON file (repeatable; later ones override)")]
LogFile = Annotated[Path | None, typer.Option("--log", help="Also write the log to this file")]
ClaimsPath = Annotated[Path, typer.Option("--claims", help="File of documented numbers: workloads/<name>/claims.yaml")]
FoundResults = Annotated[
    Path | None,
    typer.Option("--from", help="Results folder, record or proof. Default: the newest results"),
]

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]  # click's, of which typer may bring its own copy
_OLD_NAMES = {**dict.fromkeys(("--results", "--folder", "--records"), "--from"), "--block": "--experiment"}


def name_command(name: str | None, group: Any) -> str:
    """Return what people type after `speedproof` for a command; `group` is the context of its group."""
    words = [name or ""]
    while group is not None and group.parent is not None:
        words.insert(0, group.info_name)
        group = group.parent
    return " ".join(words)


class HelpfulCommand(TyperCommand):
    """A command that knows the former names of its options, and that results need `--from`."""

    def make_context(self, *words: Any, **more: Any) -> Any:
        """Read the command line."""
        try:
            return super().make_context(*words, **more)
        except USAGE_ERROR as error:
            old = str(getattr(error, "option_name", "")).partition("=")[0]
            new = _OLD_NAMES.get(old)
            if new in {name for parameter in self.params for name in parameter.opts}:
                error.message = f"{old} is now called {new}; use {new}"  # type: ignore[attr-defined]
                error.possibilities = None  # type: ignore[attr-defined]
            raise

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; reject an extra word, which is often a folder without its `--from`."""
        ctx.allow_extra_args = True
        extra = super().parse_args(ctx, args)
        if extra and any("--from" in parameter.opts for parameter in self.params):
            line = f"speedproof {name_command(ctx.info_name, ctx.parent)} --from {quote(extra[0])}"
            ctx.fail(f"{extra[0]}: unexpected argument; use `{line}`")
        if extra:
            ctx.fail(f"{extra[0]}: unexpected word; if it belongs to the previous one, quote both together")
        return extra


def command(
    group: typer.Typer, *examples: str, cls: type[TyperCommand] = HelpfulCommand, **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function to a group of commands; its help ends with the examples, each as it would be typed."""
    shown = "\n\n".join(["Examples:" if len(examples) > 1 else "Example:", *examples])
    return group.command(cls=cls, epilog=shown, **more)


def one_of(value: str, option: str, choices: tuple[str, ...]) -> Any:
    """Return an option's value, which must be one of its choices."""
    if value not in choices:
        raise typer.BadParameter(f"{option} must be one of {', '.join(choices)}, not {value}")
    return value


_ALIKE = (
    0.7  # share of two names' letters that makes one a likely typo of the other: --rouns of --rounds, not --colour of --source
)


def take_own_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command line that may be options: those before `--`."""
    return list(words[: words.index("--")] if "--" in words else words)


def asks_for_json(words: Sequence[str]) -> bool:
    """Return whether a command line, which may be wrong, asks for JSON."""
    return "--json" in take_own_words(words)


def explain_usage(error: Any, command: Any, called: str) -> str:
    """Return what is wrong with the words that the command of this name was given.

    `error` is click's, which has a class for each kind.
    """
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    if option and error.message.startswith("No such option"):
        known = [name for one in command.params for name in one.opts if name.startswith("--")]
        hint = suggest(option, known, _ALIKE) or f"; `speedproof {called} --help` lists all options"
        return f"{option}: no such option{hint}"
    if option:
        said = re.sub(rf"^Option '?{re.escape(option)}'? ", "", error.message)
        return said.rstrip(".") if said == error.message else f"{option}: {said.rstrip('.')}"
    if parameter is None:
        return _begin_small(error.message)
    option = next(iter(parameter.opts))
    named = option if option.startswith("-") else parameter.metavar or option
    return f"{named}: {_explain_value(error)}" if error.message else f"{named}: missing; see `speedproof {called} --help`"


def _explain_value(error: Any) -> str:
    """Return what is wrong with a value, in the words that we have for that in files, too."""
    from pydantic import ValidationError

    from speedproof.config.validation_errors import describe_given, phrase_problem

    if isinstance(error.__cause__, ValidationError):
        (problem,) = error.__cause__.errors()
        return f"{phrase_problem(problem)}{describe_given(problem)}"
    return _begin_small(error.message)


def _begin_small(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}".rstrip(".")
