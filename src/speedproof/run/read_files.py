"""From a file that a program writes anyway to its epochs and qualities: CSV, JSON, JSON lines, MLPerf's log, TensorBoard's."""

import csv
import io
import json
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from speedproof.config.reading import Reading
from speedproof.run.epoch_reports import EpochSource, MarkedEpoch, Marks, ReportedValue, Reports, place_values
from speedproof.run.printed_times import PrintedTime, subtract_times
from speedproof.run.read_lines import check_length, mark_sample, parse_rate, parse_time, read_number
from speedproof.run.read_notebook import NOTEBOOK, read_notebook
from speedproof.run.watched_file import FileWatch
from speedproof.run.whole_numbers import join_thousands
from speedproof.util.errors import RecordError, advise_install

_MLLOG = ":::MLLOG "
_EPOCH_KEYS, _BLOCK_KEYS = ("epoch_start", "epoch_stop"), ("block_start", "block_stop")
Rows = Sequence[dict[str, Any]]


def read_file(place: Path, reading: Reading, watch: FileWatch | None = None) -> Marks:
    """Read what a program wrote below `place`, or `{run}`: the newest file that the pattern `reading.file` matches.

    Rows with a value in column (or key) `epoch_s` are epochs; of MLPerf's log the epochs are those that it logs; of a table as
    Lightning writes it, they are what its column `epoch` counts. Without any of these there are qualities only. `watch` knows
    what was there before the run, which is not read, and when each row came.

    Raises:
        RecordError: there is no such file, the run did not write it, it cannot be understood, or a column that was named is not
            there.
    """
    watch = watch or FileWatch(place, (reading.file or "").removeprefix("{run}/"))
    found = watch.find_written()
    name = found.relative_to(place).as_posix()
    earlier = watch.count_earlier(found)
    ends: Sequence[int] | None = None
    if IN_NAME in name:
        rows: Rows = read_scalars(found, name)
    else:
        written = found.read_bytes()
        if name.endswith(NOTEBOOK):
            return read_notebook(name, written, reading, found.stat().st_mtime - time.time() + time.monotonic())
        if _MLLOG.encode() in written:
            return _read_mllog(name, written, earlier, reading, partial(watch.find_moment, found))
        asked = {reading.epoch_s, reading.rate, reading.quality, reading.samples}
        rows, ends = _read_rows(name, written, asked)
        if ends is not None and earlier:
            rows, ends = rows[bisect_right(ends, earlier) :], ends[bisect_right(ends, earlier) :]
    ended_s = found.stat().st_mtime - time.time() + time.monotonic()
    qualities = _read_column(name, rows, reading.quality, "--quality", ended_s)
    samples = _read_column(name, rows, reading.samples, "samples", ended_s)
    times = _read_rates(name, rows, reading.rate) if reading.rate else _read_times(name, rows, reading)
    # When each epoch ended no row says: they ended one after the other, the last with the file.
    epochs, left_s = [], sum(one.seconds for _, one in times)
    for order, one in times:
        begun_s = ended_s - left_s
        seen_s = None if ends is None else watch.find_moment(found, ends[order])
        if reading.rate:
            epochs.append((order, mark_sample(one, begun_s + one.seconds, seen_s)))
        else:
            ends_s = begun_s + one.seconds
            epochs.append((order, MarkedEpoch(begun_s, None, ends_s, reported_s=one.seconds, end_seen_s=seen_s)))
        left_s -= one.seconds
    if ends is not None and not (reading.rate or reading.epoch_s):
        epochs = _read_counted(rows, [watch.find_moment(found, end) for end in ends])
    return replace(place_values(epochs, qualities, samples, [one for _, one in times]), rates=reading.rate is not None)


def _read_counted(rows: Rows, moments_s: Sequence[float | None]) -> list[tuple[int, MarkedEpoch]]:
    """Return the epochs of a table that names the epoch and the step of each row, by the `moments_s` at which rows came.

    An epoch lasts from the last row of the one before to its own, whatever else is logged in it. If some come together, there
    are none.
    """
    last = {row["epoch"]: order for order, row in enumerate(rows) if row.get("epoch") and row.get("step") and not _is_test(row)}
    found: list[tuple[int, MarkedEpoch]] = []
    for before, order in pairwise(last.values()):
        begun_s, ended_s = moments_s[before], moments_s[order]
        if begun_s is None or ended_s is None or begun_s >= ended_s:
            return []
        found.append((order, MarkedEpoch(begun_s, None, ended_s, begin_seen_s=begun_s, end_seen_s=ended_s)))
    return found


