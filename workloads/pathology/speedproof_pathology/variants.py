"""The variants: the documented two, what lies between them setting by setting, and one of ours."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Variant:
    """How one variant trains."""

    transforms: Literal[
        "cpu", "cucim", "torch"
    ]  # in worker processes | by cuCIM on the GPU | by torch, a batch at once, on the device
    pin_memory: bool
    cudnn: Literal["deterministic", "autotune"]  # deterministic: always seeded, too, as by MONAI's set_determinism
    precision: Literal["fp32", "fp16"]  # fp16: autocast with a gradient scaler, on a GPU
    optimizer: Literal["sgd", "novograd"]
    schedule: Literal["constant", "cosine"]


# performance_profiling/pathology/train_evaluate_nvtx.py --baseline and --optimized
BASELINE = Variant("cpu", pin_memory=False, cudnn="deterministic", precision="fp32", optimizer="sgd", schedule="constant")
GPU_TRANSFORMS = replace(BASELINE, transforms="cucim")
PINNED = replace(GPU_TRANSFORMS, pin_memory=True)
AUTOTUNED = replace(PINNED, cudnn="autotune")
HALF = replace(AUTOTUNED, precision="fp16")
NOVOGRAD = replace(HALF, optimizer="novograd")
OPTIMISED = replace(NOVOGRAD, schedule="cosine")
VARIANTS = {
    "baseline": BASELINE,
    "gpu_transforms": GPU_TRANSFORMS,
    "pinned": PINNED,
    "autotuned": AUTOTUNED,
    "half": HALF,
    "novograd": NOVOGRAD,
    "optimised": OPTIMISED,
    "batched": replace(OPTIMISED, transforms="torch"),
}
