"""Readable groups for kernels, derived from their names.

The names are those of cuDNN, cuBLAS and CUTLASS, of PyTorch's own kernels, of Triton as PyTorch's compiler names them,
of NCCL, and of our own. The first group whose pattern is found in the name takes the kernel, so the more telling patterns
come first.
"""

import re
from functools import cache

import numpy as np
import pandas as pd

from speedproof.trace.events import are_named, bounds_of, cover_events
from speedproof.trace.intervals import Intervals, coverage, difference
from speedproof.util.units import NS_PER_S

OTHER = "other"
COMMUNICATION = "communication"

# Ordered: a kernel belongs to the first group whose pattern its name contains.
GROUPS: dict[str, str] = {
    "whole CUDA graph": r"^CUDA graph$",
    COMMUNICATION: r"nccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter",
    "layout change": (
        r"nchw_?(to|2)_?nhwc|nhwc_?(to|2)_?nchw|ncdhw_?to|ndhwc_?to|transpose|permute|tensorTransform|im2col|col2im"
        r"|vol2col|col2vol"
    ),
    "attention": r"flash|fmha|attention|sdpa",
    "few-channel convolution": r"(windows|neighbours)_(times|to)_|conv_runs_|(?<![a-z_])weights_(spread|sum|gather)",
    "batch norm": r"(?<![a-z_])norm_(sum|finish|apply|pass)|bn_fw|bn_bw|batch_?norm|cunn_?batch|batchnorm",
    "instance, layer or group norm": (
        r"layer_?norm|group_?norm|instance_?norm|rms_?norm|GammaBeta|RowwiseMoments|ComputeInternalGradients|Compute\w*FusedParams"
    ),
    "loss": r"nll_loss|cross_entropy|(?<![a-z])ce(?![a-z])|mse_loss|binary_cross|smooth_l1|kl_div",
    "softmax": r"soft_?max",
    "optimizer": r"multi_tensor|foreach|fused_?adam|adam|novograd|sgd",
    "convolution weight gradient": r"wgrad|weight_?grad|bwd_?filter|backward_?filter",
    "convolution data gradient": r"dgrad|data_?grad|bwd_?data|backward_?data",
    "convolution forward": r"fprop|implicit_?gemm|convolve|winograd|conv(?!ert)",
    "matrix product": r"gemm|gemv|nvjet|matmul|_mm_|splitk|cublas",
    "pooling and resampling": r"pool|upsample|interpolat|grid_sampl|affine_grid",
    "sort, search and index": (
        r"sort|topk|unique|scan|nonzero|index|gather|scatter|select|bincount|histogram|masked(?!_scale)|compact|where_kernel"
        r"|arange|write_indices|crop_\w*patches"
    ),
    "random numbers": r"philox|distribution|dropout|masked_scale|random|curand|rand_|bernoulli|uniform|normal_kernel",
    "reduction": r"reduce|triton_(red|per)_|reduction",
    "copy and cast": r"copy|_cast|CatArray|convert|clone|memcpy|to_copy|channels_move",
    "fill": r"fill|memset|zero",
    "elementwise": r"elementwise|triton_poi_|pointwise|cupy_|activation|relu|scale\w*Tensor|addTensor|vectorized|unrolled",
    "compiled, fused": r"triton_",
}

WEIGHT_GRADIENT, DATA_GRADIENT = "convolution weight gradient", "convolution data gradient"
# Groups whose kernels do most of the arithmetic of the operators that launch them.
MULTIPLYING = frozenset({
    "attention", "few-channel convolution", "convolution forward", "matrix product", WEIGHT_GRADIENT, DATA_GRADIENT,
})  # fmt: skip

_PATTERNS = {group: re.compile(pattern, re.IGNORECASE) for group, pattern in GROUPS.items()}

# CUTLASS and cuDNN: `xmma`, `tensorop` and instruction shapes such as `s16816` are tensor-core code, `simt` and `ffma`
# are not; `wgmma` and `gmma` are Hopper's instruction, and `nvjet` is cuBLAS' family of kernels built on it.
_TENSOR_CORES = re.compile(
    r"xmma(?!.*(ffma|simt))|tensor_?op|hmma|imma|wmma|gmma|nvjet|[shiz]1688|s16816|s884|h884|tensor16x8", re.I
)
_NO_TENSOR_CORES = re.compile(r"simt|ffma|[sd]gemm_\d|convolve\w*_[sd]gemm|gemv", re.IGNORECASE)


@cache
def group_of(name: str) -> str:
    """Return the readable group of a kernel, :data:`OTHER` where no pattern fits."""
    return next((group for group, pattern in _PATTERNS.items() if pattern.search(name)), OTHER)


def is_communication(name: str) -> bool:
    """Return whether a kernel sends to other GPUs, or waits for what they send."""
    return group_of(name) == COMMUNICATION


def uses_tensor_cores(name: str) -> bool | None:
    """Return whether the name shows that the kernel uses tensor cores; None if it does not show either."""
    if _TENSOR_CORES.search(name):
        return True
    return False if _NO_TENSOR_CORES.search(name) else None


def sum_kernels(kernels: pd.DataFrame, epochs: Intervals) -> pd.DataFrame:
    """Return each kernel's group, name, calls, total_ns, seconds_per_epoch, tensor_cores; the costliest first."""
    names, (start, end) = kernels["name"].array, bounds_of(kernels)
    length = end - start
    epoch = np.searchsorted(epochs.start, start, side="right") - 1
    counted = (epoch >= 0) & (start < epochs.end[epoch]) if len(epochs) else np.zeros(len(kernels), dtype=bool)
    sums = np.zeros((2, len(names.categories)), np.int64)
    np.add.at(sums[0], names.codes, length)
    np.add.at(sums[1], names.codes[counted], length[counted])
    calls = np.bincount(names.codes, minlength=len(names.categories))
    used = np.flatnonzero(calls)
    name = [str(name) for name in names.categories[used]]
    table = pd.DataFrame(
        {
            "group": pd.Series([*map(group_of, name)], dtype=object),
            "name": name,
            "calls": calls[used],
            "total_ns": sums[0][used],
            "seconds_per_epoch": sums[1][used] / max(len(epochs), 1) / NS_PER_S,
            "tensor_cores": pd.Series([*map(uses_tensor_cores, name)], dtype=object),
        }
    )
    return table.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)


def measure_communication(kernels: pd.DataFrame, epochs: Intervals) -> tuple[float, float]:
    """Return how long kernels communicate, and what of it no other kernel runs beside, in seconds an epoch."""
    communicates = are_named(kernels, is_communication)
    whole = cover_events(kernels, communicates)
    exposed = difference(whole, cover_events(kernels, ~communicates))
    whole_ns, exposed_ns = (int(coverage(part, epochs.start, epochs.end).sum()) for part in (whole, exposed))
    return whole_ns / len(epochs) / NS_PER_S, exposed_ns / len(epochs) / NS_PER_S