def _is_test(row: dict[str, Any]) -> bool:
    """Return whether a row holds a test's results only: it names an epoch that is never trained."""
    return all(name.startswith("test") for name, cell in row.items() if cell and name not in ("epoch", "step"))


def _read_rates(name: str, rows: Rows, column: str) -> list[tuple[int, PrintedTime]]:
    """Return the time of one sample by each rate, with the number of its row."""
    times = [(order, parse_rate(cell, name)) for order, cell in _list_cells(name, rows, column, "--rate")]
    return [(order, replace(one, resolution_s=0.0)) for order, one in times] if IN_NAME in name else times


def _read_times(name: str, rows: Rows, reading: Reading) -> list[tuple[int, PrintedTime]]:
    """Return the epochs' times, each with the number of its row."""
    cells = _list_cells(name, rows, reading.epoch_s, "--epoch-s")
    times = [(order, parse_time(cell, "", reading.unit, name)) for order, cell in cells]
    if IN_NAME in name:  # its numbers are binary
        times = [(order, replace(one, resolution_s=0.0)) for order, one in times]
    if reading.cumulative and times:
        epochs_s = subtract_times([one for _, one in times])
        times = [(order, one) for (order, _), one in zip(times[-len(epochs_s) :], epochs_s, strict=True)]
    for _, one in times:
        check_length(one.seconds, f"{name}: {reading.epoch_s}", "name another column")
    return times


def _read_rows(name: str, written: bytes, asked: Collection[str | None]) -> tuple[Rows, Sequence[int] | None]:
    """Return the rows of a CSV table, of JSON lines, or of a JSON list, which a Hugging Face trainer calls `log_history`.

    With them comes at which byte each ends; None for a list, which is rewritten for each row. `asked` are the columns to read.
    """
    lines = written.splitlines(keepends=True)
    text = "\n".join(line.decode("utf-8", "replace").rstrip("\r\n") for line in lines).removeprefix("\ufeff")
    ends = list(accumulate(map(len, lines)))
    try:
        if name.endswith((".json", ".jsonl", ".ndjson")) or text.lstrip().startswith(("{", "[")):
            return _read_json(text, ends)
        return _read_table(name, text, ends, asked)
    except (ValueError, csv.Error) as error:
        raise RecordError(f"{name}: is neither CSV nor JSON ({' '.join(str(error).split()):.80}); name another file") from None
    except RecursionError:
        raise RecordError(f"{name}: nested too deeply; name another file") from None


def _read_table(name: str, text: str, ends: Sequence[int], asked: Collection[str | None]) -> tuple[Rows, Sequence[int]]:
    table = csv.DictReader(io.StringIO(text), strict=True, skipinitialspace=True)
    table.fieldnames = columns = [column.strip() for column in table.fieldnames or []]
    if twice := next((column for column in columns if column in asked and columns.count(column) > 1), None):
        raise RecordError(f"{name}: {columns.count(twice)} columns are called {twice!r}; rename the others")
    rows = []
    for row in table:
        more: Any = row.pop(None, ())
        if any(more):  # a comma may end each row
            raise RecordError(
                f"{name}: line {table.line_num} has more cells than the header; write decimal points, or quote commas"
            )
        rows.append((row, ends[min(table.line_num, len(ends)) - 1]))
    return [row for row, _ in rows], [end for _, end in rows]


def _read_json(text: str, ends: Sequence[int]) -> tuple[Rows, Sequence[int] | None]:
    places: Sequence[int] | None = None
    try:
        read = json.loads(text)
    except ValueError:
        lines = [(line, end) for line, end in zip(text.split("\n"), ends, strict=False) if line.strip()]
        read, places = [json.loads(line) for line, _ in lines], [end for _, end in lines]
    if isinstance(read, dict):
        read = read.get("log_history", [read])
    if not isinstance(read, list) or not all(isinstance(row, dict) for row in read):
        raise ValueError("not a list of objects")
    return read, places


