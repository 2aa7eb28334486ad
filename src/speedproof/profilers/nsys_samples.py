"""Samples of call stacks in an nsys export: the function, or the Python function, in which each found its thread."""

import html
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.profilers.event_tables import encode_names
from speedproof.profilers.nsys_columns import THREAD_BITS, find_distinct, main_thread
from speedproof.profilers.nsys_sqlite import MISSING, ExportFile
from speedproof.profilers.python_stacks import DOMAIN, DOMAIN_KIND, MAIN_THREAD, MARK_EVENT, read_innermost


class SampleReader:
    """Reads an export's samples of call stacks; `strings` are its texts by their ids."""

    def __init__(self, export: ExportFile, strings: Mapping[int, str]) -> None:
        self.export = export
        self.strings = strings

    def read_cpu(self) -> pa.Table:
        """Read in which function each sample found its thread: the innermost whose name nsys knows, else the library's."""
        samples = self.export.read_integers("COMPOSITE_EVENTS", ("id", "start", "globalTid"))
        columns = ("id", "symbol", "module", "unresolved", "specialEntry", "stackDepth")
        frames = self.export.read_integers("SAMPLING_CALLCHAINS", columns)
        nameless = (frames["unresolved"] == 1) | (frames["specialEntry"] == 1)
        order = np.lexsort((frames["stackDepth"], nameless, frames["id"]))  # named frames first, the innermost of these first
        sampled, first = np.unique(frames["id"][order], return_index=True)
        innermost = order[first]
        modules, place = find_distinct(frames["module"][innermost])
        symbols, symbol = find_distinct(frames["symbol"][innermost])
        names = [self.strings.get(number) or "unknown" for number in symbols]
        names += [f"in {(self.strings.get(number) or 'unknown').rpartition('/')[2]}" for number in modules]
        names.append("unknown")
        code = np.where(nameless[innermost], len(symbols) + place, symbol)
        at = np.searchsorted(sampled, samples["id"])
        known = np.append(sampled, MISSING)[at] == samples["id"]
        code = np.where(known, np.append(code, 0)[at], len(names) - 1)
        whole = (samples["start"] >= 0) & (samples["globalTid"] != MISSING)
        thread = samples["globalTid"][whole]
        return pa.table(
            {
                "start_ns": samples["start"][whole],
                "process": thread >> THREAD_BITS,
                "thread": thread,
                "name": encode_names(code[whole], names),
            }
        )

    def read_python(self, written_names: Future[pa.DictionaryArray]) -> pa.Table:
        """Read in which Python function each sample found its process' main thread."""
        stacks = list(self._list_stacks(written_names.result()))
        frames = [read_innermost(payload) for _, _, payload in stacks]
        distinct = list(dict.fromkeys(frames))
        names = [None if frame is None else self._name_frame(*frame) for frame in distinct]
        places = {frame: place for place, frame in enumerate(distinct)}
        code = np.array([places[frame] for frame in frames], np.int64)
        known = np.array([name is not None for name in names], bool)[code]
        self.export.warn_of(~known, "of Python's call stacks are of a form that is not known")
        start, thread = (np.array([stack[column] for stack in stacks], np.int64)[known] for column in (0, 1))
        return pa.table(
            {
                "start_ns": start,
                "process": thread >> THREAD_BITS,
                "thread": thread,
                "name": encode_names(code[known], [name or "" for name in names]),
            }
        )

    def _list_stacks(self, written_names: pa.DictionaryArray) -> Iterator[tuple[int, int, bytes | str]]:
        """Yield start, thread and payload of each sample of a process' main thread; a domain's number is its process' own."""
        if DOMAIN not in written_names.dictionary.to_pylist():
            return
        if not self.export.has("NVTX_EVENTS", "binaryData"):
            self.export.warn("Python's call stacks are not in this export; give the report that it was made of, `.nsys-rep`")
            return
        raw = self.export.read_integers("NVTX_EVENTS", ("start", "eventType", "globalTid", "domainId", "category"))
        process = raw["globalTid"] >> THREAD_BITS
        named = (raw["eventType"] == DOMAIN_KIND) & pc.equal(written_names, DOMAIN).fill_null(False).to_numpy(
            zero_copy_only=False
        )
        domains = set(zip(process[named].tolist(), raw["domainId"][named].tolist(), strict=True))
        marks = (raw["eventType"] == MARK_EVENT) & (raw["category"] == MAIN_THREAD) & (raw["start"] >= 0)
        for row, (payload,) in enumerate(self.export.select("NVTX_EVENTS", binaryData=bytes | str | None)):
            if payload and marks[row] and (process[row], raw["domainId"][row]) in domains:
                yield int(raw["start"][row]), main_thread(int(process[row])), payload

    def _name_frame(self, function: int, file: int) -> str | None:
        known = self.strings.get(function), self.strings.get(file)
        if None in known:
            return None
        of_function, of_file = (html.unescape(str(text)) for text in known)  # nsys keeps "&lt;module&gt;"
        return f"{of_function} ({of_file.rpartition('/')[2]})"
