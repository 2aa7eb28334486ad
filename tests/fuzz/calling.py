"""The command line called in this process, and what to think of how it ended."""

import io
import logging
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from unittest.mock import patch

import typer

from speedproof.cli import main
from speedproof.util import errors

# What became of an input. The first three are as they should be: it was refused in one line, it gave what the sound input
# gives, or it says something else in earnest and gave just that.
Kind = Literal["refused", "same", "right", "traceback", "unclear", "hang", "silent"]
GOOD: tuple[Kind, ...] = ("refused", "same", "right")
BAD: tuple[Kind, ...] = ("traceback", "unclear", "hang", "silent")
EXIT_CODES = {
    kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SpeedproofError)
}


@dataclass(frozen=True)
class Outcome:
    """What became of an input, and, unless that was good, how."""

    kind: Kind
    text: str = ""


@dataclass(frozen=True)
class Ended:
    """How a call ended."""

    code: int
    out: str
    err: str
    crash: str = ""  # the traceback

    def refusal(self, *names: str) -> Outcome | None:
        """Return how the call failed, None where it did not; a refusal must name one of `names`."""
        if self.crash:
            return Outcome("traceback", self.crash)
        if self.code == 0:
            return None
        # The words themselves are wrong, which typer says in a box; with none at all it shows what there is.
        if self.code == 2 and ("─ Error ─" in self.err or "Usage:" in self.out):
            return Outcome("refused")
        lines = self.err.strip("\n").split("\n")
        return (
            judge_line(lines[-1], self.code, names) if lines[-1].startswith("speedproof: ") else self._unclear("not one line")
        )

    def _unclear(self, why: str) -> Outcome:
        return Outcome("unclear", f"{why}; exit {self.code}: {self.err[-500:]!r}")


def judge_line(line: str, code: int, names: tuple[str, ...]) -> Outcome:
    """Say whether a refusal is one: a line that can be printed, not endless, names its subject, and has its exit code."""
    if code not in EXIT_CODES:
        return Outcome("unclear", f"exit {code} means nothing: {line!r}")
    if not line.isprintable():
        return Outcome("unclear", f"cannot be printed: {line[:500]!r}")
    if len(line) > 2000:
        return Outcome("unclear", f"{len(line)} characters: {line[:300]!r}")
    if names and not any(name in line for name in names):
        return Outcome("unclear", f"names none of {', '.join(names)}: {line!r}")
    return Outcome("refused")


def speedproof(*arguments: object) -> Ended:
    """Call the command line as a shell would."""
    out, err = io.StringIO(), io.StringIO()
    code, crash = 0, ""
    words = patch.object(sys, "argv", ["speedproof", *map(str, arguments)])
    with words, patch("typer.main.get_command", _get_command), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            crash = shorten(traceback.format_exc())
    for handler in logging.getLogger("speedproof").handlers:
        handler.close()
    return Ended(code, out.getvalue(), err.getvalue(), crash)


_get_command = cache(typer.main.get_command)  # building it takes longer than most of what it calls


def attempt(call: Callable[[], Any], *names: str) -> Any:
    """Return what a call returns, or the outcome of its failing."""
    try:
        return call()
    except errors.SpeedproofError as error:
        return judge_line(str(error), error.exit_code, names)
    except BaseException:
        return Outcome("traceback", shorten(traceback.format_exc()))


def shorten(text: str) -> str:
    """Return the end of a traceback."""
    return "\n".join(line[:300] for line in text.strip().splitlines()[-14:])
