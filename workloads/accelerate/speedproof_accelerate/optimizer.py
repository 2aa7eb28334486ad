"""What training takes of an optimizer, and a gradient scaler that leaves it the search for overflows."""

from typing import Any, Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    """One of torch's, or our own (kernels/adam.py), which is none of these."""

    param_groups: list[dict[str, Any]]

    def zero_grad(self) -> None:
        """Forget the gradients."""

    def step(self) -> Any:
        """Update the weights."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a training goes on from."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Go on from there."""


class Scaler(torch.amp.GradScaler):
    """Torch's gradient scaler, where an optimizer that divides by the scale itself also finds overflows itself.

    Torch's own search multiplies all gradients by 1, and writes them, too.
    """

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[torch.device, Tensor]:
        if not (allow_fp16 and hasattr(optimizer, "find_overflow")):  # `unscale_` allows none: it wants gradients divided
            return super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        optimizer.find_overflow(found_inf)
        return {found_inf.device: found_inf}
