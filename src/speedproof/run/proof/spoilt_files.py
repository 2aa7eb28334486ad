"""What a warm-up removes or rewrites of linked files that were there before the proof: other commands may need them."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from speedproof.config.model import Variant
from speedproof.config.workload import Workload
from speedproof.run.watched_program import list_watched
from speedproof.run.working_folder import UNWATCHED, list_outward_links

# So much of a file is compared to tell whether it only grew, of as many files as that time allows: 1,256 beside other work on
# two cores.
_HEAD_BYTES, _HEADS_S = 4096, 0.1


@dataclass(frozen=True)
class LinkedChanges:
    """What was done to linked files, by name, and their real paths."""

    removed: Mapping[str, str] = field(default_factory=dict)
    rewritten: Mapping[str, str] = field(default_factory=dict)
    grown: Mapping[str, str] = field(default_factory=dict)  # their beginning is as it was
    created: Collection[str] = ()  # real paths


class LinkedFiles:
    """The files that are linked into a working folder, as they are before a run."""

    def __init__(self, variant: Variant, stands: Path, workload: Workload) -> None:
        # A link is part of a run's copy and may go with it; what it leads to stays.
        links = list_outward_links(stands) if variant.place is None else []
        self.tops = {link: os.path.realpath(stands / link) for link in links}
        if variant.place is not None:
            self.tops[""] = str(stands)
        states = list_watched(variant, stands, workload)
        self._states = {name: state for name, state in states.items() if UNWATCHED.isdisjoint(PurePath(name).parts)}
        self._heads = self._read_heads()

    def compare(self, changed: Sequence[str], created_before: Collection[str]) -> LinkedChanges:
        """Return what became of files that no warm-up before created; `changed` are all names that differ now."""
        removed: dict[str, str] = {}
        rewritten: dict[str, str] = {}
        grown: dict[str, str] = {}
        for name in changed:
            path = self._resolve(name)
            if name not in self._states or path in created_before:
                continue
            state = _read_state(path)
            if state is None:
                if not os.path.lexists(path):
                    removed[name] = path
            elif state != self._states[name]:
                (grown if self._only_grew(name, path, state[0]) else rewritten)[name] = path
        created = {self._resolve(name) for name in changed if name not in self._states}
        return LinkedChanges(removed, rewritten, grown, created)

    def holds(self, path: str) -> bool:
        """Return whether a real path lies behind a link."""
        return any(f"{path}/".startswith(f"{top}/") for top in self.tops.values())

    def _resolve(self, name: str) -> str:
        folders = [name, *map(str, PurePath(name).parents)]
        link = next((folder for folder in folders if folder in self.tops), "")
        return os.path.normpath(os.path.join(self.tops.get(link, "/"), os.path.relpath(name, link or ".")))  # noqa: PTH118

    def _read_heads(self) -> dict[str, bytes]:
        until_s = time.perf_counter() + _HEADS_S
        heads = {}
        for name in self._states:
            if time.perf_counter() > until_s:
                break
            with suppress(OSError):
                heads[name] = _read_head(self._resolve(name))
        return heads

    def _only_grew(self, name: str, path: str, size: int) -> bool:
        head, before = self._heads.get(name), self._states[name][0]
        if head is None or size <= before:
            return False
        with suppress(OSError):
            return _read_head(path)[: len(head)] == head
        return False


def _read_state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 (many)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _read_head(path: str) -> bytes:
    """Return the beginning of a regular file; of a pipe or device, which would wait, nothing."""
    if not os.path.isfile(path):  # noqa: PTH113 (many)
        return b""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (many)
        return file.read(_HEAD_BYTES)
