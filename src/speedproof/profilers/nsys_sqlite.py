"""The one place that opens an SQLite export of Nsight Systems: what it holds is read, or refused in one line.

An export may come from anybody. It is opened for reading only, and nothing in it is run: only plain tables are read, no views,
virtual tables or generated columns, and no index. What SQLite would pass over in silence (a write-ahead log beside the file, a
page that stands twice or is lost) is looked for.
"""

import sqlite3
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from speedproof.profilers.event_tables import Integers
from speedproof.util.errors import RecordError

ROWS_AT_ONCE = 1 << 18  # read in one go: about 50 MB of text
MISSING = np.iinfo(np.int64).min  # stands for SQL's NULL
_NO_NUMBER = -1  # the same while it is read as text, short; whether the file holds it is looked for

_LONGEST_REASON = 160  # characters
_AGAIN = "run `nsys export` again"

# What reading a file may take, by its size: pages that point at each other could be read for ever.
_TEXT_SPARE = 16 << 20  # bytes that the numbers of a chunk take as text: a number of few bits has many digits
_STEPS_PER_BYTE = 100  # of SQLite's machine
_SPARE_STEPS = 50_000_000
_STEPS_AT_ONCE = 1_000_000  # between two looks
_FIRST_ROW = -(1 << 63)  # the least number that a row can have
_JOURNAL_MARK = 28  # bytes: the head of a journal; all zero in one that is done with

_SETTINGS = ["trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"]


