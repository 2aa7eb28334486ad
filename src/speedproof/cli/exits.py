"""How a command line runs, and how a user's mistake, or what the system refuses, ends it: in one line and an exit status."""

import io
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

from speedproof.cli import INTERRUPTED_STATUS
from speedproof.cli.options import USAGE_ERROR, HelpfulCommand, asks_for_json, explain_usage, name_command, take_own_words
from speedproof.util.errors import ConfigError, SpeedproofError, StorageError, explain_os_error
from speedproof.util.failure_reasons import leave_reason
from speedproof.util.log_file import FileOfLog, LogFormatter, log
from speedproof.util.text import find_width, fold, printable


def say(text: str, err: bool = False) -> None:
    """Print a line, whatever stands in the names that it holds; on a terminal it is broken between words."""
    typer.echo(fold(printable(text), find_width(sys.stderr if err else sys.stdout)), err=err)


def start_log(path: Path | None) -> None:
    """Say what happens on stderr and, with a path, in a file too."""
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if path:
        if path.is_fifo():  # to open it would wait for a reader
            raise StorageError(f"{path}: is a pipe; name a file")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handlers.append(FileOfLog(path, mode="w", encoding="utf-8"))
        except OSError as error:
            raise explain_os_error(error, path) from None
    for handler in handlers:
        handler.setFormatter(LogFormatter())
    log.handlers = handlers
    log.setLevel(logging.INFO)
    log.propagate = False


# The exit status of `prove` without a verdict: 1 and 2 are verdicts.
NO_VERDICT = 3
# In a proof's folder: the traceback of an unexpected error.
ERROR_FILE = "error.txt"


def print_error(error: SpeedproofError) -> None:
    """Print an error as JSON, in place of a verdict."""
    from speedproof.run.proof.verdict import Verdict

    print_json_error(error, Verdict.model_fields["schema_version"].default)


def print_json_error(error: SpeedproofError, version: int | None = None) -> None:
    """Print an error as JSON, in place of a result whose schema has this version."""
    from json import dumps

    versioned = {} if version is None else {"schema_version": version}
    found = {**versioned, "outcome": "error", "exit_status": NO_VERDICT, "message": str(error)}
    typer.echo(dumps(found, indent=1))


def print_nothing(_: SpeedproofError) -> None:
    """Leave an error to stderr."""


class ProofCommand(HelpfulCommand):
    """A command whose exit status is a verdict: a command line that cannot be understood ends it in one line and with none."""

    print_as_json: Callable[[SpeedproofError], None] = staticmethod(print_error)

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **others: Any) -> Any:
        """Read the command line."""
        prints_json = any("--json" in parameter.opts for parameter in self.params) and asks_for_json(args)
        with ending_as_proof(tell=self.print_as_json if prints_json else print_nothing):
            try:
                return super().make_context(info_name, list(args), *more, **others)
            except USAGE_ERROR as error:
                called = name_command(info_name, others.get("parent"))
                raise ConfigError(f"{called}: {explain_usage(error, self, called)}") from None


# What click ends a command by, each with a status of its own.
_ENDINGS = (typer.Exit, typer.Abort, USAGE_ERROR)


@contextmanager
def explaining_errors(folder: Path | None = None) -> Iterator[None]:
    """Let an error that nobody foresaw end in one line, too, with the status of no verdict: others are verdicts.

    Its traceback is left in `folder`, if that is there.
    """
    try:
        yield
    except (SpeedproofError, OSError, *_ENDINGS):
        raise
    except UnicodeError as error:
        named = error.object if isinstance(error, UnicodeEncodeError) else ""
        raise _without_verdict(ConfigError(f"{named!r:.80}: not valid UTF-8; rename or rewrite it")) from None
    except Exception as error:
        text = f"unexpected {type(error).__name__}: {error}"[:300]
        raise _without_verdict(
            SpeedproofError(f"{text}; report it to the maintainers, with {_keep_traceback(error, folder)}")
        ) from None


def _keep_traceback(error: Exception, folder: Path | None) -> str:
    """Return the file that keeps an error's traceback, else the line of code that raised it."""
    if folder and folder.is_dir():
        with suppress(OSError):
            (folder / ERROR_FILE).write_text("".join(traceback.format_exception(error)), encoding="utf-8")
            return str(folder / ERROR_FILE)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}, line {last.lineno}"


@contextmanager
def ending_as_proof(folder: Path | None = None, tell: Callable[[SpeedproofError], None] = print_nothing) -> Iterator[None]:
    """End on any error with one line and the status of no verdict, after `tell` received it.

    The traceback of an unexpected error is written to `folder`, if that exists.
    """
    try:
        try:
            with explaining_errors(folder):
                yield
                sys.stdout.flush()  # output that cannot be written is not a verdict
        except BrokenPipeError:
            raise
        except (SpeedproofError, OSError) as error:
            explained = error if isinstance(error, SpeedproofError) else explain_os_error(error)
            _drop_output()  # else what a full disk refused fails again when the program ends, with another status
            tell(explained)
            raise _without_verdict(explained) from None
    except BrokenPipeError:
        _drop_output()
        sys.exit(NO_VERDICT)
    except OSError as error:  # of `tell`
        raise _without_verdict(explain_os_error(error)) from None


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
        words = sys.argv[1:]
        tell = print_error if words[:1] != ["init"] and asks_for_json(words) else print_nothing
        with ending_as_proof(tell=tell) if _ends_as_proof(words) else nullcontext():
            _refuse_empty_words(words)
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # nobody reads any more, as behind `| head`
        _drop_output()
        sys.exit(1)
    except SpeedproofError as error:
        _end(error)
    except OSError as error:
        _drop_output()
        _end(explain_os_error(error))
    except SystemExit as ended:
        if ended.code == INTERRUPTED_STATUS:
            sys.stderr.write("speedproof: interrupted\n")
        raise


_JUDGING = (["results", "show"], ["ledger", "run"], ["ledger", "show"])


def _ends_as_proof(words: list[str]) -> bool:
    """Return whether a command line is of a :class:`ProofCommand`."""
    return words[:1] in (["prove"], ["gate"], ["bisect"], ["init"], ["verdict"]) or words[:2] in _JUDGING


def _drop_output() -> None:
    """Write what cannot be printed nowhere: the interpreter would fail on it again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse_empty_words(words: list[str]) -> None:
    """Reject an empty value, for example of an unset variable: as a path it would be the working folder."""
    own = take_own_words(words)
    for before, word in zip(["", *own], own, strict=False):
        if word == "" or re.fullmatch(r"--[\w-]+=", word):
            option = word.rstrip("=") or before
            raise ConfigError(
                f"{option or 'command line'}: empty value; is a shell variable unset? Write the value, or leave it out"
            )


def _replace_closed_streams() -> None:
    """Put the null device where a job was started with a stream closed: the next file opened would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _end(error: SpeedproofError) -> NoReturn:
    """Print and log an error, leave it for a process that waits for the workflow, and exit."""
    leave_reason(error)
    with suppress(OSError):  # its terminal may be gone
        sys.stderr.write(f"speedproof: {error}\n")
    files = [handler for handler in log.handlers if isinstance(handler, logging.FileHandler)]
    log.handlers = [logging.NullHandler(), *files]  # with none at all, logging would print it again
    log.error("%s", error)
    sys.exit(error.exit_code)
