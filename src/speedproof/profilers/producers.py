"""Which program wrote an event in Chrome's format. A file with events of two has two clocks, and is refused."""

import re
from pathlib import Path
from typing import Any

from speedproof.profilers.chrome_columns import read_arguments
from speedproof.util.errors import ProfilingError

_OF_TORCH = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "user_annotation"})
_OF_XLA = re.compile(r"/(device|host):\w+")
_OF_NSIGHTFUL = re.compile(r"(Device|Host) \d+")
_TITLES = {"kineto": "torch.profiler", "xla": "XLA's profiler", "nsightful": "nsightful"}


def refuse_others(path: Path, event: dict[str, Any], own: str) -> None:
    """Raise a :class:`ProfilingError` if an event is not of the profiler of which the others are."""
    other = _find_producer(event)
    if other is not None and other != own:
        raise ProfilingError(
            f"{path}: holds events of {_TITLES[own]} and of {_TITLES[other]}, whose times do not belong together; "
            "give a file of one of them"
        )


def _find_producer(event: dict[str, Any]) -> str | None:
    """Return the profiler of an event that only one writes, by the name that its traces have; None: any could."""
    if event.get("ph") == "X" and str(event.get("cat")) in _OF_TORCH:
        return "kineto"
    if isinstance(process := event.get("pid"), str) and _OF_NSIGHTFUL.fullmatch(process):
        return "nsightful"
    if event.get("ph") == "M" and _OF_XLA.match(str(read_arguments(event).get("name", ""))):
        return "xla"
    return None
