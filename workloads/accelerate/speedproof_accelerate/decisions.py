"""Times that earlier calls of `accelerate` measured, kept in a small file so that later processes need not measure again.

The file is in Triton's cache folder, beside the compiled kernels. There is one for each GPU, CPU and set of versions. If a file
cannot be read or written, everything is measured again.
"""

import json
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

import torch

_FOLDER = "speedproof_accelerate"
_MOST = 4096  # values of a file: a network has some dozens


class Decisions:
    """Times by what was measured."""

    def __init__(self, file: Path | None) -> None:
        """Read what is known; without a file, nothing is."""
        self._file = file
        self._known = {} if file is None else _read(file)
        self._new: dict[str, list[float]] = {}
        self._found: set[str] = set()

    @property
    def read(self) -> int:
        """Return of how many things times were found."""
        return len(self._found)

    def find(self, measured: Iterable[object], count: int) -> list[float] | None:
        """Return so many times of what was measured, in ms; None: they are not known."""
        key = _digest(measured)
        found = self._known.get(key)
        if found is None or len(found) != count:
            return None
        self._found.add(key)
        return found

    def note(self, measured: Iterable[object], times: list[float]) -> None:
        """Note times, in ms."""
        self._new[_digest(measured)] = times

    def write(self) -> None:
        """Add what was noted to the file, which other processes may write, too: it is replaced as a whole."""
        if self._file is None or not self._new:
            return
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            merged = {**_read(self._file), **self._new}
            kept = dict(list(merged.items())[-_MOST:])
            with NamedTemporaryFile("w", dir=self._file.parent, suffix=".tmp", delete=False) as file:
                made = Path(file.name)
            try:
                made.write_text(json.dumps(kept))
                made.replace(self._file)
            except OSError:
                made.unlink()
        self._new.clear()


def find_decisions(device: torch.device) -> Decisions:
    """Return what is known on this machine, of this GPU, of these versions and of this package's code."""
    return Decisions(_find_folder() / f"{_digest(_describe(device))}.json")


def _find_folder() -> Path:
    """Return the folder in Triton's cache."""
    with suppress(ImportError, AttributeError):
        from triton import knobs

        return Path(knobs.cache.dir) / _FOLDER
    return Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton/cache") / _FOLDER


def _describe(device: torch.device) -> list[object]:
    """Return what the times depend on, apart from the network: launches cost time of the CPU."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    gpu = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    names = [None, 0] if gpu is None else [gpu.name, gpu.total_memory]
    return [*names, torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), triton, _find_cpu(), _digest_code()]


@cache
def _digest_code() -> str:
    """Return a checksum of this package's source."""
    folder = Path(__file__).parent
    total = sha256()
    for file in sorted(folder.rglob("*.py")):
        total.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()


@cache
def _find_cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line
    return platform.processor()


def _digest(parts: Iterable[object]) -> str:
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


def _read(file: Path) -> dict[str, list[float]]:
    """Return what a file holds; a broken one holds nothing."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: times for key, times in found.items() if _is_times(times)}


def _is_times(times: object) -> bool:
    return isinstance(times, list) and all(isinstance(one, float) and one >= 0 for one in times)
