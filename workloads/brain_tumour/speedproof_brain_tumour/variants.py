"""The variants: what the documented programs do, as one record each, and what lies between them."""

from dataclasses import dataclass, replace
from typing import Any, Literal

Size = tuple[int, int, int]


@dataclass(frozen=True)
class Variant:
    """How one variant trains. Sizes are voxels."""

    cache: Literal["none", "gpu"]  # gpu: a rank's share of the cases, as its deterministic transforms leave them, on its GPU
    loader: Literal["process", "thread"]  # processes of torch's loader, or one thread of MONAI's
    workers: int
    loss: Literal["dice", "dice_focal"]
    optimizer: Literal["adam", "novograd"]
    dropout: float
    augment_share: float  # of the crops whose intensities are scaled and shifted
    validate_every: int  # epochs
    window_overlap: float
    window_batch: int
    partitioned: bool  # the cases shuffled once before they are shared out, to one rank, too
    deterministic: bool  # always seeded, and cuDNN's deterministic kernels alone, as by set_determinism
    learning_rate: float = 1e-4
    resident: bool = False  # cases in half precision on the GPU, their crops made there at once (resident.py)
    channels_last: bool = False
    fused_optimizer: bool = False  # Novograd of a dozen launches
    fused_loss: bool = False  # Dice and focal loss in two passes
    read_losses: Literal["step", "epoch"] = "step"  # after how much the processor waits for losses
    kernels: bool = False  # of speedproof_accelerate: norms with activations, few channels, enlargements
    graphs: bool = False  # forward and backward launched as one CUDA graph each
    crop: Size = (224, 224, 144)
    window: Size = (240, 240, 160)


# 3d_segmentation/brats_segmentation_3d.ipynb
PLAIN = Variant(
    cache="none",
    loader="process",
    workers=4,
    loss="dice",
    optimizer="adam",
    dropout=0.2,
    augment_share=1.0,
    validate_every=1,
    window_overlap=0.5,
    window_batch=1,
    partitioned=False,
    deterministic=True,
)
# acceleration/distributed_training/brats_training_ddp.py
FAST = Variant(
    cache="gpu",
    loader="thread",
    workers=0,
    loss="dice_focal",
    optimizer="novograd",
    dropout=0.0,
    augment_share=0.5,
    validate_every=20,
    window_overlap=0.6,
    window_batch=4,
    partitioned=True,
    deterministic=False,
)
VARIANTS = {
    "plain": PLAIN,
    "cached": replace(PLAIN, cache="gpu", loader="thread", workers=0),
    "algorithm": replace(FAST, cache="none", loader="process", workers=4),
    "fast": FAST,
}
# From the fast variant to ours, one switch after another.
STEPS: dict[str, dict[str, Any]] = {
    "resident": {"resident": True},
    "channels_last": {"channels_last": True},
    "fused_optimizer": {"fused_optimizer": True},
    "read_once": {"read_losses": "epoch"},
    "fused_loss": {"fused_loss": True},
    "kernels": {"kernels": True},
    "turbo": {"graphs": True},
}
_variant = FAST
for _name, _switch in STEPS.items():
    VARIANTS[_name] = _variant = replace(_variant, **_switch)
