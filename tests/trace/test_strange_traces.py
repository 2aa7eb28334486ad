"""Traces that anybody may have made: a table that is not as the schema says is refused in one line that names it."""

import json
import os
import random
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from speedproof.results.trace_tables import TABLES, TRACE_FILE, read_table
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import RecordError
from tests.trace.handmade import two_epochs


@pytest.fixture
def trace(tmp_path):
    return two_epochs().write(tmp_path / "trace")


def refusal(trace):
    with pytest.raises(RecordError) as error:
        analyze_trace(trace)
    text = str(error.value)
    assert text.startswith(str(trace))
    assert "\n" not in text
    return text


def replace_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


def set_first(name, value):
    """Return a change that puts a value into a column's first row."""
    return lambda table: replace_column(
        table, name, pa.array([value, *table[name].to_pylist()[1:]], table.schema.field(name).type)
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.drop_columns("stream"), "no column stream"),
        (lambda table: replace_column(table, "start_ns", table["start_ns"].cast(pa.float64())), "start_ns is of type double"),
        (lambda table: replace_column(table, "name", table["start_ns"]), "name is of type int64"),
        (lambda table: table.append_column("name", table["name"]), "two columns name"),
        (set_first("start_ns", None), "1 rows have no start_ns"),
        (set_first("end_ns", None), "1 rows have no end_ns"),
        (set_first("name", None), "1 rows have no name"),
        (set_first("start_ns", -1), "start_ns is negative"),
        (set_first("device", -1), "device is negative"),
        (set_first("end_ns", 0), "an event ends before it starts"),
        (set_first("end_ns", 1 << 62), "more than a year after the first one"),
        (lambda table: pa.concat_tables([table, table]), "rows"),
        (lambda table: table.slice(1), "rows"),
    ],
)
def test_a_table_that_is_not_of_a_trace_is_refused(trace, change, said):
    path = trace / "kernels.parquet"
    pq.write_table(change(pq.ParquetFile(path).read()), path)
    text = refusal(trace)
    assert "kernels.parquet" in text
    assert said in text


def test_events_that_last_centuries_together_are_refused(trace):
    """Sums are of 64 bits, which 300 years overflow: the total would be negative."""
    year_ns = 365 * 24 * 3600 * 10**9
    table = pq.ParquetFile(trace / "kernels.parquet").read()
    many = pa.concat_tables([table] * 100)
    pq.write_table(replace_column(many, "end_ns", pa.array([year_ns] * len(many))), trace / "kernels.parquet")
    info = json.loads((trace / TRACE_FILE).read_text())
    (trace / TRACE_FILE).write_text(json.dumps(info | {"rows": info["rows"] | {"kernels": len(many)}}))
    assert "longer than a century together" in refusal(trace)


def test_few_bytes_that_unpack_to_many_rows_are_refused_before_they_do(trace):
    rows = 20_000_000
    schema = pa.schema([("start_ns", pa.int64()), ("end_ns", pa.int64())])
    zeros = pa.array([0]).take(pa.array([0] * 1_000_000))
    with pq.ParquetWriter(trace / "overhead.parquet", schema, compression="zstd") as file:
        for _ in range(rows // len(zeros)):
            file.write_table(pa.table([zeros, zeros], schema))
    assert f"hold {rows} rows" in refusal(trace)


@pytest.mark.parametrize("kind", ["pipe", "folder", "broken link", "cut", "empty", "text"])
def test_what_is_no_table_is_refused_at_once(trace, kind):
    path = trace / "api.parquet"
    content = path.read_bytes()
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "broken link":
            path.symlink_to(path)
        case _:
            path.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "text": b"start_ns,end_ns\n"}[kind])
    assert "api.parquet" in refusal(trace)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 2}, "schema version 2"),
        ({"rows": None}, "rows"),
        ({"rows": {"kernels": float("nan")}}, "NaN is not a number"),
        ({"profiler": "<b>perf</b>"}, "profiler"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(trace, change, said):
    info = json.loads((trace / TRACE_FILE).read_text()) | change
    (trace / TRACE_FILE).write_text(json.dumps(info))
    assert said in refusal(trace)


def test_a_pipe_as_description_is_refused_at_once(trace):
    (trace / TRACE_FILE).unlink()
    os.mkfifo(trace / TRACE_FILE)
    assert TRACE_FILE in refusal(trace)


def test_names_in_another_form_are_the_same_names(trace):
    """As other programs write them: plain texts, or a list of names in which one stands twice."""
    expected = analyze_trace(trace)
    path = trace / "ranges.parquet"
    table = pq.ParquetFile(path).read()
    plain = table["name"].cast(pa.string())
    pq.write_table(replace_column(table, "name", plain), path)
    assert analyze_trace(trace) == expected
    doubled = pa.DictionaryArray.from_arrays(pa.array(range(len(plain)), pa.int32()), plain.combine_chunks())
    pq.write_table(replace_column(table, "name", doubled), path)
    assert analyze_trace(trace) == expected


def test_a_mutated_trace_is_analysed_or_refused_in_one_line(trace, tmp_path):
    chance, refused = random.Random(0), 0
    for attempt in range(24):
        mutated = tmp_path / "mutated"
        shutil.copytree(trace, mutated)
        path = mutated / chance.choice([f"{name}.parquet" for name in TABLES] + [TRACE_FILE])
        content = bytearray(path.read_bytes())
        for _ in range(chance.choice([1, 5, 30])):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content[: chance.randrange(len(content))] if attempt % 4 == 0 else content)
        try:
            summary = analyze_trace(mutated)
        except RecordError as error:
            assert "\n" not in str(error)
            refused += 1
        else:
            assert sum(share.total_ns for share in summary.account) > 0
        shutil.rmtree(mutated)
    assert 0 < refused < 24


def test_what_is_read_is_as_the_schema_says(trace):
    for name, schema in TABLES.items():
        assert read_table(trace, name).schema.equals(schema)
        assert pc.sum(pc.is_null(read_table(trace, name, schema.names[:1])[0])).as_py() in (0, None)