class ExportFile:
    """An export's tables and columns by name. Whatever cannot be read right is a :class:`RecordError` of one line.

    Tables and columns come and go between versions: an absent table is empty, what it means that a column is absent is for
    the caller to say.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.advance: Callable[[int], None] = lambda rows: None  # receives how many rows were read
        self._state = _check_file(path)
        self._refused: dict[str, str] = {}
        with self._open() as connection:
            self._tables = dict(self._list_tables(connection))

    def damaged(self, reason: str) -> RecordError:
        return RecordError(self.path, f": damaged ({reason[:_LONGEST_REASON]}); {_AGAIN}")

    def check_unchanged(self) -> None:
        """Raise a :class:`RecordError` where the file was written to since it was opened: what was read is of no one moment."""
        if _check_file(self.path) != self._state:
            raise RecordError(self.path, ": changed while it was read; wait until it is written, then try again")

    @property
    def tables(self) -> set[str]:
        """Return the tables' names, in small letters."""
        return set(self._tables)

    def has(self, table: str, *columns: str) -> bool:
        """Return whether there is such a table with all of these columns; one that is not read is an error."""
        if why := self._refused.get(table.casefold()):
            raise RecordError(self.path, f": {table} {why}, unlike in an export of nsys; {_AGAIN}")
        known = self._tables.get(table.casefold(), set())
        return table.casefold() in self._tables and {column.casefold() for column in columns} <= known

    def holds_rows(self, table: str, where: str = "TRUE") -> bool:
        if not self.has(table):
            return False
        with self._open() as connection:
            return connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table} NOT INDEXED WHERE {where})").fetchone()[0] == 1

    def count_rows(self, table: str) -> int:
        """Return about how many rows a table has, at once: the number of its last one."""
        if not self.has(table):
            return 0
        with self._open() as connection:
            return max(connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0, 0)

    def select(self, table: str, **kinds: Any) -> Iterator[tuple[Any, ...]]:
        """Read a small table's columns, each of the given type (or union of types); no rows if one is absent."""
        if not self.has(table, *kinds):
            return
        with self._open() as connection:
            rows = connection.execute(f"SELECT {', '.join(kinds)} FROM {table} NOT INDEXED")
            for number, row in enumerate(rows, start=1):
                for (column, kind), value in zip(kinds.items(), row, strict=True):
                    if not isinstance(value, kind):
                        raise self.damaged(f"{table}, row {number}: {column} is {_describe(value)}")
                yield row

    def select_map(self, table: str, key: str, value: str, kind: Any) -> dict[int, Any]:
        """Read a table that gives each number its value; one that stands twice with two values is damage."""
        found: dict[int, Any] = {}
        for number, content in self.select(table, **{key: int, value: kind}):
            if found.setdefault(number, content) != content:
                raise self.damaged(f"{table}: {key} {number} stands twice")
        return found

    def read_integers(self, table: str, columns: Iterable[str]) -> dict[str, Integers]:
        """Read integer columns of a table, row by row in the table's order; :data:`MISSING` for null.

        SQLite joins each column's numbers to one text and NumPy reads that: three times as fast as fetching rows.
        """
        columns = [*columns]
        # A short number stands for none as long as it is text; where the file holds it, the one that no event has.
        for no_number in (_NO_NUMBER, MISSING):
            found = self._read_integers(table, columns, no_number)
            if not isinstance(found, str):
                return found
        raise self.damaged(f"{table}.{found} holds {MISSING}, which no event has")

    def _read_integers(self, table: str, columns: list[str], no_number: int) -> dict[str, Integers] | str:
        """Read the columns, `no_number` standing for none; return the name of one that holds it, or :data:`MISSING`."""
        present = [column for column in columns if self.has(table, column)]
        joined = [f"group_concat(ifnull({column}, {no_number}))" for column in present]
        parts: dict[str, list[Integers]] = {column: [] for column in columns}
        length, absent = 0, dict.fromkeys(present, 0)
        for rows, texts in self._read_chunks(table, present, joined):
            for column, text in zip(present, texts, strict=True):
                numbers = self._parse_integers(text, rows, f"{table}.{column}")
                if no_number != MISSING and (numbers == MISSING).any():
                    return column
                missing = numbers == no_number
                absent[column] += int(np.count_nonzero(missing))
                numbers[missing] = MISSING
                parts[column].append(numbers)
            length += rows
        fuller = self._find_fuller(table, {column: length - count for column, count in absent.items() if count})
        if fuller is not None:
            return fuller
        # Each column's parts are let go of as it is joined: all of them together are gigabytes of a large trace.
        return {column: np.concatenate(parts.pop(column)) if length else np.empty(0, np.int64) for column in present} | {
            column: np.broadcast_to(np.int64(MISSING), length) for column in columns if column not in present
        }

    def _find_fuller(self, table: str, there: dict[str, int]) -> str | None:
        """Return the first of these columns that holds more numbers than so many."""
        if not there:
            return None
        with self._open() as connection:
            counted = ", ".join(f"count({column})" for column in there)
            counts = connection.execute(f"SELECT {counted} FROM {table} NOT INDEXED").fetchone()
        return next((column for (column, count), found in zip(there.items(), counts, strict=True) if found != count), None)

    def read_texts(self, table: str, column: str) -> Iterator[pa.StringArray]:
        """Read a text column in chunks, row by row in the table's order.

        SQLite joins the texts, and their lengths, to one each: Arrow keeps texts in the same way, and so no row is touched.
        """
        joined = [f"group_concat(ifnull(length(CAST({column} AS BLOB)), -1))", f"group_concat({column}, '')"]
        for rows, (lengths, text) in self._read_chunks(table, [column], joined) if self.has(table, column) else []:
            length = self._parse_integers(lengths, rows, f"the lengths of {table}.{column}")
            if int(np.maximum(length, 0).sum()) != len(text or b""):
                raise self.damaged(f"the texts of {table}.{column} differ from their lengths")
            yield _cut_texts(text or b"", length)

    def _read_chunks(self, table: str, columns: list[str], joined: list[str]) -> Iterator[tuple[int, list[Any]]]:
        """Read a table's joined columns, :data:`ROWS_AT_ONCE` rows at a time; yield how many rows, and the texts.

        nsys numbers the rows of its tables without gaps: then a chunk is what lies between two numbers, which SQLite reads
        faster than so many rows. Numbers that do not rise reveal duplicate pages.
        """
        if not columns:
            return
        asked = f"SELECT count(*), min({{row}}), max({{row}}), total({{row}}), {', '.join(joined)} FROM "
        between = asked.format(row="rowid") + f"{table} NOT INDEXED WHERE rowid BETWEEN ? AND ?"
        chunk = f"""
            (SELECT rowid AS row, {", ".join(columns)} FROM {table} NOT INDEXED
             WHERE rowid >= ? ORDER BY rowid LIMIT {ROWS_AT_ONCE})
        """
        gathered = asked.format(row="row") + chunk
        start, lost = None, 0
        with self._open() as connection:
            connection.text_factory = bytes
            # Each by itself is looked up, both in one would be looked for.
            lowest, highest = (
                connection.execute(f"SELECT {which}(rowid) FROM {table} NOT INDEXED").fetchone()[0] for which in ("min", "max")
            )
            while True:
                begin = lowest if start is None else start
                end = begin if lowest is None else min(begin + ROWS_AT_ONCE - 1, highest)
                found = None if lowest is None or begin > end else connection.execute(between, (begin, end)).fetchone()
                if found is None or found[0] != end - begin + 1:  # the end of the table, or rows are missing or stand twice
                    place = (_FIRST_ROW if start is None else start,)
                    found = connection.execute(gathered, place).fetchone()
                rows, first, last, total, *texts = found
                if not rows:
                    break
                if last - first + 1 != rows or total != (first + last) * rows / 2:
                    (text,) = connection.execute(f"SELECT group_concat(row) FROM {chunk}", place).fetchone()
                    if (np.diff(self._parse_integers(text, rows, f"{table}.rowid")) <= 0).any():
                        raise self.damaged(f"{table}: rows stand twice or out of order")
                lost += last - (first if start is None else start) + 1 - rows
                yield rows, texts
                self.advance(rows)
                start = last + 1
        if lost:
            self.warn(f"{table} lacks {lost} rows: their numbers are left out")

    def warn(self, text: str) -> None:
        """Note what a reader must know; once, though a table may be read twice."""
        if text not in self.warnings:
            self.warnings.append(text)

    def warn_of(self, which: np.ndarray, what: str) -> None:
        """Note how many rows `which` tells are what they should not be, if any is."""
        if count := int(which.sum()):
            self.warn(f"{count} {what}")

    def _parse_integers(self, text: bytes, rows: int, what: str) -> Integers:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # how older NumPy reports a value that is not an integer
            try:
                numbers = np.fromstring(text, dtype=np.int64, sep=",")
            except (DeprecationWarning, ValueError):
                numbers = np.empty(0, np.int64)
        # NumPy reads a lone sign as 0 and passes over blanks.
        if len(numbers) != rows or text.endswith(b"-") or any(sign in text for sign in (b"-,", b"+", b" ", b"\t", b"\n")):
            raise self.damaged(f"{what}: a number was expected, not text")
        return numbers

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of this thread's own, which reads and runs nothing."""
        uri = f"{self.path.resolve().as_uri()}?mode=ro&immutable=1"
        steps_left = _SPARE_STEPS + _STEPS_PER_BYTE * self._state[0]

        def stop_at_last() -> bool:
            nonlocal steps_left
            steps_left -= _STEPS_AT_ONCE
            return steps_left < 0

        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                connection.text_factory = _decode
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(self._state[0] + _TEXT_SPARE, 1_000_000_000))
                connection.set_progress_handler(stop_at_last, _STEPS_AT_ONCE)
                for setting in _SETTINGS:
                    connection.execute(f"PRAGMA {setting}")
                yield connection
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:  # the last: of SQLite's own message
            reason = " ".join(str(error).split())  # SQLite may repeat a whole table's definition
            raise self.damaged("it holds more rows than bytes" if reason == "interrupted" else reason) from None

    def _list_tables(self, connection: sqlite3.Connection) -> Iterator[tuple[str, set[str]]]:
        """Yield each plain table's name and its columns, and note what else has a name, and why it is not read.

        All in lower case: SQL makes no difference.
        """
        pages: dict[int, str] = {}
        for name, kind, page, sql in connection.execute("SELECT name, type, rootpage, sql FROM sqlite_master").fetchall():
            if kind in ("index", "trigger"):
                continue
            if not isinstance(name, str):
                raise self.damaged("a table without a name")
            # SQLite keeps a table's definition under these very words.
            if kind != "table" or not page or not str(sql).startswith("CREATE TABLE "):
                self._refused[name.casefold()] = "is a view or a virtual table, and not read"
                continue
            if page in pages:
                raise self.damaged(f"{name} and {pages[page]} are one table")
            pages[page] = name
            quoted = name.replace('"', '""')
            columns = [(row[1], row[6]) for row in connection.execute(f'PRAGMA table_xinfo("{quoted}")')]
            if any(hidden for _, hidden in columns):
                self._refused[name.casefold()] = "has generated columns, and is not read"
            elif any(column.lower() == "rowid" for column, _ in columns):
                self._refused[name.casefold()] = "has a column rowid, and is not read"
            yield name.casefold(), {column.casefold() for column, _ in columns}


