"""The module twins of kernels that change the size of volumes: pooling and upsampling."""

from typing import Any, cast

from torch import Tensor, nn

from speedproof_accelerate.parts import FLOATS, Part, load


class TrilinearUpsample(Part):
    """Trilinear upsampling of volumes by two."""

    def _find_misfit(self, x: Tensor) -> str | None:
        return None if x.dim() == 5 and x.dtype in FLOATS else f"of {x.dim()} dimensions and {x.dtype}"

    def compute(self, x: Tensor) -> Tensor:
        """Return the upsampled volumes."""
        return cast(Tensor, load("trilinear_upsample").trilinear_upsample(x))


class AveragePool(Part):
    """Average pooling by windows that do not overlap."""

    def _find_misfit(self, x: Tensor) -> str | None:
        window = window_of(self.replaced)
        if x.dim() != 2 + len(window) or x.dtype not in FLOATS:
            return f"of {x.dim()} dimensions and {x.dtype}"
        divided = x.shape[1] % 8 == 0 and not any(side % one for side, one in zip(x.shape[2:], window, strict=True))
        return None if divided else f"of shape {tuple(x.shape)}"

    def compute(self, x: Tensor) -> Tensor:
        """Return the windows' averages."""
        return cast(Tensor, load("avg_pool").avg_pool(x, window_of(self.replaced)))


def window_of(pool: Any) -> tuple[int, ...]:
    """Return the sizes of a pooling's window."""
    sides = 3 if isinstance(pool, nn.AvgPool3d) else 2
    sizes = (pool.kernel_size,) if isinstance(pool.kernel_size, int) else tuple(pool.kernel_size)
    return sizes * sides if len(sizes) == 1 else sizes
