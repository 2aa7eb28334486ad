"""Whether a run did far less than its warm-up, and which files it went on from.

A shorter run alone does not count: a first run also downloads and compiles. It has to report less work, in epochs or in
numbered lines.
"""

import hashlib
import os
import re
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from speedproof.config.model import Variant
from speedproof.config.workload import Workload
from speedproof.results.observations import WarmUpObserved
from speedproof.run.caches import private_place
from speedproof.run.outside_watch import UNWATCHED_NAMES, is_others, list_shared_places, shorten_home
from speedproof.run.source_texts import read_program_texts
from speedproof.run.working_folder import find_tree
from speedproof.util.numbers import format_value

_FAR_LESS = 0.5  # of its warm-up's time, and of its lines
_LEAST_SAVED_S = 0.25  # cold caches of an honest program cost a first run as much
_LEAST_LINES, _READ_BYTES = 3, 2**22
# A count stands alone: not in a time, a date, a fraction or a version, and no percentage, as bars and downloads print it.
_COUNT = re.compile(r"(?<![\w.])(?<!\d[:,-])\d{1,9}(?![\w%]|[.:,-]\d)")
_NUMBER = re.compile(r"\d+")
_PATH = re.compile(r"(?<![\w./~])(?:~|(?:\.\.)?)(?:/(?:\.\.|[\w@+-][\w.@+-]*|\.[\w-][\w.@+-]*))+")
# Of the system: no program keeps its checkpoints there.
_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr")
_WALK_S, _SHOWN = 2.0, 3
_ADVICE = "have each run write to {run}, a folder of its own"


def count_steps(log_file: Path) -> dict[str, list[int]]:
    """Return each kind of line that counts up, such as `epoch 1 done`, `epoch 2 done` and so on: at least three of them.

    It goes by a digest of what these lines have in common, with how many there are, which of the numbers in them counts, and
    what that is in the first.
    """
    kinds = _list_kinds(log_file)
    counted = {kind: (_find_counter(lines), lines) for kind, lines in kinds.items()}
    return {kind: [len(lines), at, lines[0][at]] for kind, (at, lines) in counted.items() if at is not None}


def _list_kinds(log_file: Path) -> dict[str, list[tuple[int, ...]]]:
    """Return the numbers in each line that was printed, by a digest of its words."""
    with log_file.open("rb") as file:
        printed = file.read(_READ_BYTES).decode("utf-8", "replace")
    found: dict[str, list[tuple[int, ...]]] = {}
    for line in re.split(r"[\r\n]+", printed):
        if counts := tuple(int(number) for number in _COUNT.findall(line)):
            kind = hashlib.sha256(_NUMBER.sub("#", line.strip()).encode()).hexdigest()[:16]
            found.setdefault(kind, []).append(counts)
    return found


def _find_counter(lines: Sequence[tuple[int, ...]]) -> int | None:
    """Return which of the numbers never falls from line to line, and has at least three values."""
    for at, values in enumerate(zip(*lines, strict=False)):
        if all(one <= other for one, other in pairwise(values)) and len(set(values)) >= _LEAST_LINES:
            return at
    return None


@dataclass(frozen=True)
class ShortRun:
    """A run that may have resumed: its seconds, when it was launched, where it stood, what it printed, and what it saw."""

    run_s: float
    launched_ns: int
    place: Path
    log_file: Path
    environ: Mapping[str, str]


def explain_less_work(workload: Workload, variant: Variant, run: ShortRun) -> str:
    """Return in one line that a run whose epochs are not read did far less than its warm-up; nothing if it did as much.

    It did if it began to count where the warm-up did, or printed as many lines of a kind.
    """
    warm_up = variant.warm_up
    if warm_up is None or not warm_up.steps or not is_far_shorter(run.run_s, warm_up):
        return ""
    kinds, again = _list_kinds(run.log_file), {}
    for kind, (count, at, first) in warm_up.steps.items():
        values = [counts[at] for counts in kinds.get(kind, []) if at < len(counts)]
        if len(values) >= _FAR_LESS * count or any(value <= first for value in values):
            return ""
        again[kind] = len(values)
    kind = max(again, key=lambda one: warm_up.steps[one][0])
    resumed = describe_resumed(workload, variant, run)
    if not (resumed or any(again.values())):
        return ""
    return (
        f"it took {format_value(run.run_s, 's')} and printed {again[kind]} of the {warm_up.steps[kind][0]} numbered lines that "
        f"its warm-up printed in {format_value(warm_up.process_s, 's')}{resumed or f'; {_ADVICE}'}"
    )


