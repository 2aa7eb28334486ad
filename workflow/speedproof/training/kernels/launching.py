"""Kernels that come in while the one before still goes out, where the GPU can: programmatic dependent launch, from Hopper on.

A kernel so launched may begin before the one before it has ended; until :func:`follow` returns it must read and write nothing.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

_CAN_FOLLOW = torch.cuda.is_available() and torch.version.hip is None and torch.cuda.get_device_capability() >= (9, 0)
_FOLLOWS = tl.constexpr(_CAN_FOLLOW)

LAUNCH = {"launch_pdl": True} if _CAN_FOLLOW else {}  # options of each launch


@triton.jit
def follow() -> None:
    """Wait until the kernel before has ended, and all it wrote is there; let the next come in once all programs are here."""
    if _FOLLOWS:
        gdc_wait()
        gdc_launch_dependents()
