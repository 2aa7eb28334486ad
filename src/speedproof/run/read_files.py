"""From a file that a program writes anyway to its epochs and qualities: CSV, JSON, JSON lines, MLPerf's log, TensorBoard's."""

import csv
import io
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from speedproof.config.reading import Reading
from speedproof.run.printed_times import subtract_times
from speedproof.run.read_lines import ReportedValue, check_length, parse_time, place_values, read_number
from speedproof.run.read_marks import MarkedEpoch, Marks
from speedproof.util.errors import RecordError, advise_install

_MLLOG = ":::MLLOG "
_EPOCH_BEGINS, _EPOCH_ENDS = ("epoch_start", "block_start"), ("epoch_stop", "block_stop")
Rows = Sequence[dict[str, Any]]


def read_file(place: Path, reading: Reading) -> Marks:
    """Read what a program wrote below `place`, or `{run}`: the newest file that the pattern `reading.file` matches.

    Rows with a value in column (or key) `epoch_s` are epochs; of MLPerf's log the epochs are those that it logs. Without either
    there are qualities only.

    Raises:
        RecordError: there is no such file, it cannot be understood, or a column that was named is not there.
    """
    pattern = (reading.file or "").removeprefix("{run}/")
    found = sorted((path for path in place.glob(pattern) if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise RecordError(f"file: the program left no {pattern} in its working folder; correct `reads.file`")
    name = found[-1].relative_to(place).as_posix()
    if IN_NAME in name:
        rows: Rows = read_scalars(found[-1], name)
    else:
        text = found[-1].read_text(encoding="utf-8", errors="replace")
        if _MLLOG in text:
            return _read_mllog(name, text, reading)
        rows = _read_rows(name, text)
    ended_s = found[-1].stat().st_mtime - time.time() + time.monotonic()
    cells = _list_cells(name, rows, reading.epoch_s, "epoch_s")
    times = [(order, parse_time(cell, "", reading.unit, name)) for order, cell in cells]
    if IN_NAME in name:  # its numbers are binary
        times = [(order, replace(one, resolution_s=0.0)) for order, one in times]
    qualities = _read_column(name, rows, reading.quality, "quality", ended_s)
    samples = _read_column(name, rows, reading.samples, "samples", ended_s)
    if reading.cumulative and times:
        epochs_s = subtract_times([one for _, one in times])
        times = [(order, one) for (order, _), one in zip(times[-len(epochs_s) :], epochs_s, strict=True)]
    for _, one in times:
        check_length(one.seconds, f"{name}: {reading.epoch_s}", "name another column")
    # When each epoch ended no row says: they ended one after the other, the last with the file.
    epochs, left_s = [], sum(one.seconds for _, one in times)
    for order, one in times:
        begun_s = ended_s - left_s
        epochs.append((order, MarkedEpoch(begun_s, None, begun_s + one.seconds, reported_s=one.seconds)))
        left_s -= one.seconds
    return place_values(epochs, qualities, samples, [one for _, one in times])


def _read_rows(name: str, text: str) -> Rows:
    """Return the rows of a CSV table, of JSON lines, or of a JSON list, which a Hugging Face trainer calls `log_history`."""
    try:
        if name.endswith((".json", ".jsonl", ".ndjson")) or text.lstrip().startswith(("{", "[")):
            return _read_json(text)
        return list(csv.DictReader(io.StringIO(text), strict=True))
    except (ValueError, csv.Error) as error:
        raise RecordError(f"{name}: is neither CSV nor JSON ({' '.join(str(error).split()):.80}); name another file") from None
    except RecursionError:
        raise RecordError(f"{name}: lists in lists a thousand deep; name another file") from None


def _read_json(text: str) -> Rows:
    try:
        read = json.loads(text)
    except ValueError:
        read = [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(read, dict):
        read = read.get("log_history", [read])
    if not isinstance(read, list) or not all(isinstance(row, dict) for row in read):
        raise ValueError("not a list of objects")
    return read


def _read_column(name: str, rows: Rows, column: str | None, key: str, at_s: float) -> list[ReportedValue]:
    cells = _list_cells(name, rows, column, key)
    return [ReportedValue(order, read_number(cell, key, name), at_s) for order, cell in cells]


def _list_cells(name: str, rows: Rows, column: str | None, key: str) -> list[tuple[int, str]]:
    """Return what stands in a column, with the number of its row."""
    if column is None:
        return []
    found = [(order, str(row[column])) for order, row in enumerate(rows) if row.get(column) not in (None, "")]
    if not found:
        known = ", ".join(dict.fromkeys(str(name) for row in rows for name in row))
        raise RecordError(f"{name}: no value in {column!r}; it has {known or 'no columns'}: correct `reads.{key}`")
    return found


def _read_mllog(name: str, text: str, reading: Reading) -> Marks:
    events = [_read_event(name, line) for line in text.splitlines() if _MLLOG in line]
    offset_s = time.monotonic() - time.time()
    epochs: list[tuple[int, MarkedEpoch]] = []
    qualities, begun = [], None
    for order, event in enumerate(events):
        at_s = event["time_ms"] / 1000 + offset_s
        if event.get("key") in _EPOCH_BEGINS:
            begun = at_s
        elif event.get("key") in _EPOCH_ENDS and begun is not None:
            epochs.append((order, MarkedEpoch(begun, None, at_s)))
            begun = None
        elif event.get("key") == (reading.quality or "eval_accuracy"):
            qualities.append(ReportedValue(order, read_number(str(event.get("value")), "quality", name), at_s))
    if not epochs:
        raise RecordError(f"{name}: logs no whole epoch ({_EPOCH_BEGINS[0]}, {_EPOCH_ENDS[0]}); name another file")
    if reading.quality and not qualities:
        raise RecordError(f"{name}: logs no {reading.quality}; correct `reads.quality`")
    return place_values(epochs, qualities, [])


def _read_event(name: str, line: str) -> dict[str, Any]:
    """Return an event of MLPerf's log, `time_ms` as a number."""
    try:
        event = json.loads(line.split(_MLLOG, 1)[1])
        return {**event, "time_ms": read_number(str(event["time_ms"]), "time_ms", line)}
    except (ValueError, TypeError, KeyError, RecursionError, RecordError):
        raise RecordError(f"{name}: {line[:60]!r} is no line of MLPerf's log; name another file") from None


IN_NAME = ".tfevents."
_PACKAGE = "tensorboard"


def read_scalars(path: Path, name: str) -> list[dict[str, Any]]:
    """Return a row for each scalar, in the order in which they were written: its tag and its value.

    Raises :class:`RecordError`, which calls the file by its `name`, where it cannot be read, or TensorBoard is not there.
    """
    try:
        loader = import_module(f"{_PACKAGE}.backend.event_processing.event_file_loader")
        tensors = import_module(f"{_PACKAGE}.util.tensor_util")
    except ImportError:
        raise RecordError(
            f"{name}: to read it takes TensorBoard; name a CSV file, or, {advise_install('tensorboard')}"
        ) from None
    rows = []
    try:
        for event in loader.EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                number = tensors.make_ndarray(value.tensor) if value.HasField("tensor") else None
                if number is not None and number.size == 1 and number.dtype.kind in "fiu":
                    rows.append({value.tag: number.item()})
    except Exception as error:  # of the library, of many kinds
        raise RecordError(f"{name}: TensorBoard cannot read it ({' '.join(str(error).split()):.80})") from None
    return rows
