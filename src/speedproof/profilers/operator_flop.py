"""Floating-point operations (FLOP) of PyTorch's operators, by the shapes of their arguments.

Of the standard library alone: it is also copied beside a program whose operators are counted.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

OperatorShapes = Sequence[Sequence[int]]  # of the arguments in the order of the operator's schema; empty if one is not a tensor
OperatorValues = Sequence[Any]  # the same arguments, if they are not tensors


class OperatorWork(NamedTuple):
    """What an operator does at least."""

    flop: int  # a multiplication and an addition are two
    elements: int  # of tensors that it reads or writes


def count_operator(operator: str, shapes: OperatorShapes, values: OperatorValues) -> OperatorWork | None:
    """Return the work of an operator such as `mm`; None if it is none of :data:`FORMULAS`, or if its arguments do not show it.

    Causal attention counts the pairs that it does not mask; torch's own counter counts all of them.
    """
    formula = FORMULAS.get(operator)
    try:
        return formula(shapes, values) if formula else None
    except (ArithmeticError, IndexError, TypeError, ValueError):  # arguments of another version, or of nested tensors
        return None


FlopFormula = Callable[[OperatorShapes, OperatorValues], OperatorWork]


def _multiply_from(first: int) -> FlopFormula:
    """Return the formula of an operator that multiplies two matrices, or batches of them, from this argument on."""

    def multiply(shapes: OperatorShapes, _values: OperatorValues) -> OperatorWork:
        (*batch, rows, inner), right = shapes[first], shapes[first + 1]
        columns = right[-1] if len(right) > 1 else 1
        if inner != (right[-2] if len(right) > 1 else right[0]) or (batch and list(batch) != list(right[:-2])):
            raise ValueError("shapes do not fit")
        count = prod(batch)
        elements = count * (rows * inner + inner * columns + rows * columns)
        return OperatorWork(2 * count * rows * inner * columns, elements)

    return multiply


def _convolve(shapes: OperatorShapes, values: OperatorValues) -> OperatorWork:
    given, weight = shapes[0], shapes[1]
    stride, padding, dilation, transposed, extra = values[3:8]
    made = [
        _resize(size, kernel, [one[place % len(one)] for one in (stride, padding, dilation, extra)], transposed)
        for place, (size, kernel) in enumerate(zip(given[2:], weight[2:], strict=True))
    ]
    channels = weight[1] * values[8] if transposed else weight[0]
    elements = prod(given) + prod(weight) + given[0] * channels * prod(made)
    return OperatorWork(_convolve_once(given[0], weight, given[2:] if transposed else made), elements)


def _convolve_back(shapes: OperatorShapes, values: OperatorValues) -> OperatorWork:
    gradient, given, weight = shapes[0], shapes[1], shapes[2]
    transposed, mask = values[7], values[10]
    if not isinstance(transposed, bool) or len(mask) != 3:
        raise ValueError("not the arguments of this operator")
    made = sum(map(bool, mask[:2]))  # gradients: of the input, of the weights
    once = _convolve_once(given[0], weight, (given if transposed else gradient)[2:])
    return OperatorWork(made * once, prod(gradient) + made * (prod(given) + prod(weight)))


def _convolve_once(batch: int, weight: Sequence[int], places: Sequence[int]) -> int:
    """Return the FLOP of a convolution: each weight is used once at each place, whatever the groups."""
    return 2 * batch * prod(weight) * prod(places)


def _resize(size: int, kernel: int, how: Sequence[int], transposed: bool) -> int:
    stride, padding, dilation, extra = how
    reach = dilation * (kernel - 1)
    if transposed:
        return (size - 1) * stride - 2 * padding + reach + extra + 1
    return (size + 2 * padding - reach - 1) // stride + 1


def _attend_at(query: int, causal: int, products: tuple[int, int]) -> FlopFormula:
    """Return the formula of attention whose query, keys and values begin at an argument.

    `products` are the matrix products along the dimension of the keys, and along that of the values.
    """

    def attend(shapes: OperatorShapes, values: OperatorValues) -> OperatorWork:
        (*batch, queries, width), keys, given = shapes[query : query + 3]
        if not isinstance(values[causal], bool):
            raise ValueError("not the arguments of this operator")
        length, depth = keys[-2], given[-1]
        pairs = _count_causal(queries, length) if values[causal] else queries * length
        along_keys, along_values = products
        flop = 2 * prod(batch) * pairs * (along_keys * width + along_values * depth)
        read = prod(shapes[query]) + prod(keys) + prod(given)
        made = prod(batch) * queries * depth
        return OperatorWork(flop, read + made if products == _FORWARD else 2 * (read + made))

    return attend


def _count_causal(queries: int, keys: int) -> int:
    """Return how many pairs a mask keeps that lets each query see as many keys as its own number."""
    short = min(queries, keys)
    return short * (short + 1) // 2 + (queries - short) * keys


# Scores and output; backward, the scores again, and two products for each of these.
_FORWARD, _BACKWARD = (1, 1), (3, 2)

FORMULAS: dict[str, FlopFormula] = {
    **dict.fromkeys(("mm", "bmm", "mv", "_scaled_mm", "_int_mm"), _multiply_from(0)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation"), _multiply_from(1)),
    "convolution": _convolve,
    "convolution_backward": _convolve_back,
    "scaled_dot_product_attention": _attend_at(0, 5, _FORWARD),
    "_scaled_dot_product_flash_attention": _attend_at(0, 4, _FORWARD),
    "_scaled_dot_product_flash_attention_for_cpu": _attend_at(0, 4, _FORWARD),
    "_scaled_dot_product_efficient_attention": _attend_at(0, 6, _FORWARD),
    "_scaled_dot_product_cudnn_attention": _attend_at(0, 6, _FORWARD),
    "_scaled_dot_product_flash_attention_backward": _attend_at(1, 11, _BACKWARD),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attend_at(1, 7, _BACKWARD),
    "_scaled_dot_product_efficient_attention_backward": _attend_at(1, 11, _BACKWARD),
    "_scaled_dot_product_cudnn_attention_backward": _attend_at(1, 14, _BACKWARD),
}
