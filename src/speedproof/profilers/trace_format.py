"""What a profiler leaves: how its files are recognized, what people call them, and what makes a trace of them.

This module and those of the formats import what converts only when they convert: `--help` names the formats, too.
"""

import codecs
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speedproof.config.profiling import Profiling
    from speedproof.profilers.selection import Selection
    from speedproof.results.trace_tables import TraceInfo

_CHECKSUM = 8  # bytes at the end of a gzip file: its checksum and size
_HEAD = 1 << 16  # bytes that content is recognized by, as it is or unpacked
_GZIP = b"\x1f\x8b"
_MARKED = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)  # UTF-32-LE's begins as UTF-16-LE's
_WIDE = (b"{\0", b"[\0", b"\0{", b"\0[", b"\0\0")  # JSON in UTF-16 or UTF-32 without a mark


@dataclass(frozen=True)
class Profiler:
    """A program that records traces."""

    name: str  # as traces and records keep it
    title: str  # as pages show it
    caveat: str = ""  # what its traces lack beside those of Nsight Systems, as a clause; empty: nothing


@dataclass(frozen=True)
class Conversion:
    """What converting may need besides the file."""

    nsys: str = "nsys"  # the program, which exports its reports
    exports: Path | None = None  # where an export is kept, by the report's digest, and found again; None: nowhere


@dataclass(frozen=True)
class TraceFormat:
    """A kind of file, or of folder, that becomes a trace."""

    profiler: Profiler
    described: str  # in help and errors
    writer: str  # the command or function that writes it
    suffixes: tuple[str, ...]  # the longest that fits a name decides, of all formats
    recognize: Callable[[Path], bool]  # by its content: a folder, or a file whose name tells nothing
    convert: Callable[[Path, Path, Conversion], "TraceInfo"]  # from the path into the folder of a trace

    def find_suffix(self, path: Path) -> str:
        """Return the longest suffix of this format that a name has, empty if it has none."""
        return max((suffix for suffix in self.suffixes if path.name.endswith(suffix)), key=len, default="")


@dataclass(frozen=True)
class RunTracer:
    """A profiler that can trace runs here."""

    described: str  # in help
    suits: str  # which programs it traces, in help
    within: bool  # the program's own torch starts it; else it starts the program
    takes_settings: bool  # of what is traced, besides calls, kernels and ranges
    # Return it if it works here, with the reason for which it was taken; else raise a ProfilingError. The last argument
    # tells whether it is that of each program, not of this Python.
    find: Callable[["Profiling", str, bool], "Selection"]


def read_head(path: Path, size: int = _HEAD) -> bytes:
    """Return how a file begins; nothing of a folder, or of what cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def is_gzip(path: Path) -> bool:
    return read_head(path, len(_GZIP)) == _GZIP


def is_cut_off(path: Path) -> bool:
    """Return whether a small gzip file ends before what is packed in it does."""
    head, unpacking = read_head(path), zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        unpacking.decompress(head)
    except zlib.error:
        return False
    return len(head) < _HEAD and not unpacking.eof


def read_unpacked(path: Path) -> bytes:
    """Return how a file begins, or what it unpacks to if it is a gzip file; text in UTF-8, without a mark of its encoding."""
    content = _unpack_head(path)
    encoding = _detect_encoding(content)
    return content if encoding == "utf-8" else content.decode(encoding, "ignore").encode()


def find_encoding(path: Path) -> str:
    """Return the encoding of a text, packed or not: UTF-8 unless its first bytes show that of JSON in UTF-16 or UTF-32."""
    return _detect_encoding(_unpack_head(path))


def _detect_encoding(content: bytes) -> str:
    return json.detect_encoding(content) if content.startswith(_MARKED) or content[:2] in _WIDE else "utf-8"


def _unpack_head(path: Path) -> bytes:
    head = read_head(path)
    if head.startswith(_GZIP):
        with suppress(zlib.error):
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head[:-_CHECKSUM], _HEAD)  # which may be wrong
    return head
