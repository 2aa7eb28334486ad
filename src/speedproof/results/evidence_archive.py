"""Evidence: the files of a results folder as they lie on disk, or as members of the `evidence.zip` of a record.

A record's archive is read in place and never unpacked. If a path such as `RECORD/experiments/experiment-1/plan.json` is
not on disk, it names a member of `RECORD/evidence.zip`. Each member has the bytes of the file that was packed, so that digests
of files hold for members.
"""

import os
import re
import stat
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NoReturn

from speedproof.results.names import check_relative_path, inside
from speedproof.util.errors import RecordError
from speedproof.util.units import MIB

EVIDENCE_FILE = "evidence.zip"
EXPERIMENTS_FOLDER = "experiments"
OLD_EXPERIMENTS_FOLDER = "blocks"  # of versions before 0.3; evidence is read as it is

# Limits of an archive, which may come from anybody; `speedproof results archive` writes at most 32 MiB.
LARGEST_ARCHIVE_MIB, LARGEST_MEMBER_MIB, ALL_MEMBERS_MIB = 64, 256, 1024
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)
_WITHOUT_WILDCARD = re.compile(r"[^*?[]*")
_NO_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a ZIP file can hold


@dataclass(frozen=True)
class EvidenceArchive:
    """An `evidence.zip` that was found to be one."""

    path: Path
    file: zipfile.ZipFile
    members: dict[str, zipfile.ZipInfo]

    def read(self, name: str) -> bytes:
        """Return the content of a member; one that is damaged is a :class:`RecordError`."""
        member = self.members[name]
        try:
            with self.file.open(member) as content:
                return content.read(member.file_size + 1)  # never more than it says, which was checked
        except _UNREADABLE as error:
            _refuse(self.path, f"{name}: {' '.join(str(error).split()) or 'is cut off'}")


def is_there(path: Path) -> bool:
    """Return whether a file or folder is on disk or in its record's archive."""
    return path.exists() or _find(path) is not None or any(_list_below(path))


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder on disk, or members of its record's archive lie below it."""
    return path.is_dir() or any(_list_below(path))


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Return the paths below a folder that fit a pattern of as many parts as they have, on disk and in its archive, sorted."""
    parts = PurePosixPath(pattern).parts
    start, depth = _WITHOUT_WILDCARD.match("/".join(parts)).group(), len(parts) - 1  # type: ignore[union-attr]
    packed = (name for name in _list_below(folder) if name.startswith(start) and name.count("/") == depth)
    fitting = (folder / name for name in packed if all(map(fnmatchcase, name.split("/"), parts)))
    return sorted({*folder.glob(pattern), *fitting})


def size_below(folder: Path) -> int:
    """Return how many bytes the files below a folder have, those of an archive as they were before they were packed."""
    on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if not (found := _find_archive(folder)):
        return on_disk
    archive, prefix = found
    return on_disk + sum(member.file_size for name, member in archive.members.items() if name.startswith(prefix))


def read_packed(path: Path) -> bytes | None:
    """Return the content of a member of a record's archive; None for a path that is none."""
    found = _find(path)
    return found[0].read(found[1]) if found else None


def find_archive(path: Path) -> Path | None:
    """Return the `evidence.zip` in which the file of a path belongs, whether or not it has it; None of what is not packed."""
    return next((root / EVIDENCE_FILE for root in _roots(path) if (root / EVIDENCE_FILE).is_file()), None)


def pack(folder: Path, archive: Path, beside: Collection[str] = ()) -> None:
    """Write all files of a folder but those named in `beside` to an archive: of the same files always the same bytes."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    with zipfile.ZipFile(archive, "x") as file:
        for name in names:
            if name not in beside:
                content = (folder / name).read_bytes()
                member = zipfile.ZipInfo(name, _NO_DATE)
                member.create_system, member.external_attr = 3, (stat.S_IFREG | 0o644) << 16
                gains = len(zlib.compress(content, 9)) < len(content)
                member.compress_type = zipfile.ZIP_DEFLATED if gains else zipfile.ZIP_STORED
                file.writestr(member, content, compresslevel=9)


def _roots(path: Path) -> Iterator[Path]:
    """Yield the folders whose archive may hold a path: its own, and those above of which it is an experiment's."""
    yield path.parent
    yield from (above.parent for above in (path, *path.parents) if above.name in (EXPERIMENTS_FOLDER, OLD_EXPERIMENTS_FOLDER))


def _find_archive(path: Path) -> tuple[EvidenceArchive, str] | None:
    """Return the archive that has, or may have, members below a folder, and the folder's name in it, with a slash."""
    for root in (path, *_roots(path)):
        if archive := _open_once(root):
            return archive, "" if root == path else f"{path.relative_to(root).as_posix()}/"
    return None


def _list_below(folder: Path) -> Iterator[str]:
    if found := _find_archive(folder):
        archive, prefix = found
        yield from (name.removeprefix(prefix) for name in archive.members if name.startswith(prefix))


def _find(path: Path) -> tuple[EvidenceArchive, str] | None:
    """Return the archive that has a path's file, and its member's name."""
    for root in _roots(path):
        if archive := _open_once(root):
            name = path.relative_to(root).as_posix()
            return (archive, name) if name in archive.members else None
    return None


def _open_once(root: Path) -> EvidenceArchive | None:
    """Return a folder's archive, kept open by this process until the file is replaced; None if the folder has none."""
    path = root / EVIDENCE_FILE
    try:
        about = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(about.st_mode):  # a pipe would be waited for
        _refuse(path, "not a regular file")
    if about.st_size > LARGEST_ARCHIVE_MIB * MIB:
        _refuse(path, f"larger than {LARGEST_ARCHIVE_MIB} MiB")
    # A forked process would move its parent's place in the file.
    return _open(path.absolute(), path, os.getpid(), about.st_mtime_ns, about.st_size, about.st_ino)


@lru_cache(maxsize=8)
def _open(_absolute: Path, path: Path, *_version: int) -> EvidenceArchive:
    inside(path.parent, path.name)
    try:
        file = zipfile.ZipFile(path)
    except _UNREADABLE as error:
        _refuse(path, f"not a readable ZIP file ({' '.join(str(error).split())})")
    return EvidenceArchive(path, file, _check_members(path, file))


def _check_members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return an archive's members by name; reject it if one of them leads elsewhere, cannot be read, or is too large."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.orig_filename  # with what ZipFile leaves out of it
        if name.endswith("/") and not member.file_size:
            continue  # a folder, as most programs write one
        try:
            check_relative_path(name)
        except ValueError as error:
            _refuse(path, f"{name!r:.60}: {error}")
        if name in members:
            _refuse(path, f"{name}: is in it twice")
        if member.flag_bits & 1:
            _refuse(path, f"{name}: is encrypted")
        if member.compress_type not in _METHODS:
            _refuse(path, f"{name}: is compressed by method {member.compress_type}, not by deflate")
        if member.file_size > LARGEST_MEMBER_MIB * MIB:
            _refuse(path, f"{name}: would unpack to more than {LARGEST_MEMBER_MIB} MiB")
        members[name] = member
    if sum(member.file_size for member in members.values()) > ALL_MEMBERS_MIB * MIB:
        _refuse(path, f"would unpack to more than {ALL_MEMBERS_MIB} MiB")
    for top in sorted({name.partition("/")[0] for name in members}):
        if (path.parent / top).exists():
            raise RecordError(f"{path}: holds {top}, which is beside it, too; remove one of the two")
    return members


def _refuse(path: Path, why: str) -> NoReturn:
    raise RecordError(f"{path}: {why}; get the record's {EVIDENCE_FILE} again") from None
