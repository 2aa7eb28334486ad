"""The module twins of kernels that change the size of volumes: pooling and upsampling."""

from math import prod
from typing import Any, cast

from torch import Tensor, nn

from speedproof_accelerate.parts import FLOATS, Part, load

MAXIMA = (nn.MaxPool2d, nn.MaxPool3d)
MOST_VOXELS = 256  # of a window whose maximum is found: max_pool.py numbers them by bytes


class TrilinearUpsample(Part):
    """Trilinear upsampling of volumes by two."""

    def _find_misfit(self, x: Tensor) -> str | None:
        return None if x.dim() == 5 and x.dtype in FLOATS else f"of {x.dim()} dimensions and {x.dtype}"

    def compute(self, x: Tensor) -> Tensor:
        """Return the upsampled volumes."""
        return cast(Tensor, load("trilinear_upsample").trilinear_upsample(x))


class Pool(Part):
    """Average or maximum pooling by windows that do not overlap."""

    def _find_misfit(self, x: Tensor) -> str | None:
        window = window_of(self.replaced)
        if x.dim() != 2 + len(window) or x.dtype not in FLOATS:
            return f"of {x.dim()} dimensions and {x.dtype}"
        divided = x.shape[1] % 8 == 0 and not any(side % one for side, one in zip(x.shape[2:], window, strict=True))
        return None if divided else f"of shape {tuple(x.shape)}"

    def compute(self, x: Tensor) -> Tensor:
        """Return the windows' averages or maxima."""
        window = window_of(self.replaced)
        if isinstance(self.replaced, MAXIMA):
            return cast(Tensor, load("max_pool").max_pool(x, window))
        return cast(Tensor, load("avg_pool").avg_pool(x, window))


def window_of(pool: Any) -> tuple[int, ...]:
    """Return the sizes of a pooling's window."""
    return each_axis(pool, pool.kernel_size)


def each_axis(pool: Any, value: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return a setting of a pooling for each axis of the window; one number counts for all."""
    axes = 3 if isinstance(pool, nn.AvgPool3d | nn.MaxPool3d) else 2
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * axes if len(values) == 1 else values


def are_apart(pool: Any) -> bool:
    """Return whether a pooling's windows lie beside each other, and it computes nothing but their averages or maxima."""
    window = window_of(pool)
    if pool.ceil_mode or set(each_axis(pool, pool.padding)) != {0} or each_axis(pool, pool.stride) != window:
        return False
    if isinstance(pool, MAXIMA):
        return set(each_axis(pool, pool.dilation)) == {1} and not pool.return_indices and prod(window) <= MOST_VOXELS
    return pool.divisor_override is None