def is_far_shorter(run_s: float, warm_up: WarmUpObserved) -> bool:
    return run_s < _FAR_LESS * warm_up.process_s and warm_up.process_s - run_s > _LEAST_SAVED_S


def describe_resumed(workload: Workload, variant: Variant, run: ShortRun) -> str:
    """Return which files of earlier runs a run read, and what to do; nothing if none is found."""
    if not (names := find_read_files(workload, variant, run)):
        return ""
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    them = "it" if len(names) == 1 else "them"
    places = [*list_shared_places(variant.watched_folders, {**os.environ, **run.environ}), *variant.linked]
    real = [os.path.realpath(Path(name).expanduser()) if name.startswith(("/", "~")) else name for name in names]
    dropped = all(any(f"{name}/".startswith(f"{place}/") for place in places) for name in real)
    return (
        f"; it read {shown}, which its warm-up wrote, so it seems to have resumed; delete {them}, and {_ADVICE}"
        f"{', or add --isolate' if dropped else ''}"
    )


def find_read_files(workload: Workload, variant: Variant, run: ShortRun) -> list[str]:
    """Return the files outside of a run's own folders that its warm-up wrote and it read; the newest first.

    If it read none of those that are known, files in shared folders and in those that its sources name are searched.
    """
    warm_up = variant.warm_up
    if warm_up is None or warm_up.began_unix_ns is None:
        return []
    stands = run.place if variant.place is None else Path(variant.place)
    known = {name: _read_times(stands / Path(name).expanduser()) for name in warm_up.changed}
    read = [name for name, times in known.items() if times and times[1] >= run.launched_ns]
    if read:
        return read
    own = [os.path.realpath(path) for path in (workload.folder.parent, private_place(workload), run.place)]
    shared = list_shared_places(variant.watched_folders, {**os.environ, **run.environ})
    found = []
    for name in _walk([*_list_named(workload, variant, run), *shared], own):
        times = _read_times(Path(name))
        if times and warm_up.began_unix_ns <= times[0] < run.launched_ns <= times[1] and not is_others(name):
            found.append((times[0], shorten_home(name)))
    return [name for _, name in sorted(found, reverse=True)]


def _read_times(path: Path) -> tuple[int, int] | None:
    """Return when a file was changed, and when it was read."""
    with suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_atime_ns
    return None


def _list_named(workload: Workload, variant: Variant, run: ShortRun) -> Iterator[str]:
    """Yield the folders that variables, the program's source files and its output name and that are there.

    Those beside a copy of the working folder go with it; those beside the folder itself stay.
    """
    tree = find_tree(workload, variant) if variant.place is None else Path(variant.place)
    written = (name for text in read_program_texts(tree, run.log_file) for name in _PATH.findall(text))
    for name in (*run.environ.values(), *written):
        if name.startswith("..") and variant.place is None:
            continue
        path = Path(os.path.realpath(Path(variant.place or "/") / Path(name).expanduser())) if _is_path(name) else None
        while path is not None and not path.is_dir():
            path = path.parent
        if path is not None and len(path.parts) > 1 and path.parts[1] not in _SYSTEM and os.access(path, os.W_OK):
            yield str(path)


def _is_path(name: str) -> bool:
    return name.startswith(("/", "~/", "../")) and "\0" not in name and ":" not in name


def _walk(places: Iterable[str], left_out: Collection[str]) -> Iterator[str]:
    """Yield the files in folders and below them, those of higher folders first, as far as the time allows."""
    until_s, queue, seen = time.perf_counter() + _WALK_S, deque(map(os.path.realpath, places)), set(left_out)
    while queue and time.perf_counter() < until_s:
        folder = queue.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in UNWATCHED_NAMES:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    queue.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path
