"""A log as a file: without commands to a terminal, and given up where it cannot be written."""

import logging
import sys
from pathlib import Path

from speedproof.util.errors import explain_os_error
from speedproof.util.text import printable

log = logging.getLogger("speedproof")


class LogFormatter(logging.Formatter):
    """What is said, without commands to a terminal in the names that it holds."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n")


class FileOfLog(logging.FileHandler):
    """A log that is given up, with a word, where it cannot be written: nothing measured is lost for it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, as logging calls it
        """Write no more to it if the system refuses it."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        log.removeHandler(self)
        log.warning("%s; going on without this log", explain_os_error(error, Path(self.baseFilename)))
