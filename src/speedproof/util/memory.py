"""Memory that is freed: whether this process gives it back to the system, or keeps it for its next arrays.

Large arrays that glibc maps and gives back, one after the other, cost the system more time than the analysis of their content.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# Of glibc's malloc.h, and its defaults.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4
_DEFAULT_PAD, _DEFAULT_MMAP_MAX = 128 << 10, 65536
_LARGE, _AT_ONCE = 4 << 20, 64 << 20  # bytes
_NEVER = -1


@cache
def _find_glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def return_freed_memory() -> None:
    """Let this process give large arrays back as they are freed: by itself glibc keeps hundreds of megabytes of them."""
    if (library := _find_glibc()) is not None:
        library.mallopt(_MMAP_THRESHOLD, _LARGE)


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Let this process keep the memory of freed arrays for the next ones; at the end, all of it goes back."""
    if (library := _find_glibc()) is None:
        yield
        return
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, _NEVER)
    library.mallopt(_TOP_PAD, _AT_ONCE)
    try:
        yield
    finally:
        library.mallopt(_MMAP_MAX, _DEFAULT_MMAP_MAX)
        library.mallopt(_TRIM_THRESHOLD, _LARGE)
        library.mallopt(_TOP_PAD, _DEFAULT_PAD)
        return_freed_memory()
        trim_memory()


def trim_memory() -> None:
    """Give back what is kept and not in use."""
    if (library := _find_glibc()) is not None:
        library.malloc_trim(0)
