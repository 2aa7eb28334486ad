"""Unpacking archives of strangers: nothing may land outside the folder that they are unpacked into.

Names are checked and files written here, on every version of Python alike: `tarfile` itself has had filters since 3.11.4 only.
"""

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from speedproof.results.complete_folders import check_free_space
from speedproof.util.errors import DataError


@dataclass(frozen=True)
class _Member:
    """A member of an archive, whichever kind that is."""

    name: str
    size: int
    is_folder: bool
    is_plain: bool  # a file that is all there, and not a link or a device
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive's files into `folder`, without its own top folder and without the `._*` files that a Mac adds.

    It is a tar archive, or a ZIP archive where its name ends so. Raises a :class:`DataError` for an archive that cannot be
    read, and for a member that would leave `folder`, or that is neither a file nor a folder. Of a file that stands twice the
    later one counts. Owners, rights and times are not taken over.
    """
    unpacked = folder / ".unpacked"
    try:
        with _reading(archive) as members:
            files = _list_files(archive, members)
            check_free_space(folder, sum(member.size for member in files.values()), f"unpacking {archive.name}")
            for place, member in files.items():
                _write_file(member, unpacked / place)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        RuntimeError,  # packed in a way that Python cannot read, or behind a password; or names nested too deep
        EOFError,
        OSError,
        zlib.error,
        lzma.LZMAError,
        ValueError,
        ArithmeticError,
        MemoryError,  # a header says how long it is, and may lie
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; damaged gzip and bzip2 archives have no number
        # Without a line for each compression that was tried; running out of memory has no words of its own.
        problem = str(error).partition(":\n")[0] or "a header longer than memory"
        raise DataError(f"{archive}: not a readable {_kind(archive)} archive ({problem}); delete it and run again") from None
    tops = list(unpacked.iterdir())
    top = tops[0] if len(tops) == 1 and tops[0].is_dir() else unpacked
    for child in top.iterdir():
        child.rename(folder / child.name)
    shutil.rmtree(unpacked)


def _kind(archive: Path) -> str:
    return "ZIP" if archive.suffix.lower() == ".zip" else "tar"


@contextmanager
def _reading(archive: Path) -> Iterator[Iterator[_Member]]:
    if _kind(archive) == "ZIP":
        with zipfile.ZipFile(archive) as packed:
            yield (_of_zip(packed, member) for member in packed.infolist())
    else:
        with tarfile.open(archive) as tar:
            yield (_of_tar(tar, member) for member in tar)


def _of_tar(tar: tarfile.TarFile, member: tarfile.TarInfo) -> _Member:
    # A link may lead anywhere, a sparse file claims any size, and one of a size below 0 would be read for ever.
    is_plain = member.isreg() and not member.issparse() and member.size >= 0
    return _Member(member.name, member.size, member.isdir(), is_plain, lambda: tar.extractfile(member))


def _of_zip(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Member:
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archive was made without kinds of files
    return _Member(member.filename, member.file_size, member.is_dir(), kind in (0, stat.S_IFREG), lambda: packed.open(member))


def _list_files(archive: Path, members: Iterator[_Member]) -> dict[PurePosixPath, _Member]:
    """Return the files of an archive by where they land; folders follow from these."""
    files: dict[PurePosixPath, _Member] = {}
    for member in members:
        place = PurePosixPath(member.name.lstrip("/"))
        is_plain = member.is_folder or (member.is_plain and bool(place.parts))
        if ".." in place.parts or "\0" in member.name or not is_plain:
            raise DataError(f"{archive}: {member.name} would land outside the folder or is no plain file; do not use it")
        if not member.is_folder and not place.name.startswith("._"):
            files[place] = member
    if not files:
        raise tarfile.ReadError("nothing is in it")
    for place in files:
        if any(parent in files for parent in place.parents):
            raise tarfile.ReadError(f"{place} lies in a file")
    return files


def _write_file(member: _Member, path: Path) -> None:
    content = member.open()
    assert content is not None  # it is a file
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("xb") as file:
        shutil.copyfileobj(content, file)
    if path.stat().st_size != member.size:
        raise tarfile.ReadError("unexpected end of data")
