"""What is wrong with a command line, in one line that calls options as they were typed."""

import re
from collections.abc import Sequence
from typing import Any

from speedproof.util.text import suggest

_ALIKE = 0.7  # of two names' letters, so that one may be meant by the other: --rouns is --rounds, --colour is not --source


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
        hint = suggest(option, known, _ALIKE) or f"; `speedproof {called} --help` lists those there are"
        return f"{option}: no such option{hint}"
    if option:
        said = re.sub(rf"^Option '?{re.escape(option)}'? ", "", error.message)
        return said.rstrip(".") if said == error.message else f"{option}: {said.rstrip('.')}"
    if parameter is None:
        return _begin_small(error.message)
    named = next(iter(parameter.opts))
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
