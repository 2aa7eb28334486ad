"""What training takes of an optimizer."""

from typing import Any, Protocol


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
