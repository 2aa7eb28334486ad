"""How a command line runs, and how a user's mistake, or what the system refuses, ends it: in one line and an exit status."""

import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

from speedproof.cli.options import USAGE_ERROR, RenamedOptionsCommand
from speedproof.cli.saying import log
from speedproof.common.errors import ConfigError, SpeedproofError, explain_os_error

# What `prove` ends with where there is no verdict: 1 and 2 are verdicts.
NO_VERDICT = 3


class ProofCommand(RenamedOptionsCommand):
    """A command whose exit status is a verdict: of a command line that cannot be understood it is none."""

    def make_context(self, *words: Any, **more: Any) -> Any:
        """Read the command line."""
        try:
            return super().make_context(*words, **more)
        except USAGE_ERROR as error:
            error.exit_code = NO_VERDICT  # type: ignore[attr-defined]
            raise


@contextmanager
def ending_as_proof() -> Iterator[None]:
    """Let a user's mistake, and what the system refuses, end in one line, as everywhere, and with the status of no verdict."""
    try:
        yield
        sys.stdout.flush()  # what nobody reads, or has no room, is no verdict either
    except SpeedproofError as error:
        raise _without_verdict(error) from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise _without_verdict(explain_os_error(error)) from None
    except UnicodeError as error:
        named = error.object if isinstance(error, UnicodeEncodeError) else ""
        raise _without_verdict(ConfigError(f"{named!r:.80}: no name or word that UTF-8 has; rename or rewrite it")) from None


def _without_verdict(error: SpeedproofError) -> SpeedproofError:
    error.exit_code = NO_VERDICT
    return error


def run_app(app: typer.Typer) -> None:
    """Run a command line; a user's mistake, and what the system refuses, ends in one line and its exit code."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale may lack signs as ×
    try:
        with ending_as_proof() if sys.argv[1:2] in (["prove"], ["init"]) else nullcontext():
            _refuse_empty_words(sys.argv[1:])
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # nobody reads any more, as behind `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter says so at its end
        sys.exit(1)
    except SpeedproofError as error:
        _end(error)
    except OSError as error:
        _end(explain_os_error(error))
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            sys.stderr.write("speedproof: interrupted\n")
        raise


def _refuse_empty_words(words: list[str]) -> None:
    """Refuse a value of nothing, as of a variable that is not set: for a path it would be the working folder."""
    own = words[: words.index("--")] if "--" in words else words
    for before, word in zip(["", *own], own, strict=False):
        if word == "" or re.fullmatch(r"--[\w-]+=", word):
            option = word.rstrip("=") or before
            raise ConfigError(
                f"{option or 'command line'}: an empty value; is a variable not set? Write the value, or leave it out"
            )


def _replace_closed_streams() -> None:
    """Put the null device where a job was started with a stream closed: the next file opened would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


_INTERRUPTED = 130  # as typer ends on Ctrl-C


def _end(error: SpeedproofError) -> NoReturn:
    """Say what went wrong, in the log too where there is one, and end."""
    with suppress(OSError):  # its terminal may be gone
        sys.stderr.write(f"speedproof: {error}\n")
    files = [handler for handler in log.handlers if isinstance(handler, logging.FileHandler)]
    log.handlers = [logging.NullHandler(), *files]  # with none at all, logging would say it again
    log.error("%s", error)
    sys.exit(error.exit_code)
