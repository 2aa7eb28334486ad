"""Small exports of Nsight Systems, made by hand: each test says which tables and columns a version has."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

MAIN = 281474976710656 | 500 << 24  # process 500 of virtual machine 1, as a process' identifier


def thread(number: int, process: int = MAIN) -> int:
    return process | number


def make_export(path: Path, tables: dict[str, list[dict[str, Any]]], schema: str | None = "3.20.2") -> Path:
    """Write an export whose tables have the columns of their rows; strings are given as text and get numbers of their own."""
    if schema is not None:
        about = {"EXPORT_PRODUCT_VERSION": "2025.3.1.90", "EXPORT_SCHEMA_VERSION": schema}
        tables = {"META_DATA_EXPORT": [{"name": name, "value": value} for name, value in about.items()], **tables}
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, rows in tables.items():
            columns = list(dict.fromkeys(column for row in rows for column in row))
            connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            connection.executemany(
                f"INSERT INTO {table} VALUES ({marks})", [[row.get(column) for column in columns] for row in rows]
            )
    return path


def strings(*texts: str) -> list[dict[str, Any]]:
    """Return rows of StringIds: the first text is number 10, the next 20, and so on."""
    return [{"id": 10 * number, "value": text} for number, text in enumerate(texts, start=1)]
