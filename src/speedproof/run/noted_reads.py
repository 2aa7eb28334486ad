"""Which files were read while something ran, by the system's time of the last access."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# In the past: systems that set the time once a day (relatime) also do so if the file was changed since.
_LONG_AGO_NS = 1


@contextmanager
def noting_reads(paths: Iterable[Path]) -> Iterator[list[Path]]:
    """Yield a list that holds those of these files that were read in the block, once it has ended.

    None is noted where the system keeps no such times (noatime).
    """
    before: dict[Path, int] = {}
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            os.utime(path, ns=(_LONG_AGO_NS, status.st_mtime_ns))
            before[path] = status.st_atime_ns
    read: list[Path] = []
    yield read
    for path, accessed_ns in before.items():
        with suppress(OSError):
            status = path.stat()
            if status.st_atime_ns != _LONG_AGO_NS:
                read.append(path)
            else:
                os.utime(path, ns=(accessed_ns, status.st_mtime_ns))
