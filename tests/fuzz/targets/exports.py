"""An export of Nsight Systems: `convert`, and of one in sixty `analyze`; sums are those of plain SQL on the same file."""

import json
import math
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from random import Random
from zlib import crc32

import pyarrow.parquet as pq

from speedproof.profilers.nsys_export import RANGE_KINDS
from tests.fuzz.calling import Outcome, speedproof
from tests.fuzz.driver import write_files
from tests.fuzz.mutation import HOSTILE, Files, mutate_bytes
from tests.profilers.exports import make_export
from tests.trace.test_mutated import training_tables

NAME = "report.sqlite"
ANALYSED = 60  # one in so many
OF_RANGES = f"eventType IN ({', '.join(map(str, RANGE_KINDS))}) AND end IS NOT NULL"
TABLES = {
    "kernels": "CUPTI_ACTIVITY_KIND_KERNEL",
    "copies": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "api": "CUPTI_ACTIVITY_KIND_RUNTIME",
    "ranges": "NVTX_EVENTS",
}
VALUES = f"""
NULL -1 0 1 1.5 -9.9e99 9e999 '' '7' '12abc' x'00ff' zeroblob(70000)
{2**63 - 1} {-(2**63)} {2**62} start rowid -start 10 59 random() char(27)
""".split()


def seeds() -> list[Files]:
    tables = training_tables()
    for name in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"):
        tables[name] = tables[name][:24]
    with tempfile.TemporaryDirectory() as folder:
        path = make_export(Path(folder) / NAME, tables)
        plain = path.read_bytes()
        with closing(sqlite3.connect(path)) as connection:  # an nsys that was killed leaves its last events in a file beside
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            with connection:
                connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 3")
            beside = {NAME: path.read_bytes(), f"{NAME}-wal": Path(f"{path}-wal").read_bytes()}
    return [{NAME: plain}] * 9 + [beside]


def mutate(random: Random, files: Files) -> Files:
    if random.random() < 0.4:
        name = random.choice(list(files))
        return {**files, name: mutate_bytes(random, files[name], random.choice([1, 1, 4, 20]))}
    with closing(sqlite3.connect(":memory:")) as connection:
        if len(files) > 1:
            return {**files, f"{NAME}-wal": random.choice([b"", files[f"{NAME}-wal"][:-1], files[f"{NAME}-wal"]])}
        connection.deserialize(files[NAME])
        for _ in range(random.choice([1, 1, 2, 5])):
            try:
                connection.executescript(_spoil(random, connection))
            except (sqlite3.Error, sqlite3.Warning):
                continue
        return {NAME: connection.serialize()}


