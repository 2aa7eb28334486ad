"""Smooth shapes and smooth noise in space, of which a phantom's anatomy is put together.

A shape is its signed distance in mm, negative inside. Arrays have the axes (z, y, x). Voxels meet only sums, products,
quotients and square roots: these round alike on every processor, so a phantom is the same on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.floating]  # float32 in use
Point = tuple[float, float, float]  # x, y, z in mm

# The cubic B-spline at points one apart: the sums of its squares and of its slopes' squares, averaged over where these lie.
_MEAN_SQUARE = 151 / 315
_MEAN_SQUARE_SLOPE = 2 / 3

_TINY = np.float32(1e-6)  # instead of 0, so that a shape's very center is inside


@dataclass(frozen=True)
class Space:
    """The points of a grid in mm; the three arrays broadcast to the grid's shape (z, y, x)."""

    x: Field
    y: Field
    z: Field


def interpolate(values: Field, positions: Sequence[Field]) -> Field:
    """Return the uniform cubic B-spline with coefficients `values` on a grid whose indices are `positions`, an array an axis.

    Fewer positions than axes: they are of the last axes. Beyond the border the outermost coefficients repeat. The spline
    averages neighbours rather than passing through them.
    """
    for axis in range(-1, -len(positions) - 1, -1):  # the last axis first: the bulk is then moved by whole rows
        values = _interpolate_axis(values, positions[axis], axis % values.ndim)
    return values


def _interpolate_axis(values: Field, positions: Field, axis: int) -> Field:
    below = np.floor(positions)
    t = (positions - below).astype(np.float32)
    s = 1 - t
    weights = (s * s * s / 6, (3 * t * t * t - 6 * t * t + 4) / 6, (3 * s * s * s - 6 * s * s + 4) / 6, t * t * t / 6)
    shape = [-1 if other == axis else 1 for other in range(values.ndim)]
    result: Field = np.zeros((), np.float32)
    for offset, weight in enumerate(weights, start=-1):
        index = np.clip(below.astype(np.intp) + offset, 0, values.shape[axis] - 1)
        result = result + np.take(values, index, axis) * weight.reshape(shape)
    return result


class Noise:
    """Smooth random fields on the grid with axes `z_mm`, `y_mm`, `x_mm`, each drawn from `rng`."""

    def __init__(self, rng: np.random.Generator, z_mm: Field, y_mm: Field, x_mm: Field):
        self._rng = rng
        self._axes_mm = (z_mm, y_mm, x_mm)

    def field(self, spacing_mm: float) -> Field:
        """Return a field of mean 0 and standard deviation 1 that changes over about `spacing_mm`."""
        positions = [(axis_mm - axis_mm[0]) / spacing_mm + 1 for axis_mm in self._axes_mm]
        coefficients = self._rng.standard_normal([int(at[-1]) + 3 for at in positions], np.float32)
        return interpolate(coefficients, positions) / np.float32(_MEAN_SQUARE**1.5)

    def tubes(self, spacing_mm: float, radius_mm: float) -> Field:
        """Return a tangle of winding tubes: where two fields are both near 0, their size over their slope is a distance."""
        first, second = self.field(spacing_mm), self.field(spacing_mm)
        slope_per_mm = (_MEAN_SQUARE_SLOPE / _MEAN_SQUARE) ** 0.5 / spacing_mm
        return np.sqrt(first * first + second * second) / np.float32(slope_per_mm) - np.float32(radius_mm)


def ellipsoid(space: Space, center: Point, semi_axes: Point, tilt: tuple[float, float] = (0.0, 0.0)) -> Field:
    """Return an ellipsoid's distance, to first order: its level function over that function's slope.

    `tilt` shears it: how many mm x and y move with each mm of z, so that its long axis leans.
    """
    z = space.z - center[2]
    x = space.x - center[0] - tilt[0] * z
    y = space.y - center[1] - tilt[1] * z
    a, b, c = semi_axes
    level = np.sqrt((x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2)
    slope = np.sqrt((x / a**2) ** 2 + (y / b**2) ** 2 + (z / c**2) ** 2)
    return np.maximum(level, _TINY) * (level - 1) / np.maximum(slope, _TINY)


def oval(space: Space, center: tuple[float, float], semi_axes: tuple[float, float]) -> Field:
    """Return an upright column's distance in the plane, along the ray from its center; it is squarer than an ellipse."""
    x, y = space.x - center[0], space.y - center[1]
    u, v = (x / semi_axes[0]) ** 2, (y / semi_axes[1]) ** 2
    level = np.sqrt(np.sqrt(u * u + v * v + np.float32(1.2) * u * v))  # 2 would be an ellipse, 0 nearly a rectangle
    radius = np.maximum(np.sqrt(x * x + y * y), _TINY)
    return radius - radius / np.maximum(level, _TINY)


def tube(space: Space, points: Sequence[Point], radii: Sequence[float]) -> Field:
    """Return the distance to a tube through `points`, of the radius `radii` there and in between in proportion."""
    distances = [_segment(space, *ends, *widths) for ends, widths in zip(pairwise(points), pairwise(radii), strict=True)]
    return np.minimum.reduce(distances)


def _segment(space: Space, start: Point, end: Point, start_radius: float, end_radius: float) -> Field:
    dx, dy, dz = (b - a for a, b in zip(start, end, strict=True))
    x, y, z = space.x - start[0], space.y - start[1], space.z - start[2]
    along = np.clip((x * dx + y * dy + z * dz) / np.float32(dx * dx + dy * dy + dz * dz), 0, 1)
    x, y, z = x - along * dx, y - along * dy, z - along * dz
    return np.sqrt(x * x + y * y + z * z) - (start_radius + along * (end_radius - start_radius))


def union(*shapes: Field, blend_mm: float = 0.0) -> Field:
    """Return what lies in any of `shapes`; edges between them are rounded over about `blend_mm`."""
    result = shapes[0]
    for shape in shapes[1:]:
        result = np.minimum(result, shape) - _rounding(result - shape, blend_mm)
    return result


def intersection(*shapes: Field, blend_mm: float = 0.0) -> Field:
    """Return what lies in all of `shapes`; edges between them are rounded over about `blend_mm`."""
    return -union(*(-shape for shape in shapes), blend_mm=blend_mm)


def _rounding(difference: Field, blend_mm: float) -> Field:
    if blend_mm == 0:
        return np.zeros((), np.float32)
    overlap = np.maximum(np.float32(blend_mm) - np.abs(difference), 0)
    return overlap * overlap / np.float32(4 * blend_mm)
