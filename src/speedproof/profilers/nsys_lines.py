"""The JSON lines that `nsys export` writes: a row each, which names its table, read as the SQLite file's tables are."""

import re
from collections import defaultdict
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj

from speedproof.profilers.nsys_folder import ExportFolder

_TABLE = re.compile(rb'(?<!\\)"table"\s*:\s*"(\w+)"')
_BLOCK = 64 << 20  # bytes, which hold the longest line


class ExportLines(ExportFolder):
    """An export's tables, whose rows stand in one file. Whatever cannot be read right is a :class:`RecordError` of one line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.advance: Callable[[int], None] = lambda rows: None
        self._seen = self._look()
        self._contents = self._read_tables()
        self._files = dict.fromkeys(self._contents, path)
        self._columns = {table: set(content.column_names) for table, content in self._contents.items()}

    def count_rows(self, table: str) -> int:
        return len(self._contents[table]) if self.has(table) else 0

    def _read_tables(self) -> dict[str, pa.Table]:
        """Read all rows, table by table; a row lacks the columns that are null in it."""
        lines: dict[str, list[bytes]] = defaultdict(list)
        with self._reading(self.path), self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                named = _TABLE.search(line)
                if named:
                    lines[named[1].decode()].append(line)
                elif line.strip():
                    raise self.damaged(f"line {number} names no table")
            options = pj.ReadOptions(block_size=_BLOCK)
            return {table: pj.read_json(BytesIO(b"".join(lines.pop(table))), options) for table in list(lines)}

    def _read(self, table: str, columns: list[str]) -> pa.Table:
        return self._contents[table].select(columns)

    def _look(self) -> dict[str, tuple[int, int]]:
        about = self.path.stat()
        return {self.path.name: (about.st_size, about.st_mtime_ns)}
