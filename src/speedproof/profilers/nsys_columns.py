"""Turn columns of an nsys export into columns of a trace: empty cells become null, numbers become names."""

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.profilers.event_tables import Integers, encode_names
from speedproof.profilers.nsys_sqlite import MISSING

# ENUM_CUDA_MEM_KIND and ENUM_CUDA_MEMCPY_OPER as every export so far holds them, for trimmed files that lack the tables.
MEMORY_KINDS = ["PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC", "UNKNOWN"]
MEMORY_OPERATIONS = ["ALLOCATION", "DEALLOCATION"]  # the same for ENUM_CUDA_DEV_MEM_EVENT_OPER
COPY_KINDS = ["UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"]

# With what follows these, `torch.autograd.profiler.emit_nvtx` makes every range's name a different one.
_AUTOGRAD_NUMBERS = [", seq = ", ", op_id = "]

# A global identifier packs hardware (8 bits), virtual machine (8), process (24) and thread (24 bits); in a process' own
# identifier the thread is zero. (User Guide, "Common SQLite Examples": GlobalId.)
THREAD_BITS = 24
_PROCESS_MASK = (1 << 24) - 1


def main_thread(process: int) -> int:
    """Return the global identifier of a process' first thread."""
    return process << THREAD_BITS | process & _PROCESS_MASK


def find_repeated(process: Integers, correlation: Integers) -> np.ndarray:
    """Tell which calls have the correlation id of another of their process: who launched what is not known."""
    repeated = np.zeros(len(correlation), bool)
    known = np.flatnonzero(correlation != MISSING)
    if (np.diff(correlation[known]) > 0).all():  # as they come of one thread, and then nothing need be sorted
        return repeated
    order = known[np.lexsort((correlation[known], process[known]))]
    same = (np.diff(correlation[order]) == 0) & (np.diff(process[order]) == 0)
    repeated[order[1:][same]] = True
    return repeated


def name_ranges(listed: pa.DictionaryArray, written: pa.DictionaryArray, rows: Integers) -> pa.DictionaryArray:
    """Return the ranges' names: from the table of strings, or written in the event of that row itself (if any are)."""
    codes, names = listed.indices.fill_null(-1).to_numpy(), without_autograd_numbers(listed.dictionary)
    if len(written):
        own = written.indices.fill_null(-1).to_numpy()[rows]
        codes = np.where(own < 0, codes, own + len(names))
        names = pa.concat_arrays([names, written.dictionary])
    return encode_names(codes, names.to_pylist()).fill_null("")


def without_autograd_numbers(names: pa.StringArray) -> pa.StringArray:
    """Cut names off where autograd's numbers begin: millions of names become few."""
    for number in _AUTOGRAD_NUMBERS:
        names = pc.list_element(pc.split_pattern(names, number, max_splits=1), 0)
    return names


def to_nullable(values: Integers) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == MISSING)


def translate_numbers(numbers: Integers, names: Mapping[int, str]) -> pa.DictionaryArray:
    """Return the names of an enumeration's numbers, "unknown" if it has none."""
    distinct, positions = find_distinct(numbers)
    return encode_names(positions, [names.get(number, "unknown") for number in distinct])


def find_distinct(numbers: Integers) -> tuple[list[int], Integers]:
    """Return the distinct numbers, and for each number its position among them; by hashing, which beats sorting millions."""
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def copy_kind(name: str) -> str:
    """Return e.g. "HtoD" for HTOD, "UVM HtoD" for UVM_HTOD, "unknown" for UNKNOWN."""
    unified, _, direction = name.rpartition("_")
    if not re.fullmatch("[HDAP]TO[HDAP]", direction):
        return "unknown"
    return f"{unified} {direction[0]}to{direction[3]}".lstrip()


def memory_kind(name: str) -> str:
    """Return e.g. "device" for DEVICE_STATIC, "unknown" for what is none of a trace's kinds."""
    kind = name.removesuffix("_STATIC").lower().replace("array", "device")
    return kind if kind in ("pageable", "pinned", "device", "managed") else "unknown"


def stack_tables(*tables: pa.Table) -> pa.Table:
    filled = [table for table in tables if len(table)] or [tables[0]]
    return pa.concat_tables(filled, promote_options="default").unify_dictionaries().combine_chunks()


def replace_devices(table: pa.Table, gpus: Mapping[tuple[int, int], int]) -> pa.Table:
    """Replace a process' number of a GPU by the machine's; where the process is not known, its number stays."""
    if not gpus:
        return table
    device, process = (pc.fill_null(table[name], MISSING).to_numpy() for name in ("device", "process"))
    renumbered = device.copy()
    for (pid, cuda), gpu in gpus.items():
        renumbered[(process != MISSING) & ((process & _PROCESS_MASK) == pid) & (device == cuda)] = gpu
    return table.set_column(table.column_names.index("device"), "device", to_nullable(renumbered))
