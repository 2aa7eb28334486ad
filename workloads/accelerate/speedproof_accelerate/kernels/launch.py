"""Programmatic dependent launch: from Hopper on, a kernel may start while the previous one is finishing.

Until :func:`wait_for_previous` returns, a kernel must not read or write memory.
"""

import torch
import triton
import triton.language as tl

try:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
except ImportError:  # an older Triton, or one for GPUs of other vendors
    gdc_launch_dependents = gdc_wait = None

_KNOWN = gdc_wait is not None and torch.version.hip is None
_OVERLAPS = tl.constexpr(_KNOWN and torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0))

LAUNCH = {"launch_pdl": True} if _OVERLAPS else {}  # options of every launch


@triton.jit
def wait_for_previous() -> None:
    """Wait until the previous kernel has ended and its writes are visible."""
    if _OVERLAPS:
        gdc_wait()


@triton.jit
def allow_next() -> None:
    """Let the next kernel's programs start once all of this kernel's have started, and not only once they have ended.

    Use it in a kernel of few programs before one of many. If many programs called it, those of the next kernel would crowd the
    first multiprocessors that become free.
    """
    if _OVERLAPS:
        gdc_launch_dependents()
