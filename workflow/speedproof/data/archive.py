"""Unpacking archives of strangers: nothing may land outside the folder that they are unpacked into."""

import lzma
import shutil
import tarfile
import zlib
from pathlib import Path

from speedproof.data.folders import check_free_space
from speedproof.errors import DataError


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive into `folder`, without its own top folder and without the `._*` files that a Mac adds.

    Raises a :class:`DataError` for an archive that cannot be read, and for a member that would leave `folder`.
    """
    unpacked = folder / ".unpacked"
    try:
        with tarfile.open(archive) as tar:
            members = [member for member in tar if not Path(member.name).name.startswith("._")]
            if not members:
                raise tarfile.ReadError("nothing is in it")
            check_free_space(folder, sum(member.size for member in members), f"unpacking {archive.name}")
            tar.extractall(unpacked, members, filter="data")
    except tarfile.FilterError as error:
        raise DataError(
            f"{archive}: {error.tarinfo.name} would land outside the folder or is no plain file; do not use it"
        ) from None
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; damaged gzip and bzip2 archives have no number
        problem = str(error).partition(":\n")[0]  # without a line for each compression that was tried
        raise DataError(f"{archive}: not a readable tar archive ({problem}); delete it and run again") from None
    tops = list(unpacked.iterdir())
    top = tops[0] if len(tops) == 1 and tops[0].is_dir() else unpacked
    for child in top.iterdir():
        child.rename(folder / child.name)
    shutil.rmtree(unpacked)
