"""The folders of Parquet or Arrow files that `nsys export` writes, table by table, read as its SQLite file is."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from speedproof.profilers.event_tables import Integers
from speedproof.profilers.nsys_sqlite import MISSING, ExportFile
from speedproof.results.trace_tables import describe_excess
from speedproof.util.errors import RecordError

_SUFFIXES = (".parquet", ".arrow")
_LONGEST_REASON = 160  # characters
_AGAIN = "run `nsys export` again"


class ExportFolder(ExportFile):
    """An export's tables, each a file of its name. Whatever cannot be read right is a :class:`RecordError` of one line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.advance: Callable[[int], None] = lambda rows: None
        self._files = {file.stem: file for file in sorted(path.iterdir()) if file.suffix in _SUFFIXES}
        self._seen = self._look()
        self._columns = {table: set(self._schema(file).names) for table, file in self._files.items()}

    def check_unchanged(self) -> None:
        if self._look() != self._seen:
            raise RecordError(self.path, ": changed while it was read; wait until it is written, then try again")

    def has(self, table: str, *columns: str) -> bool:
        return table in self._files and set(columns) <= self._columns[table]

    def count_rows(self, table: str) -> int:
        if not self.has(table):
            return 0
        file = self._files[table]
        with self._reading(file):
            return int(pq.read_metadata(file).num_rows) if file.suffix == ".parquet" else len(_open_arrow(file).read_all())

    def select(self, table: str, **kinds: Any) -> Iterator[tuple[Any, ...]]:
        if not self.has(table, *kinds):
            return
        content = self._read(table, list(kinds))
        for number, row in enumerate(zip(*(content[column].to_pylist() for column in kinds), strict=True), start=1):
            for (column, kind), value in zip(kinds.items(), row, strict=True):
                if not isinstance(value, kind):
                    raise self.damaged(
                        f"{table}, row {number}: {column} is {'empty' if value is None else type(value).__name__}"
                    )
            yield row

    def read_integers(self, table: str, columns: Iterable[str]) -> dict[str, Integers]:
        wanted = list(columns)
        present = [column for column in wanted if self.has(table, column)]
        content = self._read(table, present) if present else pa.table({})
        found: dict[str, Integers] = {}
        for column in wanted:
            if column not in present:
                found[column] = pa.repeat(MISSING, len(content)).to_numpy()
                continue
            if not pa.types.is_integer(content[column].type) and not pa.types.is_null(content[column].type):
                raise self.damaged(f"{table}.{column} holds {content[column].type}, no integers")
            # SQLite's numbers have a sign: identifiers above 2^63 are negative there, too.
            found[column] = pc.fill_null(pc.cast(content[column], pa.int64(), safe=False), MISSING).to_numpy()
        self.advance(len(content))
        return found

    def read_texts(self, table: str, column: str) -> Iterator[pa.StringArray]:
        if self.has(table, column):
            content = self._read(table, [column])[column]
            self.advance(len(content))
            if pa.types.is_null(content.type) or pa.types.is_string(content.type) or pa.types.is_large_string(content.type):
                yield from content.cast(pa.string()).chunks
            else:
                raise self.damaged(f"{table}.{column} holds {content.type}, no text")

    def damaged(self, reason: str) -> RecordError:
        return RecordError(self.path, f": damaged ({' '.join(reason.split())[:_LONGEST_REASON]}); {_AGAIN}")

    def _read(self, table: str, columns: list[str]) -> pa.Table:
        file = self._files[table]
        with self._reading(file):
            if file.suffix == ".parquet":
                if excess := describe_excess(pq.read_metadata(file), file.stat().st_size):
                    raise self.damaged(f"{file.name}: {excess}")
                return pq.read_table(file, columns=columns, partitioning=None)
            return _open_arrow(file).read_all().select(columns)

    def _schema(self, file: Path) -> pa.Schema:
        with self._reading(file):
            return pq.read_schema(file) if file.suffix == ".parquet" else _open_arrow(file).schema

    @contextmanager
    def _reading(self, file: Path) -> Iterator[None]:
        """Say in one line what a file is that cannot be read."""
        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.damaged(f"{file.name}: {error}") from None

    def _look(self) -> dict[str, tuple[int, int]]:
        return {file.name: (about.st_size, about.st_mtime_ns) for file in self._files.values() if (about := file.stat())}


def _open_arrow(file: Path) -> pa.RecordBatchStreamReader:
    return pa.ipc.open_stream(pa.memory_map(str(file)))
