"""Unpacking archives of strangers: nothing may land outside the folder that they are unpacked into.

Names are checked and files written here, on every version of Python alike: `tarfile` itself has had filters since 3.11.4 only.
"""

import lzma
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from speedproof.common.errors import DataError
from speedproof.fetch.folders import check_free_space


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive's files into `folder`, without its own top folder and without the `._*` files that a Mac adds.

    Raises a :class:`DataError` for an archive that cannot be read, and for a member that would leave `folder`, or that is
    neither a file nor a folder. Of a file that stands twice the later one counts. Owners, rights and times are not taken over.
    """
    unpacked = folder / ".unpacked"
    try:
        with tarfile.open(archive) as tar:
            files = _list_files(archive, tar)
            check_free_space(folder, sum(member.size for member in files.values()), f"unpacking {archive.name}")
            for place, member in files.items():
                _write_file(tar, member, unpacked / place)
    except (
        tarfile.TarError,
        EOFError,
        OSError,
        zlib.error,
        lzma.LZMAError,
        ValueError,
        ArithmeticError,
        RecursionError,
        MemoryError,  # a header says how long it is, and may lie
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; damaged gzip and bzip2 archives have no number
        # Without a line for each compression that was tried; running out of memory has no words of its own.
        problem = str(error).partition(":\n")[0] or "a header longer than memory"
        raise DataError(f"{archive}: not a readable tar archive ({problem}); delete it and run again") from None
    tops = list(unpacked.iterdir())
    top = tops[0] if len(tops) == 1 and tops[0].is_dir() else unpacked
    for child in top.iterdir():
        child.rename(folder / child.name)
    shutil.rmtree(unpacked)


def _list_files(archive: Path, tar: tarfile.TarFile) -> dict[PurePosixPath, tarfile.TarInfo]:
    """Return the files of an archive by where they land; folders follow from these."""
    files: dict[PurePosixPath, tarfile.TarInfo] = {}
    for member in tar:
        place = PurePosixPath(member.name.lstrip("/"))
        # A link may lead anywhere, a sparse file claims any size, and one of a size below 0 would be read for ever.
        is_plain = member.isdir() or (member.isreg() and not member.issparse() and place.parts and member.size >= 0)
        if ".." in place.parts or "\0" in member.name or not is_plain:
            raise DataError(f"{archive}: {member.name} would land outside the folder or is no plain file; do not use it")
        if not member.isdir() and not place.name.startswith("._"):
            files[place] = member
    if not files:
        raise tarfile.ReadError("nothing is in it")
    for place in files:
        if any(parent in files for parent in place.parents):
            raise tarfile.ReadError(f"{place} lies in a file")
    return files


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(member)
    assert content is not None  # it is a file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(content, file)
    if path.stat().st_size != member.size:
        raise tarfile.ReadError("unexpected end of data")
