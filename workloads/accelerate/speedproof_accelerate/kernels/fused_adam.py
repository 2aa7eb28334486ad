"""Adam for all parameters in one launch. It reads the gradients of half-precision copies of weights, and writes the copies."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from speedproof_accelerate.copies import WeightCopies
from speedproof_accelerate.kernels.launch import LAUNCH, allow_next, wait_for_previous

_BLOCK, _WARPS = 512, 4  # values that a program takes, and its warps
# Columns of the table, one row per parameter: addresses of parameter, gradient, both means and copy (0: none), and its size.
_COLUMNS = 6


@triton.jit
def adam_count(powers, betas, overflow):
    """One program: both betas to the power of the steps taken, including this one unless a gradient overflowed."""
    wait_for_previous()
    allow_next()
    number = tl.arange(0, 2)
    power = tl.load(powers + number)
    tl.store(powers + number, tl.where(tl.load(overflow) == 0, power * tl.load(betas + number), power))


@triton.jit
def _load_gradient(row, like, index, inside):
    """Return a block of a parameter's gradient; if the parameter has a copy, in half precision, that of `like`."""
    if tl.load(row + 4) == 0:
        gradient = tl.load(tl.load(row + 1).to(tl.pointer_type(tl.float32)) + index, mask=inside, other=0.0)
    else:
        of_copy = tl.load(row + 1).to(tl.pointer_type(like.dtype.element_ty)) + index
        gradient = tl.load(of_copy, mask=inside, other=0.0).to(tl.float32)
    return gradient


