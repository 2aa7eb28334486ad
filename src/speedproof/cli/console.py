"""What a command says: lines on stdout, and its log on stderr and in a file."""

import logging
import sys
from pathlib import Path

import typer

from speedproof.util.errors import StorageError, explain_os_error
from speedproof.util.line_width import find_width, fold
from speedproof.util.log_file import FileOfLog, LogFormatter, log
from speedproof.util.text import printable


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
