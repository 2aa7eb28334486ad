"""The scalars of TensorBoard's event files, read by TensorBoard itself where it is installed."""

from importlib import import_module
from pathlib import Path
from typing import Any

from speedproof.util.errors import RecordError, advise_install

IN_NAME = ".tfevents."
_PACKAGE = "tensorboard"


def read_scalars(path: Path, name: str) -> list[dict[str, Any]]:
    """Return a row for each scalar, in the order in which they were written: its tag and its value.

    Raises :class:`RecordError`, which calls the file by its `name`, where it cannot be read, or TensorBoard is not there.
    """
    try:
        loader = import_module(f"{_PACKAGE}.backend.event_processing.event_file_loader")
        tensors = import_module(f"{_PACKAGE}.util.tensor_util")
    except ImportError:
        raise RecordError(
            f"{name}: to read it takes TensorBoard; name a CSV file, or, {advise_install('tensorboard')}"
        ) from None
    rows = []
    try:
        for event in loader.EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                number = tensors.make_ndarray(value.tensor) if value.HasField("tensor") else None
                if number is not None and number.size == 1 and number.dtype.kind in "fiu":
                    rows.append({value.tag: number.item()})
    except Exception as error:  # of the library, of many kinds
        raise RecordError(f"{name}: TensorBoard cannot read it ({' '.join(str(error).split()):.80})") from None
    return rows
