"""What torch's profiler saw of a program's code on the CPU: operators and functions of Python, with all that they call."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.profilers.event_tables import repeat_name

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Installed packages by the path within them, anybody's own files by the file's name: where a program lies concerns nobody.
_INSTALLED = re.compile(r"^.*/(?:site-packages|dist-packages|lib/python3\.\d+)/(?=.*\(\d+\): )")
_ABSOLUTE = re.compile(r"^(?:/|[A-Za-z]:\\).*[/\\](?=[^/\\]*\(\d+\): )")


def name_function(name: str) -> str:
    """Return a function's name, `train.py(12): step`, without addresses and folders, which differ from run to run."""
    return _ABSOLUTE.sub("", _INSTALLED.sub("", _ADDRESS.sub("", name)))


def join_host_calls(operators: pa.Table, functions: pa.Table, others: list[pa.Table]) -> pa.Table:
    """Return all of a trace's calls on the CPU, each an `operator` or a `function`.

    Functions that were open when the recording began, or when it ended, count from the first event of any other kind to the
    last one.
    """
    columns = ["start_ns", "end_ns", "process", "thread", "name", "kind"]
    calls = [operators.append_column("kind", repeat_name("operator", len(operators)))]
    timed = [table for table in (operators, *others) if len(table)]
    if timed and len(functions):
        first = min(pc.min(table["start_ns"]).as_py() for table in timed)
        last = max(pc.max(table["end_ns"]).as_py() for table in timed)
        start, end = (np.clip(functions[name].to_numpy(), first, last) for name in ("start_ns", "end_ns"))
        functions = functions.set_column(0, "start_ns", pa.array(start)).set_column(1, "end_ns", pa.array(end))
        calls.append(functions.filter(pa.array(start < end)))
    return pa.concat_tables([table.select(columns) for table in calls]).unify_dictionaries().combine_chunks()