@triton.jit
def adam_find_overflow(table, places, like, overflow, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """Each program: a block as `adam_update` takes it; `overflow` becomes 1 where a gradient is not finite."""
    wait_for_previous()
    row = table + tl.load(places + 2 * tl.program_id(0)) * COLUMNS
    index = tl.load(places + 2 * tl.program_id(0) + 1) * BLOCK + tl.arange(0, BLOCK)
    gradient = _load_gradient(row, like, index, index < tl.load(row + 5))
    finite = tl.abs(gradient) < float("inf")  # false for NaN, too
    if tl.min(finite.to(tl.int32), axis=0) == 0:
        tl.store(overflow, 1.0)


@triton.jit
def adam_update(table, places, like, rate, powers, betas, scale, overflow, epsilon, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """Each program: a block of one parameter, `places` says which of which; nothing where a gradient overflowed.

    A parameter with a copy has its gradient in the copy's precision, which is that of `like`.
    """
    wait_for_previous()
    # Before it is known whether there is an overflow: what follows one another are as few loads as can be.
    row = table + tl.load(places + 2 * tl.program_id(0)) * COLUMNS
    index = tl.load(places + 2 * tl.program_id(0) + 1) * BLOCK + tl.arange(0, BLOCK)
    inside = index < tl.load(row + 5)
    if tl.load(overflow) == 0:
        parameter = tl.load(row).to(tl.pointer_type(tl.float32)) + index
        mean = tl.load(row + 2).to(tl.pointer_type(tl.float32)) + index
        square = tl.load(row + 3).to(tl.pointer_type(tl.float32)) + index
        copy = tl.load(row + 4)
        gradient = _load_gradient(row, like, index, inside)
        gradient *= 1.0 / tl.load(scale)  # one division of all values; a scale is a power of two
        beta, beta_of_square = tl.load(betas).to(tl.float32), tl.load(betas + 1).to(tl.float32)
        m = tl.load(mean, mask=inside, other=0.0)
        m += (1.0 - beta) * (gradient - m)
        v = beta_of_square * tl.load(square, mask=inside, other=0.0) + (1.0 - beta_of_square) * gradient * gradient
        step = tl.load(rate) / (1.0 - tl.load(powers)).to(tl.float32)
        apart = tl.sqrt(v) * (1.0 / tl.sqrt((1.0 - tl.load(powers + 1)).to(tl.float32))) + epsilon
        value = tl.load(parameter, mask=inside, other=0.0) - step * m / apart
        tl.store(parameter, value, mask=inside)
        tl.store(mean, m, mask=inside)
        tl.store(square, v, mask=inside)
        if copy != 0:
            tl.store(copy.to(tl.pointer_type(like.dtype.element_ty)) + index, value.to(like.dtype.element_ty), mask=inside)


class FusedAdam:
    """Adam (Kingma and Ba, 2015) as torch's fused one computes it, without weight decay, on a GPU.

    All means of gradients lie in one tensor, and those of squares. What a gradient scaler gives (`grad_scale`, `found_inf`)
    is read on the device; a step whose gradients overflowed is left out. It has what schedules, scalers and checkpoints take
    of torch's optimizers, and is none: the first of these that is made imports torch's compiler, which takes seconds.
    """

    _step_supports_amp_scaling = True  # tells the scaler that it need not unscale

    def __init__(self, copies: WeightCopies, rate: float, betas: tuple[float, float]) -> None:
        """Take what is trained: weights in single precision, and their copies, whose gradients are read."""
        pairs = copies.pair_weights()
        self._copies = copies
        self._pairs = pairs
        self._device = pairs[0].weight.device
        self.param_groups: list[dict[str, Any]] = [
            {"params": [pair.leaf for pair in pairs], "lr": torch.tensor(rate, device=self._device), "eps": 1e-8}
        ]
        self._sizes = [pair.weight.numel() for pair in pairs]
        blocks = [(row, block) for row, size in enumerate(self._sizes) for block in range(triton.cdiv(size, _BLOCK))]
        self._places = torch.tensor(blocks, dtype=torch.int32, device=self._device)
        self._betas = torch.tensor(betas, dtype=torch.float64, device=self._device)
        self._no_overflow, self._no_scale = torch.zeros((), device=self._device), torch.ones((), device=self._device)
        self._noted: list[int] = []  # where the gradients were
        self._table = torch.empty(0, device=self._device)
        self._recorded: list[Tensor] = []  # tables that recorded steps read
        self._means, self._squares = (torch.zeros(sum(self._sizes), device=self._device) for _ in range(2))
        self._powers = torch.ones(2, dtype=torch.float64, device=self._device)  # of both betas, to the steps taken

    def note_gradients(self) -> None:
        """Write down, on the device, where all gradients lie: a step that is recorded reads what was noted before it."""
        addresses = [0 if pair.leaf.grad is None else pair.leaf.grad.data_ptr() for pair in self._pairs]
        if addresses == self._noted:
            return
        self._noted = addresses
        rows, first = [], 0
        for pair, gradient, size in zip(self._pairs, addresses, self._sizes, strict=True):
            own = (self._means[first:].data_ptr(), self._squares[first:].data_ptr())
            copy = 0 if pair.leaf is pair.weight else pair.leaf.data_ptr()
            rows.append((pair.weight.data_ptr(), gradient, *own, copy, size if gradient else 0))
            first += size
        table = torch.tensor(rows, pin_memory=self._device.type == "cuda")
        self._table = table.to(self._device, non_blocking=True)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for pair in self._pairs:
            pair.leaf.grad = None

    def find_overflow(self, overflow: Tensor) -> None:
        """Set a tensor of one value to 1 if a gradient is not finite; else it stays."""
        self._note_unless_recording()
        adam_find_overflow[(len(self._places),)](
            self._table, self._places, self._copies.like, overflow, COLUMNS=_COLUMNS, BLOCK=_BLOCK, num_warps=_WARPS, **LAUNCH
        )

    def _note_unless_recording(self) -> None:
        if self._device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            self._recorded.append(self._table)
        else:
            self.note_gradients()

    @torch.no_grad()
    def step(self) -> None:
        """Update all weights and their copies."""
        self._note_unless_recording()
        group = self.param_groups[0]
        overflow, scale = getattr(self, "found_inf", self._no_overflow), getattr(self, "grad_scale", self._no_scale)
        adam_count[(1,)](self._powers, self._betas, overflow, num_warps=1, **LAUNCH)
        adam_update[(len(self._places),)](
            self._table, self._places, self._copies.like, group["lr"], self._powers, self._betas, scale, overflow, group["eps"],
            COLUMNS=_COLUMNS, BLOCK=_BLOCK, num_warps=_WARPS, **LAUNCH,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a training goes on from: the rate, the means of gradients and of squares, the betas' powers."""
        return {"rate": self.param_groups[0]["lr"], "means": self._means, "squares": self._squares, "powers": self._powers}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Take a state, and the weights' copies from the weights, which were loaded before."""
        for name, own in self.state_dict().items():
            own.copy_(state_dict[name])
        self._copies.refresh()
