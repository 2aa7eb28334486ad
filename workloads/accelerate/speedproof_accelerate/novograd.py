"""Novograd in a dozen launches, whatever the number of parameters; it waits for nothing.

MONAI's takes some ten launches for each parameter, and waits for the device each time to see whether it is the first step.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor


class Novograd(torch.optim.Optimizer):
    """Novograd as `monai.optimizers.Novograd` computes it, without weight decay.

    What a gradient scaler gives is read on the device; a step whose gradients overflowed is left out. Source: B. Ginsburg et
    al., "Stochastic Gradient Methods with Layer-wise Adaptive Moments for Training of Deep Networks", arXiv 1905.11286.
    """

    _step_supports_amp_scaling = True  # tells the scaler that it need not unscale

    def __init__(
        self, params: Iterable[Tensor], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.98), eps: float = 1e-8
    ) -> None:
        """Take parameters, all of which get gradients, in single precision and on one device."""
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        (group,) = self.param_groups
        self._params: list[Tensor] = group["params"]
        sizes = torch.tensor([one.numel() for one in self._params])
        device = self._params[0].device
        # Of each value, whose it is; means of gradients, one behind the other; of each parameter, that of its norm's square.
        self._owners = torch.repeat_interleave(torch.arange(len(sizes)), sizes).int().to(device)
        self._means = torch.zeros(int(sizes.sum()), device=device)
        self._squares = torch.zeros(len(sizes), device=device)
        self._share_out()

    def _share_out(self) -> None:
        """Let each parameter's state be its piece of what all have."""
        pieces = self._means.split([one.numel() for one in self._params])
        for number, (one, piece) in enumerate(zip(self._params, pieces, strict=True)):
            self.state[one] = {"exp_avg": piece.view(one.shape), "exp_avg_sq": self._squares[number]}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state."""
        super().load_state_dict(state_dict)
        for number, (one, piece) in enumerate(
            zip(self._params, self._means.split([p.numel() for p in self._params]), strict=True)
        ):
            piece.copy_(self.state[one]["exp_avg"].flatten())
            self._squares[number] = self.state[one]["exp_avg_sq"]
        self._share_out()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters."""
        loss = None if closure is None else closure()
        (group,) = self.param_groups
        beta, beta_of_square = group["betas"]
        scale: Tensor | None = getattr(self, "grad_scale", None)
        overflow: Tensor | None = getattr(self, "found_inf", None)
        gradients = [cast(Tensor, one.grad) for one in self._params]
        norms = torch.stack(torch._foreach_norm(gradients))
        flat = torch.cat([one.flatten() for one in gradients])
        if scale is not None:
            norms, flat = norms / scale, flat / scale
        squares = norms.square()
        squares = torch.where(self._squares == 0, squares, torch.lerp(squares, self._squares, beta_of_square))
        means = beta * self._means + flat / (squares.sqrt() + group["eps"])[self._owners]
        change = means
        if overflow is not None:
            failed = overflow != 0
            squares, means = torch.where(failed, self._squares, squares), torch.where(failed, self._means, means)
            change = torch.where(failed, 0.0, means)
        self._squares.copy_(squares)
        self._means.copy_(means)
        pieces = change.split([one.numel() for one in self._params])
        changes = [piece.view(one.shape) for one, piece in zip(self._params, pieces, strict=True)]
        torch._foreach_add_(self._params, changes, alpha=-group["lr"])
        return loss
