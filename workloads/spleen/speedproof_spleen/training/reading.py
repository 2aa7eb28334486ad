"""Reading cases ahead, in threads: begun before torch is imported, it is over when that is."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from speedproof.api import available_cores
from speedproof_spleen.data.nifti import read_case
from speedproof_spleen.variant import SpleenVariant

Case = Mapping[str, str]  # paths of `image` and `label`


class Readings:
    """Cases that are being read, by as many threads as there are cores, each to be taken once."""

    def __init__(self, read: Callable[[Case], Any] = read_case) -> None:
        """Read nothing yet; `read` gives what the files of a case hold."""
        self._read = read
        self._threads = ThreadPoolExecutor(available_cores())
        self._begun: dict[str, Future[Any]] = {}

    def begin(self, cases: Iterable[Case]) -> None:
        """Begin to read those cases that are not being read yet."""
        for case in sort_by_size(cases):
            if case["image"] not in self._begun:
                self._begun[case["image"]] = self._threads.submit(self._read, case)

    def __enter__(self) -> "Readings":
        return self

    def __exit__(self, *_: object) -> None:
        """Begin no other: who ends early does not wait for files."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def __len__(self) -> int:
        """Return how many have begun and were not taken."""
        return len(self._begun)

    def take(self, case: Case) -> Any:
        """Return what the files of a case hold, as soon as they are read; it is not kept."""
        return self._begun.pop(case["image"]).result()


def begin_early(variant: SpleenVariant, cases: Iterable[Case], digests: Mapping[str, str] | None = None) -> Readings:
    """Begin to read what a run will surely need: nothing where MONAI reads, or where volumes may have been prepared before.

    Of several processes each needs a share only, which it does not know yet. `digests` are the SHA-256 of the files, by path:
    one that was changed since is an error when its case is taken.
    """
    readings = Readings(partial(read_case, digests=digests))
    if variant.cache == "resident" and variant.prepared_folder is None and variant.ranks == 1:
        readings.begin(cases)
    return readings


def sort_by_size(cases: Iterable[Case]) -> list[Case]:
    """Return cases, those of the largest files first, so that in the end no thread is left alone with one."""
    return sorted(cases, key=_bytes_of, reverse=True)


def _bytes_of(case: Case) -> int:
    """Return the size of a case's image on disk; 0 if it is missing, which is reported when it is read."""
    path = Path(case["image"])
    return path.stat().st_size if path.exists() else 0
