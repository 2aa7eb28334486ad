"""Changes of some rows of a batch; a row is one channel of one sample."""

from collections.abc import Callable, Sequence

from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.draws import send


def change_rows(images: Tensor, rows: Sequence[int], change: Callable[[Tensor], Tensor]) -> None:
    """Replace rows by what `change` returns for them, in place.

    Args:
        images: contiguous, shape (samples, channels, …).
        rows: row c of sample s is s · channels + c; none twice.
        change: takes and returns a tensor of shape (rows, …).
    """
    if not rows:
        return
    flat = images.view(-1, *images.shape[2:])
    index = send(rows, images.device)
    flat.index_copy_(0, index, change(flat.index_select(0, index)))


def per_row(values: Tensor, like: Tensor) -> Tensor:
    """Return one value per row, on the device of `like`, in a shape that multiplies it."""
    return send(values, like.device).to(like.dtype).view(-1, *[1] * (like.dim() - 1))


def multiply_axis(x: Tensor, matrices: Tensor, axis: int) -> Tensor:
    """Multiply each row along one axis by a matrix of its own.

    Args:
        x: shape (rows, …).
        matrices: shape (rows, length, length), or (1, length, length) for all rows.
        axis: of x, from 1.
    """
    moved = x.movedim(axis, 1)
    product = matrices.expand(len(x), -1, -1) @ moved.flatten(2)
    return product.view(moved.shape).movedim(1, axis)
