"""Files that somebody may take for a trace and that are not read: each by its content, with the way to one that is."""

import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from speedproof.profilers.trace_format import is_cut_off, is_gzip, read_unpacked

_TEXT_KEYS = re.compile(rb'"(\w+)"\s*:')
_SUFFIX_OF_STREAM = ".qdstrm"  # whose content has no mark


@dataclass(frozen=True)
class ForeignFile:
    """A kind of file that is not a trace, and what to do about it."""

    what: str
    remedy: str
    recognize: Callable[[bytes], bool]  # by how it begins; a gzip file by how its content does


def find_foreign(path: Path) -> ForeignFile | None:
    """Return what a file is that no format of traces recognizes; None if that is not known either."""
    if not path.is_file():
        return None
    if path.suffix == _SUFFIX_OF_STREAM:
        return _STREAM
    content, otherwise = read_unpacked(path), None
    if is_gzip(path) and is_cut_off(path):
        otherwise = _CUT_OFF
    elif is_gzip(path) and not content.lstrip().startswith((b"{", b"[")):  # what JSON lacks is known to who reads it
        otherwise = _PACKED
    elif not content:
        otherwise = _EMPTY
    return next((one for one in FOREIGN_FILES if one.recognize(content)), otherwise)


def _starts(*marks: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(marks)


def _has_keys(*keys: str) -> Callable[[bytes], bool]:
    """Recognize a JSON object that begins with these keys, in any order, and maybe others."""
    wanted = {key.encode() for key in keys}
    return lambda head: head.lstrip().startswith(b"{") and wanted <= set(_TEXT_KEYS.findall(head))


def _is_tar(head: bytes) -> bool:
    return head[257:262] == tarfile.POSIX_MAGIC[:5]


def _list_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each field of a protocol buffer that has a length, with its number; stop at the first of another kind."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        if tag & 7 != 2:
            return
        length, at = _read_varint(message, at)
        yield tag >> 3, message[at : at + length]
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            break
    return value, at


def _first_message(head: bytes) -> bytes | None:
    """Return the first message of a file that is a list of them in field 1, as XLA's and Perfetto's are."""
    number, message = next(_list_fields(head), (0, b""))
    return message if number == 1 and len(message) > 1 else None


def is_xplane(head: bytes) -> bool:
    """Recognize XLA's planes: each has a number (field 1), and a name (field 2) such as `/device:GPU:0`."""
    message = _first_message(head)
    if message is None:
        return False
    if message[0] == 0x08:
        message = message[_read_varint(message, 1)[1] :]
    number, name = next(_list_fields(message), (0, b""))
    return number == 2 and name.startswith((b"/device:", b"/host:", b"Task Environment", b"#"))


def _is_perfetto(head: bytes) -> bool:
    """Recognize Perfetto's packets: binary, and each with its clock, its time or what it describes in front."""
    message = _first_message(head)
    return message is not None and any(byte < 9 for byte in message) and message[:1] in _PACKET_FIELDS


# Tags of TracePacket's fields that a packet may begin with: clock_snapshot, timestamp, trusted_uid, trusted_packet_sequence_id,
# track_descriptor, track_event, interned_data, trace_config, process_tree, system_info, trace_uuid and others above 15.
_PACKET_FIELDS = [bytes([tag]) for tag in (0x18, 0x32, 0x40, 0x50, 0x5A, 0x62, 0x12, 0x0A, *range(0x80, 0x100))]

_EMPTY = ForeignFile("an empty file", "copy or record it again", lambda head: not head)
_CUT_OFF = ForeignFile("truncated, its packed data break off", "copy or export it again", lambda _head: False)
_STREAM = ForeignFile(
    "what Nsight Systems recorded, not yet a report",
    "convert it: QdstrmImporter -i FILE.qdstrm (part of Nsight Systems) writes a .nsys-rep",
    lambda _head: False,
)
_PACKED = ForeignFile(
    "a gzip file of something else than a trace", "unpack it (gunzip), and give the trace in it", lambda _: False
)
_ARCHIVE = "unpack it, and give a trace that it holds"

FOREIGN_FILES = [
    ForeignFile("a tar archive", _ARCHIVE + " (tar -xf)", _is_tar),
    ForeignFile("a zip archive", _ARCHIVE + " (unzip)", _starts(b"PK\x03\x04", b"PK\x05\x06")),
    ForeignFile("a zstd file", _ARCHIVE + " (unzstd)", _starts(b"\x28\xb5\x2f\xfd")),
    ForeignFile("an xz file", _ARCHIVE + " (unxz)", _starts(b"\xfd7zXZ\0")),
    ForeignFile("a bzip2 file", _ARCHIVE + " (bunzip2)", _starts(b"BZh")),
    ForeignFile("a 7z archive", _ARCHIVE + " (7z x)", _starts(b"7z\xbc\xaf\x27\x1c")),
    ForeignFile(
        "a report of Nsight Compute, which measures single kernels and has no timeline",
        "record one: nsys profile",
        _starts(b"NVR\0"),
    ),
    ForeignFile(
        "a Perfetto trace",
        "give what it was made of, or convert it: traceconv json FILE trace.json (of Perfetto)",
        _is_perfetto,
    ),
    ForeignFile(
        "a table of rocprof or rocprofv3",
        "record the timeline as JSON: rocprofv3 --runtime-trace --output-format json",
        lambda head: re.match(rb'"?(Kind"?,"?Agent_Id|Index"?,"?KernelName|Dispatch_ID)', head) is not None,
    ),
    ForeignFile(
        "a table of Nsight Systems' or Nsight Compute's statistics, without a timeline",
        "give the report, or nsys export --type=sqlite of it",
        lambda head: re.match(rb'"?(Time \(%\)|ID"?,"?Process ID)"?,', head) is not None,
    ),
    ForeignFile(
        "an execution trace of PyTorch or Chakra, which has no GPU times",
        "give what torch.profiler's export_chrome_trace writes",
        _has_keys("schema", "nodes"),
    ),
    ForeignFile(
        "a profile of samples for speedscope",
        "record a timeline: nsys profile, or torch.profiler",
        lambda head: b"speedscope.app/file-format-schema" in head,
    ),
    ForeignFile(
        "a pickle of Python, such as torch's memory snapshot",
        "give what torch.profiler's export_chrome_trace writes",
        lambda head: re.match(rb"\x80[\x02-\x05]", head) is not None,
    ),
    ForeignFile(
        "a Git LFS pointer, not the file itself",
        "fetch it: git lfs pull",
        _starts(b"version https://git-lfs.github.com/spec/"),
    ),
    ForeignFile(
        "a web page",
        "download the file itself (on GitHub: the raw file)",
        lambda head: head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")),
    ),
]
