"""The cells of an executed notebook, which hold what a program printed."""

import json

from pydantic import ValidationError

from speedproof.config.reading import Reading
from speedproof.run.epoch_reports import Marks
from speedproof.run.printed_output import LineClock
from speedproof.run.read_lines import read_lines
from speedproof.util.errors import RecordError

NOTEBOOK = ".ipynb"


def read_notebook(name: str, written: bytes, reading: Reading, ended_s: float) -> Marks:
    """Read the lines below a notebook's cells by the patterns of `reading`; all came when the notebook was written.

    Raises:
        RecordError: it is not a notebook, or a pattern finds nothing in it.
    """
    asked = {"source": "lines", **reading.model_dump(exclude={"source", "file"})}
    try:
        patterns = Reading.model_validate(asked)
    except ValidationError:
        raise RecordError(
            f"{name}: a notebook is read by a pattern with one (group), as printed lines are: --epoch-s 'took (\\S+) s'"
        ) from None
    clock = LineClock(patterns.patterns)
    try:
        for cell in json.loads(written)["cells"]:
            for output in cell.get("outputs", []):
                text = output.get("text") or output.get("data", {}).get("text/plain") or ""
                clock.take(("".join(text) + "\n").encode(), ended_s)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise RecordError(f"{name}: is not a notebook; name another file") from None
    return read_lines(clock.close(ended_s), patterns)
