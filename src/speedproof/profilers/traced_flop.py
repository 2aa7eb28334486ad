"""The FLOP of operators in a trace of torch.profiler, if it was recorded with their shapes (`record_shapes=True`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from speedproof.profilers.operator_flop import FORMULAS, count_operator

# As torch names types in C++: what speedproof calls them, and their bytes.
_TYPES = {
    "float": ("float32", 4),
    "c10::Half": ("float16", 2),
    "c10::BFloat16": ("bfloat16", 2),
    "double": ("float64", 8),
    "c10::Float8_e4m3fn": ("float8", 1),
    "c10::Float8_e5m2": ("float8", 1),
    "signed char": ("int8", 1),
}
_LARGEST = 1 << 62  # of a count that a table holds
_FLAGS = {"True": True, "False": False}


def count_traced(name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the columns of an operator that has FLOP, which are null if its shapes do not show them; None of any other."""
    if name.removeprefix("aten::") not in FORMULAS or "Input Dims" not in arguments:
        return None
    return read_work(name, arguments) or {"flop": None, "bytes": None, "type": ""}


def read_work(name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return FLOP, least bytes and type of an operator's event; None if they do not follow from its shapes."""
    operator = name.removeprefix("aten::")
    if operator == name or operator not in FORMULAS:
        return None
    shapes, types, concrete = (arguments.get(key) for key in ("Input Dims", "Input type", "Concrete Inputs"))
    if not isinstance(shapes, list) or not isinstance(types, list):
        return None
    found = next((_TYPES[one] for one in types if isinstance(one, str) and one in _TYPES), None)
    sizes = [_read_sizes(shape) for shape in shapes]
    values = [_read_value(value) for value in concrete] if isinstance(concrete, list) else []
    work = count_operator(operator, sizes, values)
    if work is None or found is None or not 0 <= max(work.flop, 8 * work.elements) < _LARGEST or min(work) < 0:
        return None
    kind, size = found
    return {"flop": work.flop, "bytes": size * work.elements, "type": kind}


def _read_sizes(shape: object) -> Sequence[int]:
    """Return the sizes of an argument, none if it is not a tensor; a wrong size fits no formula."""
    sizes = shape if isinstance(shape, list) else []
    return sizes if all(type(size) is int and size >= 0 for size in sizes) else []


def _read_value(text: object) -> Any:
    """Return a flag, a number or a list of these of the text that stands for it; None of others."""
    if not isinstance(text, str):
        return None
    if text.startswith("[") and text.endswith("]"):
        return [_read_value(part.strip()) for part in text[1:-1].split(",")]
    return _FLAGS.get(text) if text in _FLAGS else int(text) if text.isdecimal() else None
