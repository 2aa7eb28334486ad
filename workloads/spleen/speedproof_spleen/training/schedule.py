"""The learning rate of each step, as a variant's schedule says, set without a wait for the device.

torch's own LambdaLR would serve but for two things: it warns where a gradient scaler leaves out the first step, as scalers do,
and it multiplies on the device where the rate lies there, a few kernels a step.
"""

import math

import torch

from speedproof_accelerate.optimizer import Optimizer
from speedproof_spleen.variant import SpleenVariant, WarmUpDecay


class Schedule:
    """Sets an optimizer's learning rate: that of the first step at once, that of each later one by :meth:`step`.

    A constant rate is left as the optimizer has it. A fused or capturable optimizer reads its rate on the device: there it is
    a tensor of no dimensions that is only ever filled, so that a CUDA graph which captured the optimizer's step sees each rate.
    """

    def __init__(self, variant: SpleenVariant, optimizer: Optimizer, steps_per_epoch: int, epochs: int) -> None:
        self.steps = 0  # taken so far, also those that a gradient scaler left out
        self._schedule = variant.schedule
        self._peak = variant.optimizer.learning_rate
        self._optimizer = optimizer
        self._steps_per_epoch = steps_per_epoch
        self._epochs = epochs
        if isinstance(self._schedule, WarmUpDecay):
            _let_device_read_rate(optimizer)
        self.go_to(0)

    def step(self) -> None:
        """Set the next step's rate; call it after each step."""
        self.go_to(self.steps + 1)

    def go_to(self, steps: int) -> None:
        """Set the rate of the step that follows so many."""
        self.steps = steps
        if isinstance(self._schedule, WarmUpDecay):
            set_rate(self._optimizer, self._peak * share_at(steps, self._schedule, self._steps_per_epoch, self._epochs))


def share_at(step: int, schedule: WarmUpDecay, steps_per_epoch: int, epochs: int) -> float:
    """Return the share of the full rate at a step, which counts from 0 over all epochs.

    With w steps of warm-up, step s < w has (s + 1) / (w + 1): equal parts, never 0, and step w is the first at full rate. From
    there it falls over the remaining steps, so that the one after the last would have `final`: along a line, or along half a
    cosine (Loshchilov and Hutter, SGDR, 2017, equation 5, without restarts). A run no longer than its warm-up only rises.
    """
    warm_up_steps = schedule.warm_up_epochs * steps_per_epoch
    if step < warm_up_steps:
        return (step + 1) / (warm_up_steps + 1)
    decay_steps = epochs * steps_per_epoch - warm_up_steps
    gone = min(1.0, (step - warm_up_steps) / decay_steps) if decay_steps > 0 else 1.0
    left = 1 - gone if schedule.shape == "linear" else (1 + math.cos(math.pi * gone)) / 2
    return schedule.final + (1 - schedule.final) * left


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set an optimizer's learning rate, in place if it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _let_device_read_rate(optimizer: Optimizer) -> None:
    for group in optimizer.param_groups:
        if group.get("fused") or group.get("capturable"):
            group["lr"] = torch.tensor(float(group["lr"]), device=group["params"][0].device)
