"""Kernels that come in while the one before still goes out, where the GPU can: programmatic dependent launch, from Hopper on.

A kernel so launched may begin before the one before it has ended; until :func:`follow` returns it must read and write nothing.
"""

import torch
import triton
import triton.language as tl

try:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
except ImportError:  # an older Triton, or one for other makers' GPUs
    gdc_launch_dependents = gdc_wait = None

_KNOWN = gdc_wait is not None and torch.version.hip is None
_FOLLOWS = tl.constexpr(_KNOWN and torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0))

LAUNCH = {"launch_pdl": True} if _FOLLOWS else {}  # options of each launch


@triton.jit
def follow() -> None:
    """Wait until the kernel before has ended, and all that it wrote is there."""
    if _FOLLOWS:
        gdc_wait()


@triton.jit
def let_next_in() -> None:
    """Let the next kernel's programs come in as soon as all of this one's are there; else they come when these have ended.

    For a kernel of few programs before one of many: fewer, and they would all come in where the first places become free.
    """
    if _FOLLOWS:
        gdc_launch_dependents()