def _spoil(random: Random, connection: sqlite3.Connection) -> str:
    """Return SQL that spoils a table."""
    table = random.choice([name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")])
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    column, other = random.choice(columns), random.choice(columns)
    value = random.choice(VALUES)
    text = random.choice(HOSTILE)[:2000].replace("\0", "").replace("'", "''").encode("utf-8", "replace").decode()
    row = random.randrange(1, 25)
    return random.choice(
        [
            f"UPDATE {table} SET {column} = {value} WHERE rowid = {row}",
            f"UPDATE {table} SET {column} = {value} WHERE rowid = {row}",
            f"UPDATE {table} SET {column} = {value}",
            f"UPDATE {table} SET {column} = '{text}' WHERE rowid <= {row}",
            f"UPDATE {table} SET {column} = {other} + {random.choice([-100, 1, 10**12])}",
            f"UPDATE {table} SET rowid = {random.choice(['-rowid', 'rowid * 100000000', str(2**63 - 1)])} WHERE rowid = {row}",
            f"DELETE FROM {table} WHERE rowid {random.choice(['=', '>', '<'])} {row}",
            f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid <= {row}",
            f"ALTER TABLE {table} DROP COLUMN {column}",
            f"ALTER TABLE {table} RENAME COLUMN {column} TO {random.choice([other.upper(), 'x', 'rowid', 'row'])}",
            f"ALTER TABLE {table} ADD COLUMN {random.choice(['graphId', 'eventClass', 'rowid', 'isGlobal'])} DEFAULT {value}",
            f"DROP TABLE {table}",
            f"ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS SELECT * FROM moved",
            f"ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS SELECT *, 1 AS rowid FROM moved LIMIT 3",
            f"ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS WITH RECURSIVE n(i) AS "
            "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS rowid, moved.* FROM n, moved",
            f"ALTER TABLE {table} RENAME TO moved; CREATE TABLE {table} AS SELECT {column}, {other} FROM moved",
            f"ALTER TABLE {table} RENAME TO moved; CREATE TABLE {table} (a PRIMARY KEY, start, end) WITHOUT ROWID",
            f"CREATE TABLE {table.upper()}_COPY AS SELECT * FROM {table}; CREATE TABLE \"a\"\"b [x\" (start); ",
            f"ALTER TABLE {table} ADD COLUMN late AS ({column} / 0)",
        ]
    )  # fmt: skip


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    write_files(folder, files)
    if refused := speedproof("trace", "convert", NAME, "--out", "trace").refusal(NAME):
        left = folder / "trace" / "trace.json"
        return Outcome("silent", "refused, and a trace is there") if left.exists() else refused
    try:
        stated = {name: _times(folder, table, OF_RANGES if name == "ranges" else "TRUE") for name, table in TABLES.items()}
    except (sqlite3.Error, OSError) as error:
        return Outcome("silent", f"converted, though SQLite says: {error}")
    warned = " ".join(json.loads((folder / "trace/trace.json").read_text(encoding="utf-8"))["warnings"])
    for table, times in stated.items():
        if TABLES[table] in warned:  # whoever reads the trace is told that something of it is left out
            continue
        read = pq.read_table(folder / "trace" / f"{table}.parquet", columns=["start_ns", "end_ns"]).to_pylist()
        lengths = [row["end_ns"] - row["start_ns"] for row in read if row["end_ns"] is not None]
        if sorted(lengths) != sorted(int(end) - int(start) for start, end in times) or any(length < 0 for length in lengths):
            return Outcome(
                "silent", f"{table}: {len(lengths)} events of {sum(lengths)} ns, but SQL has {len(times)}: {times[:3]}"
            )
    if crc32(files[NAME]) % ANALYSED == 0:
        return _analyse(folder, sum(int(end) - int(start) for start, end in stated["kernels"])) or Outcome("right")
    return Outcome("same" if files == sound else "right")


def _times(folder: Path, table: str, where: str) -> list[tuple[int, int]]:
    """Return what plain SQL finds: none of a table that is not there."""
    with closing(sqlite3.connect(folder / NAME)) as connection:
        connection.set_progress_handler(lambda: 1, 10**8)
        try:
            return connection.execute(f"SELECT start, end FROM {table} WHERE {where}").fetchmany(10**5)
        except sqlite3.OperationalError as error:
            if "no such table" in str(error) or "no such column" in str(error):
                return []
            raise


def _analyse(folder: Path, kernels_ns: int) -> Outcome | None:
    """Say what is wrong with the analysis of a trace: its account must add up, and its kernels be those of SQL."""
    if refused := speedproof("trace", "analyze", "trace", "--out", "out").refusal("trace"):
        return refused
    summary = json.loads((folder / "out/summary.json").read_text(encoding="utf-8"))
    epochs_ns = sum(epoch["end_ns"] - epoch["start_ns"] for epoch in summary["epochs"])
    if sum(share["total_ns"] for share in summary["account"]) != epochs_ns:
        return Outcome("silent", "the account does not add up to the epochs")
    found = sum(kernel["total_s"] for kernel in summary["kernels"])
    if not math.isclose(1e9 * found, kernels_ns, rel_tol=1e-9, abs_tol=0.5):
        return Outcome("silent", f"kernels of {1e9 * found} ns, not {kernels_ns}")
    return None
