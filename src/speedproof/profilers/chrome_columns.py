"""Events in Chrome's format as columns of the trace's tables, and the values in them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa

from speedproof.profilers.event_tables import make_raw_table

ON_DEVICE = ("kernels", "copies")
_LONGEST_US = 1 << 53  # since 1970, from which a profiler may count; more is not a valid time
_LARGEST = (1 << 63) - 1  # of a column
_PROCESS_OR_THREAD = re.compile(r"-?[0-9]{1,18}")
_DAY_NS = 24 * 3600 * 10**9


class EventColumns:
    """Events by the table that they belong to, as columns."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._columns: dict[str, dict[str, list[Any]]] = {name: defaultdict(list) for name in set(tables)}

    def add(self, table: str, values: Mapping[str, Any]) -> None:
        for column, value in values.items():
            self._columns[table][column].append(value)

    def count(self, *tables: str) -> int:
        return sum(len(self._columns[table]["start_ns"]) for table in tables)

    def drop_untimed(self) -> int:
        """Leave out what runs on a GPU and has no time, and return how much that is.

        If CUPTI loses a time, the event lies where its clock began: years before all of the host's.
        """
        on_host = [table["start_ns"] for name, table in self._columns.items() if name not in ON_DEVICE]
        earliest_ns = min((min(start_ns) for start_ns in on_host if start_ns), default=0) - _DAY_NS
        dropped = 0
        for table in (self._columns[name] for name in ON_DEVICE):
            kept = [start_ns >= earliest_ns for start_ns in table["start_ns"]]
            if not all(kept):
                dropped += kept.count(False)
                for name, values in table.items():
                    table[name] = [value for value, keep in zip(values, kept, strict=True) if keep]
        return dropped

    def make_tables(self, process: int) -> dict[str, pa.Table]:
        """Return the raw tables; events that name no process are of this one."""
        tables = {}
        for name, columns in self._columns.items():
            rows = len(columns["start_ns"])
            tables[name] = make_raw_table(name, {"process": np.full(rows, process, np.int64), **columns}, rows)
        return tables


def is_number(value: object) -> TypeGuard[Decimal | int]:
    """Return whether a value of an event is a number; for Python true is one, too."""
    return type(value) in (Decimal, int)


def read_arguments(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event's arguments; it may have none."""
    arguments = event.get("args")
    if arguments is None or isinstance(arguments, dict):
        return arguments or {}
    raise ValueError(f"an event whose args are not an object: {str(arguments)[:40]}")


def read_integer(arguments: dict[str, Any], name: str) -> int | None:
    """Return an argument of an event that counts or numbers something; None: there is none."""
    value = arguments.get(name)
    if isinstance(value, Decimal) and -_LARGEST <= value <= _LARGEST and value == int(value):
        return int(value)
    if value is None or (type(value) is int and -_LARGEST <= value <= _LARGEST):
        return value
    raise ValueError(f"an event whose {name} is not a whole number: {str(value)[:40]}")


def read_size(arguments: dict[str, Any]) -> int | None:
    """Return the bytes of a copy; None: they are unknown, or no number of bytes."""
    try:
        return read_integer(arguments, "bytes")
    except ValueError:
        return None


def read_system_id(value: object) -> int | None:
    """Return the number of a process or thread, which some profilers write as a text; None: it is none."""
    if isinstance(value, str) and _PROCESS_OR_THREAD.fullmatch(value):
        return int(value)
    return value if type(value) is int else None


def read_nanoseconds(event: dict[str, Any], key: str, default: int | None = None) -> int:
    """Return a time of an event, which are microseconds."""
    value = event.get(key, default)
    # Compared as it is: arithmetic on a decimal of a huge exponent fails.
    if not is_number(value) or not -_LONGEST_US <= value <= _LONGEST_US:
        raise ValueError(f"an event without a time, {key}: {str(value)[:40]}")
    return round(value * 1000)
