"""What the backward passes of all kernels share."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def refuse_double_backward(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Have a Function's backward refuse where its gradients shall be differentiated again.

    Torch's own once_differentiable lets that pass where what comes from above needs no gradient, though the weights do.
    """

    @wraps(backward)
    def compute(*args: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("gradients of gradients are not computed by kernels: differentiate the plain network")
        return backward(*args)

    return compute
