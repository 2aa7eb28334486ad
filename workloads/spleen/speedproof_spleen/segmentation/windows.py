"""Inference by a sliding window in plain torch, as MONAI's `sliding_window_inference` with constant weights does it.

Where windows stand follows from shapes alone, and all sums stay on the device: nothing here waits for it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

Network = Callable[[Tensor], Tensor]  # from windows (windows, 1, x, y, z) to logits (windows, classes, x, y, z)
Shape = tuple[int, int, int]
Box = tuple[slice, slice, slice]


def predict_volumes(
    network: Network, volumes: Sequence[Tensor], window_size: Shape, overlap: float, window_batch: int
) -> Iterator[Tensor]:
    """Yield the logits of each volume, in order, shape (classes, x, y, z), float32: of each voxel the mean over its windows.

    The windows of all volumes make one row, of which each forward pass takes `window_batch`; what the last one lacks, it fills
    with a window again. So the network meets one shape only, for which it may be captured or tuned. A volume's logits come as
    soon as they are whole, so that those of few volumes are in memory at once.

    Args:
        network: is given windows in the volumes' type and may return logits in half precision; they are summed in float32.
        volumes: shape (x, y, z) each; one smaller than a window is computed with zeros around it.
        window_size: voxels of a window along x, y, z.
        overlap: share of a window's length that the next one covers again, in [0, 1).
        window_batch: windows in one forward pass.
    """
    padded = [_pad(volume, window_size) for volume in volumes]
    places = [(number, box) for number, one in enumerate(padded) for box in _list_boxes(one.shape, window_size, overlap)]
    window_batch = min(window_batch, max(len(places), 1))
    sums: dict[int, Tensor] = {}
    finished = 0
    for first in range(0, len(places), window_batch):
        chosen = places[first : first + window_batch]
        filling = [chosen[-1]] * (window_batch - len(chosen))
        logits = network(torch.stack([padded[number][box] for number, box in chosen + filling])[:, None])
        for (number, (x, y, z)), part in zip(chosen, logits, strict=False):
            if number not in sums:
                precision = torch.promote_types(volumes[number].dtype, torch.float32)
                sums[number] = torch.zeros((len(part), *padded[number].shape), dtype=precision, device=part.device)
            sums[number][:, x, y, z] += part
        after = places[first + window_batch][0] if first + window_batch < len(places) else len(volumes)
        while finished < after:
            counts = _count_windows(padded[finished].shape, window_size, overlap, padded[finished].device)
            yield _cut(sums.pop(finished).div_(counts), volumes[finished].shape)
            finished += 1


def list_starts(size: int, window: int, overlap: float) -> list[int]:
    """Return where windows begin along an axis of `size` voxels, at least a window's; the last one is moved back to the end."""
    step = max(int(window * (1 - overlap)), 1)
    return [*range(0, size - window, step), size - window]


def _pad(volume: Tensor, window_size: Shape) -> Tensor:
    """Return a volume that is nowhere shorter than a window: zeros around it, the odd one behind."""
    lacking = [max(window - size, 0) for window, size in zip(window_size, volume.shape, strict=True)]
    if not any(lacking):
        return volume
    # torch begins with the last axis
    return functional.pad(volume, [margin for one in reversed(lacking) for margin in (one // 2, one - one // 2)])


def _cut(padded: Tensor, shape: Sequence[int]) -> Tensor:
    """Return logits without what :func:`_pad` put around the volume."""
    for axis, size in enumerate(shape, start=1):
        padded = padded.narrow(axis, (padded.shape[axis] - size) // 2, size)
    return padded


def _list_boxes(shape: Sequence[int], window_size: Shape, overlap: float) -> list[Box]:
    """Return the windows of a volume of this shape, in MONAI's order."""
    axes = [
        [slice(start, start + window) for start in list_starts(size, window, overlap)]
        for size, window in zip(shape, window_size, strict=True)
    ]
    return [(x, y, z) for x, y, z in product(*axes)]


def _count_windows(shape: Sequence[int], window_size: Shape, overlap: float, device: torch.device) -> Tensor:
    """Return in how many windows each voxel lies, shape (x, y, z): the product of what the axes count."""
    sizes = zip(shape, window_size, strict=True)
    x, y, z = (_count_along(size, window, overlap, device) for size, window in sizes)
    return x[:, None, None] * y[:, None] * z


@lru_cache(maxsize=1024)
def _count_along(size: int, window: int, overlap: float, device: torch.device) -> Tensor:
    """Return in how many windows each voxel of an axis lies, shape (size,), float32; kept for the next validation."""
    with torch.inference_mode(False):  # what is made in that mode could not be used outside of it later
        count = torch.zeros(size, device=device)
        for start in list_starts(size, window, overlap):
            count[start : start + window] += 1
    return count
