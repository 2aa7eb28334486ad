"""Exports that anybody may have made: refused in one line that says what is wrong, or read with a warning; no wrong number."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from speedproof.profilers import nsys_sqlite as export_file
from speedproof.profilers.nsys_export import convert_export
from speedproof.results.trace_tables import TRACE_FILE
from speedproof.util.errors import RecordError
from tests.profilers.exports import make_export
from tests.profilers.sums import totals
from tests.trace.test_mutated import training_tables

KERNELS, CALLS, COPIES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY"


@pytest.fixture
def export(tmp_path):
    return make_export(tmp_path / "report.sqlite", training_tables())


def change(export, *statements):
    with closing(sqlite3.connect(export)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def refusal(export, tmp_path):
    with pytest.raises(RecordError) as error:
        convert_export(export, tmp_path / "trace")
    text = str(error.value)
    assert text.startswith(f"{export}: ")
    assert "\n" not in text
    assert not (tmp_path / "trace" / TRACE_FILE).exists()
    return text


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"UPDATE {KERNELS} SET start = NULL WHERE rowid = 7", f"{KERNELS}, row 7: has no start"),
        (f"UPDATE {KERNELS} SET end = NULL WHERE rowid = 7", f"{KERNELS}, row 7: has no end"),
        (f"UPDATE {KERNELS} SET deviceId = NULL WHERE rowid = 7", f"{KERNELS}, row 7: has no deviceId"),
        (f"UPDATE {KERNELS} SET start = -5 WHERE rowid = 7", f"{KERNELS}, row 7: starts before the recording"),
        (f"UPDATE {KERNELS} SET end = start - 1 WHERE rowid = 7", f"{KERNELS}, row 7: ends before it starts"),
        (f"UPDATE {KERNELS} SET deviceId = 1 << 40 WHERE rowid = 7", f"{KERNELS}, row 7: has a deviceId out of range"),
        (f"UPDATE {KERNELS} SET streamId = -3 WHERE rowid = 7", f"{KERNELS}, row 7: has a streamId out of range"),
        (f"UPDATE {KERNELS} SET correlationId = -1 WHERE rowid = 7", f"{KERNELS}, row 7: has a negative correlationId"),
        (f"UPDATE {COPIES} SET bytes = -8 WHERE rowid = 7", f"{COPIES}, row 7: has a negative bytes"),
        ("UPDATE NVTX_EVENTS SET globalTid = NULL WHERE rowid = 7", "NVTX_EVENTS, row 7: has no globalTid"),
        ("UPDATE NVTX_EVENTS SET start = NULL WHERE rowid = 7", "NVTX_EVENTS, row 7: has no start"),
        ("UPDATE NVTX_EVENTS SET end = 8 << 59 WHERE rowid = 7", "more than a year after the first one"),
        (f"UPDATE {CALLS} SET start = start + (1 << 61), end = end + (1 << 61) WHERE rowid = 7", "more than a year after"),
        (f"UPDATE {CALLS} SET start = 1e30 WHERE rowid = 7", "a number was expected"),
        (f"UPDATE {CALLS} SET correlationId = '-'", "a number was expected"),
        (f"UPDATE {CALLS} SET nameId = '' WHERE rowid = 120", "a number was expected"),
        (f"UPDATE {CALLS} SET end = x'00ff' WHERE rowid = 7", "a number was expected"),
        ("INSERT INTO StringIds VALUES (30, 'another')", "StringIds: id 30 stands twice"),
        ("UPDATE StringIds SET value = 5", "StringIds, row 1: value is a number"),
        ("UPDATE StringIds SET id = x'00'", "StringIds, row 1: id is binary"),
        ("UPDATE META_DATA_EXPORT SET value = 3.2", "META_DATA_EXPORT, row 1: value is a fraction"),
        ("INSERT INTO TARGET_INFO_CUDA_DEVICE SELECT 1, cudaId, pid FROM TARGET_INFO_CUDA_DEVICE", "is two"),
        ("UPDATE TARGET_INFO_CUDA_DEVICE SET pid = 'x'", "TARGET_INFO_CUDA_DEVICE, row 1: pid is text"),
        ("CREATE TABLE ANALYSIS_DETAILS AS SELECT 'long' AS duration", "ANALYSIS_DETAILS, row 1: duration is text"),
        ("CREATE TABLE ANALYSIS_DETAILS AS SELECT 0 AS duration", "the recording ends after 0 ns, before its first range"),
        ("CREATE TABLE ENUM_CUDA_MEM_KIND AS SELECT 0 AS id, NULL AS name", "ENUM_CUDA_MEM_KIND, row 1: name is empty"),
        ("CREATE TABLE ThreadNames AS SELECT 'x' AS globalTid, 10 AS nameId", "ThreadNames, row 1: globalTid is text"),
        ("UPDATE NVTX_EVENTS SET end = -9223372036854775808 WHERE rowid = 3", "NVTX_EVENTS.end holds -9223372036854775808"),
        (f"ALTER TABLE {KERNELS} RENAME COLUMN end TO finish", f"{KERNELS}, row 1: has no end"),
    ],
)
def test_what_cannot_be_an_event_is_refused_with_its_place(export, tmp_path, statement, said):
    change(export, statement)
    assert said in refusal(export, tmp_path)


@pytest.mark.parametrize(
    "statements",
    [
        [f"ALTER TABLE {KERNELS} RENAME TO real", f"CREATE VIEW {KERNELS} AS SELECT * FROM real"],
        [f"DROP TABLE {KERNELS}", f"CREATE VIRTUAL TABLE {KERNELS} USING fts4(start, end)"],
        [f"ALTER TABLE {KERNELS} ADD COLUMN graphId AS (abs(start))"],
        [f"ALTER TABLE {KERNELS} ADD COLUMN rowid INTEGER"],
    ],
    ids=["view", "virtual table", "generated column", "column rowid"],
)
def test_what_is_no_plain_table_is_not_read(export, tmp_path, statements):
    change(export, *statements)
    assert KERNELS in refusal(export, tmp_path)


def test_names_are_told_apart_as_sql_does(export, tmp_path):
    before = convert_export(export, tmp_path / "before").rows
    change(export, f"ALTER TABLE {KERNELS} RENAME TO other", f"ALTER TABLE other RENAME TO {KERNELS.lower()}")
    change(export, f"ALTER TABLE {KERNELS} RENAME COLUMN end TO END")
    assert convert_export(export, tmp_path / "after").rows == before


def run_convert(export, tmp_path):
    command = [sys.executable, "-m", "speedproof", "trace", "convert", str(export), "--out", str(tmp_path / "trace")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_an_endless_view_and_a_pipe_end_at_once(export, tmp_path):
    change(
        export,
        "DROP TABLE StringIds",
        """CREATE VIEW StringIds AS WITH RECURSIVE n(id, value) AS (SELECT 1, 'x' UNION ALL SELECT id + 1, value FROM n)
           SELECT * FROM n""",
    )
    os.mkfifo(tmp_path / "pipe.sqlite")
    for path, said in ((export, "StringIds is a view"), (tmp_path / "pipe.sqlite", "no regular file")):
        ended = run_convert(path, tmp_path)
        assert ended.returncode == RecordError.exit_code
        assert said in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


def test_rows_in_a_write_ahead_log_are_not_passed_over(export, tmp_path):
    with closing(sqlite3.connect(export)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"INSERT INTO {KERNELS} SELECT * FROM {KERNELS}")
        connection.commit()
        assert "report.sqlite-wal lies beside it" in refusal(export, tmp_path)
    # SQLite writes the log back where the last connection closes: what the line advises helps.
    assert convert_export(export, tmp_path / "trace").rows["kernels"] == 240


def test_a_transaction_that_was_cut_off_is_refused(export, tmp_path):
    (tmp_path / "report.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    assert "report.sqlite-journal lies beside it" in refusal(export, tmp_path)
    (tmp_path / "report.sqlite-journal").write_bytes(bytes(512))  # of a finished one
    assert convert_export(export, tmp_path / "trace").rows["kernels"] == 120


@pytest.mark.parametrize(("page_size", "mode"), [(512, "DELETE"), (65536, "DELETE"), (4096, "WAL")])
def test_other_pages_and_modes_give_the_same_numbers(export, tmp_path, page_size, mode):
    convert_export(export, tmp_path / "plain")
    change(export, f"PRAGMA page_size = {page_size}", "VACUUM", f"PRAGMA journal_mode = {mode}")
    convert_export(export, tmp_path / "trace")
    assert [totals(tmp_path / "trace", name) for name in ("kernels", "api")] == [
        totals(tmp_path / "plain", name) for name in ("kernels", "api")
    ]


@pytest.mark.parametrize(
    ("statement", "warning"),
    [
        ("DELETE FROM StringIds WHERE id = 30", "120 kernels have names that the table of strings lacks"),
        (f"DELETE FROM {KERNELS} WHERE rowid IN (5, 6)", f"{KERNELS} lacks 2 rows: their numbers are left out"),
        (f"UPDATE {CALLS} SET correlationId = 1 WHERE rowid = 2", "1 CUDA calls share a correlation id"),
        (f"UPDATE {CALLS} SET globalTid = NULL WHERE rowid < 4", "3 CUDA calls name no thread"),
        (f"UPDATE {KERNELS} SET globalPid = NULL WHERE rowid < 4", "3 kernels name no process"),
    ],
)
def test_what_is_unknown_is_told_and_leaves_the_rest_as_it_is(export, tmp_path, statement, warning):
    convert_export(export, tmp_path / "plain")
    change(export, statement)
    assert convert_export(export, tmp_path / "trace").warnings == [warning]
    assert totals(tmp_path / "trace", "copies", "kind") == totals(tmp_path / "plain", "copies", "kind")
    lost = 2 if "lacks 2 rows" in warning else 0
    assert sum(calls for calls, _ in totals(tmp_path / "trace", "kernels").values()) == 120 - lost


def test_rows_below_zero_are_read(tmp_path):
    """Nothing forbids such numbers of rows: they are rows as others."""
    export = make_export(tmp_path / "report.sqlite", training_tables())
    change(export, f"UPDATE {KERNELS} SET rowid = rowid - 200")
    assert convert_export(export, tmp_path / "trace").rows["kernels"] == 120


def test_pages_that_stand_twice_are_found(tmp_path):
    """A page of many kernels replaced by a pointer to another: SQLite alone reads it without a word."""
    tables = training_tables()
    tables[KERNELS] *= 40
    export = make_export(tmp_path / "report.sqlite", tables)
    with closing(sqlite3.connect(export)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [KERNELS]).fetchone()
    content = bytearray(export.read_bytes())
    page = (root - 1) * 4096
    assert content[page] == 5  # an inner page of a table: its cells, from byte 12, point at its children
    first, second = (int.from_bytes(content[page + 12 + 2 * cell :][:2]) for cell in (0, 1))
    content[page + second : page + second + 4] = content[page + first : page + first + 4]
    export.write_bytes(content)
    assert "rows stand twice" in refusal(export, tmp_path)


def test_damage_in_the_middle_of_the_file_is_refused(tmp_path):
    tables = training_tables()
    tables[KERNELS] *= 40
    export = make_export(tmp_path / "report.sqlite", tables)
    content = bytearray(export.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = bytes(4096)
    export.write_bytes(content)
    assert "damaged" in refusal(export, tmp_path)


@pytest.mark.parametrize(
    "numbers",
    [
        [1, 2, 3], [5, 6, 7], [-3, -2, -1], [-2, 0, 1], [1, 3, 4], [1, 2, 9, 10, 11, 12], [4], [],
        [-(1 << 62), -1, 1, 1 << 62],
    ],
)  # fmt: skip
def test_rows_are_read_whatever_their_numbers(tmp_path, monkeypatch, numbers):
    monkeypatch.setattr(export_file, "ROWS_AT_ONCE", 2)
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        connection.executemany("INSERT INTO t (rowid, a, b) VALUES (?, ?, ?)", [(n, n // 2, None) for n in numbers])
        connection.commit()
    found = export_file.ExportFile(path).read_integers("t", ["a", "b"])
    assert found["a"].tolist() == [n // 2 for n in numbers]
    assert found["b"].tolist() == [export_file.MISSING] * len(numbers)


def test_the_number_that_stands_for_none_is_still_a_number(tmp_path):
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?)", [(-1,), (None,), (7,)])
        connection.commit()
    assert export_file.ExportFile(path).read_integers("t", ["a"])["a"].tolist() == [-1, export_file.MISSING, 7]
