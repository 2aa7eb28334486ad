"""Shared by the backward passes of all kernels."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from speedproof_accelerate.kernels.second_stream import wait_for_second_stream


def refuse_double_backward(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a Function's backward raise an error if its gradients are to be differentiated again.

    Torch's own once_differentiable allows it if the incoming gradient needs no gradient, although the weights do.
    """

    @wraps(backward)
    def compute(*args: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("gradients of gradients are not computed by kernels: differentiate the plain network")
        wait_for_second_stream(args)
        return backward(*args)

    return compute