def _read_column(name: str, rows: Rows, column: str | None, key: str, at_s: float) -> list[ReportedValue]:
    cells = _list_cells(name, rows, column, key)
    return [ReportedValue(order, read_number(cell, key, name), at_s) for order, cell in cells]


def _list_cells(name: str, rows: Rows, column: str | None, key: str) -> list[tuple[int, str]]:
    """Return what stands in a column, with the number of its row."""
    if column is None:
        return []
    cells = [(order, str(row[column])) for order, row in enumerate(rows) if row.get(column) not in (None, "")]
    found = [(order, join_thousands(cell, f"{name}: {column}")) for order, cell in cells]
    if not found:
        known = ", ".join(dict.fromkeys(str(name) for row in rows for name in row))
        raise RecordError(f"{name}: no value in {column!r}; it has {known or 'no columns'}: correct {key}")
    return found


def _read_mllog(name: str, written: bytes, earlier: int, reading: Reading, find_moment: Callable[[int], float | None]) -> Marks:
    """Return what MLPerf's log says after its `earlier` bytes; `find_moment` tells when so many bytes were there."""
    lines = written.splitlines(keepends=True)
    placed = zip((line.decode("utf-8", "replace") for line in lines), accumulate(map(len, lines)), strict=True)
    found = [(line, end) for line, end in placed if _MLLOG in line and end > earlier]
    events = [_read_event(name, line.rstrip("\r\n")) for line, _ in found]
    logged = {event.get("key") for event in events}
    start, stop = _EPOCH_KEYS if logged.issuperset(_EPOCH_KEYS) else _BLOCK_KEYS  # a block may hold several epochs
    offset_s = time.monotonic() - time.time()
    epochs: list[tuple[int, MarkedEpoch]] = []
    qualities, begun_ms = [], None
    for order, (event, (_, end)) in enumerate(zip(events, found, strict=True)):
        at_ms = event["time_ms"]
        at_s = at_ms / 1000 + offset_s
        if event.get("key") == start:
            if begun_ms is not None:
                raise RecordError(f"{name}: a second {start} before {stop}; log both for each epoch, from one process")
            begun_ms = at_ms
        elif event.get("key") == stop and begun_ms is not None:
            check_length((at_ms - begun_ms) / 1000, name, f"correct time_ms of {start} and {stop}")
            epochs.append((order, MarkedEpoch(begun_ms / 1000 + offset_s, None, at_s, end_seen_s=find_moment(end))))
            begun_ms = None
        elif event.get("key") == (reading.quality or "eval_accuracy"):
            qualities.append(ReportedValue(order, read_number(str(event.get("value")), "--quality", name), at_s))
    if not epochs:
        raise RecordError(f"{name}: logs no whole epoch ({', '.join(_EPOCH_KEYS)}); name another file")
    if reading.quality and not qualities:
        raise RecordError(f"{name}: logs no {reading.quality}; correct --quality")
    return place_values(epochs, qualities, [])


def _read_event(name: str, line: str) -> dict[str, Any]:
    """Return an event of MLPerf's log, `time_ms` as a number."""
    try:
        event = json.loads(line.split(_MLLOG, 1)[1])
        return {**event, "time_ms": read_number(str(event["time_ms"]), "time_ms", line)}
    except (ValueError, TypeError, KeyError, RecursionError, RecordError):
        raise RecordError(f"{name}: {line[:60]!r} is not a line of an MLPerf log; name another file") from None


IN_NAME = ".tfevents."
_PACKAGE = "tensorboard"


def read_scalars(path: Path, name: str) -> list[dict[str, Any]]:
    """Return a row for each scalar, in the order in which they were written: its tag and its value.

    Raises :class:`RecordError`, which calls the file by its `name`, if it cannot be read, or TensorBoard is missing.
    """
    try:
        loader = import_module(f"{_PACKAGE}.backend.event_processing.event_file_loader")
        tensors = import_module(f"{_PACKAGE}.util.tensor_util")
    except ImportError:
        raise RecordError(
            f"{name}: reading it requires TensorBoard; name a CSV file, or, {advise_install('tensorboard')}"
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


def _read(reports: Reports, reading: Reading) -> Marks:
    return replace(read_file(reports.place, reading, reports.file), unseen="file")


FILE_SOURCE = EpochSource("file", "file", _read, seen="when its file grows")
