"""Memory that is freed, and that the system gets back."""

import ctypes
from contextlib import suppress

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of glibc's malloc.h
_LARGE = 4 << 20  # bytes


def return_freed_memory() -> None:
    """Let this process give large arrays back as they are freed: by itself glibc keeps hundreds of megabytes of them."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)
