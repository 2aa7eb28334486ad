"""Rows of 32 values in the register order of tensor cores, so that they go from memory to registers without shared memory.

A thread that loads 8 consecutive values of a row holds other columns than its fragment of the left matrix needs (PTX ISA,
register fragments of wgmma). Rows and columns are permuted so that both agree, and the right matrix is laid out in the same
order.
"""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def to_fragments(values, WARPS: tl.constexpr):
    """Return rows of 32 values, loaded 8 to a thread, in the order of a left matrix."""
    RUN: tl.constexpr = values.shape[0] // (16 * WARPS)
    # From (run, two rows, warp, row, thread, block, two columns, pair).
    values = tl.permute(tl.reshape(values, (RUN, 2, WARPS, 8, 4, 2, 2, 2)), (0, 2, 1, 3, 5, 6, 4, 7))
    return tl.reshape(values, (RUN * 16 * WARPS, 32))


@triton.jit
def from_fragments(total, WARPS: tl.constexpr):
    """Return rows of 32 results in the order in which the volumes have them."""
    RUN: tl.constexpr = total.shape[0] // (16 * WARPS)
    # From (run, warp, two rows, row, block, thread, pair).
    total = tl.permute(tl.reshape(total, (RUN, WARPS, 2, 8, 4, 4, 2)), (0, 2, 1, 3, 5, 4, 6))
    return tl.reshape(total, (RUN * 16 * WARPS, 32))


def reorder_matrices(matrices: Tensor) -> Tensor:
    """Return right matrices, their last two axes in the order of fragments: 32 rows, and columns in groups of 32."""
    *others, _, columns = matrices.shape
    # Rows: (thread, block, two columns, pair); columns: (group, thread, block, pair).
    split = matrices.reshape(-1, 4, 2, 2, 2, columns // 32, 4, 4, 2)
    return split.permute(0, 2, 3, 1, 4, 5, 7, 6, 8).reshape(*others, 32, columns)
