"""Implementations of the strided 3D convolutions and of their transposes, and the only place that chooses one.

Both operations are 3 × 3 × 3 with a stride of 2 and a padding of 1. They connect a volume at full resolution with two volumes
at half of it: the results of a pair of convolutions, or the two inputs of a skip connection. Each operation is the data
gradient of the other, so an implementation serves both.

This module does not import Triton, so that it also lists the kernels on a machine without a GPU.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Implementation:
    """Kernels for some numbers of channels.

    The module defines `convolve`, `transpose` and `sum_weight_gradients`, which launch the kernels, and `place_in_windows`,
    `place_by_neighbour` and `place_in_gradient`, which say where each weight stands in the matrices of the kernels.

    Attributes:
        module: name of a module of this package, which is imported on first use.
        half: channels of each of the two volumes at half the resolution.
        strided: channels at full resolution that it can convolve.
        transposed: channels at full resolution that it can produce.
        input_gradient: whether a strided convolution's input may require a gradient.
    """

    module: str
    half: tuple[int, ...]
    strided: tuple[int, ...]
    transposed: tuple[int, ...]
    input_gradient: bool

    def load(self) -> Any:
        """Return the module."""
        return import_module(f"speedproof_accelerate.kernels.{self.module}")


_POWERS = (8, 16, 32, 64, 128, 256)

# The first that fits is chosen: faster ones come first.
IMPLEMENTATIONS = (
    Implementation("conv3d_strided_wide", half=(32,), strided=(16,), transposed=(16,), input_gradient=True),
    Implementation("conv3d_strided_vectorized", half=(16,), strided=(1, 2), transposed=(2,), input_gradient=False),
    Implementation("conv3d_strided_generic", half=_POWERS, strided=(1, 2), transposed=(1, 2), input_gradient=False),
)


def choose_strided(full: int, half: int, *, input_gradient: bool) -> Implementation | None:
    """Return the first implementation that convolves so many channels to two volumes of `half` channels each."""
    fitting = (one for one in IMPLEMENTATIONS if full in one.strided and half in one.half)
    return next((one for one in fitting if one.input_gradient or not input_gradient), None)


def choose_transposed(half: int, full: int) -> Implementation | None:
    """Return the first implementation that convolves two volumes of `half` channels each, transposed, to so many."""
    return next((one for one in IMPLEMENTATIONS if full in one.transposed and half in one.half), None)