def _check_file(path: Path) -> tuple[int, int]:
    """Return the size and time of an SQLite file; raise a :class:`RecordError` unless it is one, whole, and all there is."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise RecordError(path, ": no regular file; give the file that `nsys export --type=sqlite` wrote")
        header = _read_head(path, 100)
        for name, advice in (
            ("wal", "let SQLite write it back (`PRAGMA wal_checkpoint`)"),
            ("journal", "let SQLite roll it back"),
        ):
            beside = Path(f"{path.resolve()}-{name}")
            if beside.is_file() and any(_read_head(beside, _JOURNAL_MARK)):
                raise RecordError(
                    path,
                    f": {beside.name} lies beside it, with rows that are not in it yet; "
                    f"{advice} where the file was written, or {_AGAIN}",
                )
    except (OSError, RuntimeError, ValueError) as error:  # also a loop of links, and a name that holds no name
        raise RecordError(path, f": not readable ({getattr(error, 'strerror', None) or error}); {_AGAIN}") from None
    if not header.startswith(b"SQLite format 3\0"):
        raise RecordError(path, ": not an SQLite file; make one from the report with `nsys export --type=sqlite`")
    expected = _size_by_header(header)
    if about.st_size < expected:
        raise RecordError(path, f": truncated ({about.st_size} of {expected} bytes); copy it, or run `nsys export`, again")
    return about.st_size, about.st_mtime_ns


def _read_head(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def _size_by_header(header: bytes) -> int:
    """Return how many bytes a database has by its header; 0 where that does not tell.

    SQLite's "Database File Format", 1.3: page size at offset 16 (1 means 65536), number of pages at 28, which holds if the
    change counters at 24 and 92 agree.
    """
    if len(header) < 100 or header[24:28] != header[92:96]:
        return 0
    page_size, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    return (65536 if page_size == 1 else page_size) * pages


def _describe(value: object) -> str:
    return "empty" if value is None else {bytes: "binary", str: "text", int: "a number", float: "a fraction"}[type(value)]


def _decode(text: bytes) -> str:
    """Return a text, which a program may have written in invalid UTF-8."""
    return text.decode(errors="replace")


def _cut_texts(joined: bytes, length: Integers) -> pa.StringArray:
    """Cut a text into those of these lengths (bytes of UTF-8); negative: null."""
    ends = np.cumsum(np.maximum(length, 0), dtype=np.int32)
    offsets, valid = np.append(np.int32(0), ends), pa.array(length >= 0).buffers()[1]
    texts = pa.BinaryArray.from_buffers(pa.binary(), len(length), [valid, pa.py_buffer(offsets), pa.py_buffer(joined)])
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if text is None else _decode(text) for text in texts.to_pylist()], pa.string())
