"""A summary's tables as files: every list of `summary.json`, under its key, as CSV or Parquet."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from speedproof.results.files import replacing, write_text
from speedproof.results.summary import Summary

_TYPES: Mapping[Any, pa.DataType] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


def write_tables(summary: Summary, folder: Path, parquet: bool = False) -> list[Path]:
    """Write every table of a summary, the empty ones too, as CSV or as Parquet, and return the files.

    Numbers have all their digits. In CSV an empty cell is null, and a list's members are parted by spaces.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, table in list_tables(summary):
        path = folder / f"{name}.{'parquet' if parquet else 'csv'}"
        if parquet:
            with replacing(path) as temporary:
                pq.write_table(table, temporary, compression="zstd")
        else:
            write_text(path, _format_csv(table))
        files.append(path)
    return files


def list_tables(summary: Summary) -> Iterator[tuple[str, pa.Table]]:
    """Yield the name and the rows of each table: the lists of a summary whose members have columns."""
    for name, field in type(summary).model_fields.items():
        members = get_args(field.annotation)
        if get_origin(field.annotation) is list and issubclass(members[0], BaseModel):
            yield name, tabulate_rows(getattr(summary, name), members[0])


def tabulate_rows(rows: Sequence[BaseModel], model: type[BaseModel]) -> pa.Table:
    """Return rows as a table with the columns of their model, of the types that it has for them."""
    columns = {key: _type_of(column.annotation) for key, column in model.model_fields.items()}
    return pa.Table.from_pylist([row.model_dump() for row in rows], pa.schema(columns))


def _type_of(annotation: Any) -> pa.DataType:
    """Return how a column is kept; of a choice of literals or of null it is the plain kind."""
    if annotation in _TYPES:
        return _TYPES[annotation]
    members = [member for member in get_args(annotation) if member is not type(None)]
    if get_origin(annotation) is list:
        return pa.list_(_type_of(members[0]))
    if isinstance(members[0], type) or get_args(members[0]):
        return _type_of(members[0])
    return _type_of(type(members[0]))


def _format_csv(table: pa.Table) -> str:
    frame = pd.DataFrame({name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.column_names})
    for field in table.schema:
        if pa.types.is_list(field.type):
            frame[field.name] = [" ".join(map(str, row)) for row in frame[field.name]]
    text = io.StringIO()
    frame.to_csv(text, index=False, lineterminator="\n")
    return text.getvalue()
