"""What warm-ups leave that may help or slow a variant's later runs, so that it runs once more without it."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Any

from speedproof.cluster.isolation import can_hide
from speedproof.config.model import Variant
from speedproof.config.workload import Workload
from speedproof.results.files import write_text
from speedproof.results.observations import MOST_CHANGED, RunWithout
from speedproof.results.run_record import PROGRAMS
from speedproof.run.outside_watch import shorten_home
from speedproof.run.proof.request import REQUEST_SUFFIXES, read_request
from speedproof.run.proof.tree_copy import copy_entry, digest_tree, is_large, require_utf8
from speedproof.run.watched_program import list_overlaid, list_watched
from speedproof.run.working_folder import UNWATCHED, list_outward_links
from speedproof.stats.carried_over import list_kinds_of
from speedproof.util.errors import SpeedproofError

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


MOST_HIDDEN = 1000  # paths, which are words of a command: with 1,000 these take about 100 of the 2,048 KiB that it may have


@dataclass(frozen=True)
class WarmUpFiles:
    """What a warm-up did to files that later runs see, by their names for readers."""

    changed: Sequence[str]
    created: Mapping[str, str]  # and their real paths; folders that are new as a whole, for all in them
    vanished: Sequence[str] = ()  # in HOME, temporary folders and packages
    linked: LinkedChanges = field(default_factory=LinkedChanges)
    accessed: Mapping[str, int] = field(default_factory=dict)  # of changed files in temporary folders: when they were read
    read: Collection[str] = ()  # real paths of linked files that earlier warm-ups changed and it read


@dataclass(frozen=True)
class HiddenFiles:
    """What a variant can run without, by name, and the real paths."""

    paths: dict[str, str]
    own: bool  # whether its own warm-up created all of it


@dataclass(frozen=True)
class LeftFiles:
    """What a variant's warm-up and those before it left."""

    hidden: list[HiddenFiles]  # what others created and it did not touch, and what it created or touched
    not_hidden: list[str]  # what others left and it did not touch
    spoilt: list[str]  # linked files and packages that others removed, or changed before it read them


@dataclass
class RunsWithout:
    """What runs of a variant without files that warm-ups created add to what is known of its own warm-up."""

    runs: list[RunWithout] = field(default_factory=list)
    not_hidden: list[str] = field(default_factory=list)
    own_not_hidden: list[str] = field(default_factory=list)
    spoilt: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_observed(self) -> dict[str, Any]:
        """Return it as fields of what is observed of the warm-up."""
        unhidden = {name: getattr(self, name)[:MOST_CHANGED] for name in ("not_hidden", "own_not_hidden", "spoilt")}
        return {"without": self.runs, **unhidden}


def find_left_files(variant: Variant, own: WarmUpFiles, before: Sequence[WarmUpFiles]) -> LeftFiles:
    """Return what a variant's `own` warm-up and those `before` it left, as far as it is still there."""
    others = {name: path for one in before for name, path in one.created.items()}
    touched = {name: path for name, path in others.items() if any(_holds(name, changed) for changed in own.changed)}
    untouched = _select_hideable(variant, {name: path for name, path in others.items() if name not in touched})
    used = _select_hideable(variant, {**own.created, **touched})
    hidden = [HiddenFiles(untouched, own=False), HiddenFiles(used, own=not touched)]
    spoilt, doubtful = _find_spoilt(variant, own, before)
    names = dict.fromkeys([*doubtful, *_list_not_hidden(own, before, untouched)])
    return LeftFiles([one for one in hidden if one.paths], [name for name in names if name not in spoilt], spoilt)


def _list_not_hidden(own: WarmUpFiles, before: Sequence[WarmUpFiles], hidden: Collection[str]) -> list[str]:
    """Return what others removed, or changed below nothing that is `hidden`, where a variant did not write itself."""
    vanished = [name for one in before for name in one.vanished if _is_gone(name)]
    vanished = [name for name in vanished if str(PurePath(name).parent) not in _list_folders(own.changed)]
    changed = dict.fromkeys(name for one in before for name in one.changed if _counts(name, one, own.changed))
    return [*vanished, *(name for name in changed if not any(_holds(above, name) for above in hidden))]


def _find_spoilt(variant: Variant, own: WarmUpFiles, before: Sequence[WarmUpFiles]) -> tuple[list[str], list[str]]:
    """Return what others did to linked files and packages that may slow a variant, and what it can hardly have slowed it by.

    Who removes a file and writes others of its kind, as checkpoints, most likely removes its own.
    """
    spoilt: list[str] = []
    doubtful: list[str] = []
    packages = [shorten_home(os.path.realpath(folder)) for folder in variant.package_folders]
    for one in before:
        kinds = {kind for name in one.changed if name not in one.linked.removed for kind in list_kinds_of(name)}
        for name, path in one.linked.removed.items():
            if not os.path.lexists(path):
                (spoilt if kinds.isdisjoint(list_kinds_of(name)) else doubtful).append(name)
        spoilt += [name for name, path in one.linked.rewritten.items() if path in own.read]
        doubtful += [name for name, path in one.linked.grown.items() if path in own.read]
        of_packages = [name for name in (*one.vanished, *one.changed) if any(_holds(above, name) for above in packages)]
        spoilt += [name for name in of_packages if name not in one.created and (name in one.changed or _is_gone(name))]
    return list(dict.fromkeys(spoilt)), doubtful


def _select_hideable(variant: Variant, created: Mapping[str, str]) -> dict[str, str]:
    """Return what is still there and can be hidden; at last what lies in temporary folders, where other programs write, too."""
    there = {name: path for name, path in created.items() if os.path.lexists(path)}
    overlaid = list_overlaid(variant, there.values())
    hideable = [(name, path) for name, path in there.items() if can_hide(path, overlaid)]
    return dict(sorted(hideable, key=lambda one: (one[0].startswith("/"), one[0]))[:MOST_HIDDEN])


def _holds(name: str, other: str) -> bool:
    return f"{other}/".startswith(f"{name}/")


def _counts(name: str, one: WarmUpFiles, own: Collection[str]) -> bool:
    """Return whether a file that `one` changed is named: in the home folder, where programs look for settings.

    Not where both write. In temporary folders other programs change files all the time: there it must have been read since.
    """
    if str(Path(name).expanduser()) in (*one.linked.rewritten.values(), *one.linked.grown.values()):
        return False  # it has a name in the working folder, too
    if name in one.accessed:
        return name not in own and read_access(name) not in (None, one.accessed[name])
    return name.startswith("~") and str(PurePath(name).parent) not in _list_folders(own) and Path(name).expanduser().exists()


def read_access(name: str) -> int | None:
    try:
        return Path(name).stat().st_atime_ns
    except OSError:
        return None


def _list_folders(names: Collection[str]) -> set[str]:
    return {str(PurePath(one).parent) for one in names}


def _is_gone(name: str) -> bool:
    return not os.path.lexists(Path(name).expanduser())


def list_briefly(names: Sequence[str]) -> str:
    """Return up to three names."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


TREE, DIGESTS = "tree", "tree.sha256"
_NEW_TREE, _OLD_TREE = "tree.new", "tree.old"  # until a copy is whole, and then while its predecessor is removed
OUTPUTS_FILE = "outputs.json"
RESULTS_MARK = ".speedproof-results"  # an empty file in a folder that holds only results: it is not copied either
_LARGEST_REQUEST = 2**16  # bytes


@dataclass(frozen=True)
class Snapshot:
    """What a run's working folder holds besides copied files: what is linked instead; and what it lacks."""

    linked: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # large, or ignored by git, and the proof lies in it
    special: dict[str, str] = field(default_factory=dict)  # what has no content to copy, by name, and what each is
    changed: list[str] = field(default_factory=list)  # against the copy that an earlier call took
    own_trees: frozenset[str] = frozenset()  # the variants that each have a folder of their own in the copy
    source: Path | None = field(default=None, compare=False)  # the folder that was copied

    def name_tree(self, variant: str) -> str:
        """Return where a variant's files are in the folder of programs."""
        return f"{TREE}/{variant}" if variant in self.own_trees else TREE

    def list_linked(self, variant: str, programs: Path) -> dict[str, str]:
        """Return what is linked into a variant's runs: of what it has of its own, nothing."""
        tree = programs / self.name_tree(variant)
        return {name: path for name, path in self.linked.items() if not os.path.lexists(tree / name)}


def take_snapshot(
    source: Path, out: Path, fill: Callable[[Path], None] | None = None, commands: Sequence[str] = ()
) -> Snapshot:
    """Copy the working folder `source` into the proof's folder `out`; link what is large, or ignored by git.

    If something is to `fill` the copy, as with a commit, nothing is copied. Edits that are made while it runs change nothing;
    those since an earlier call are named. The file that receives our own output, which differs each time, and files that
    request a proof of these `commands` are left out.
    """
    kept, tree, old = (out / PROGRAMS / name for name in (TREE, _NEW_TREE, _OLD_TREE))
    known, before = kept.is_dir(), digest_tree(kept)
    for left in (tree, old):  # by a call that was killed while it copied
        shutil.rmtree(left, ignore_errors=True)
    tree.mkdir(0o700 | (source.stat().st_mode & 0o077), parents=True)  # no more open than what it copies
    (out / PROGRAMS / DIGESTS).touch()  # by which it is known for a proof, and not copied into itself
    leave_out = partial(_leave_out, _list_outputs(out), list(commands))
    names = [entry.name for entry in source.iterdir()]
    names = sorted({*names} - {*leave_out(str(source), names)})
    ignored = _ignored_by_git(source, names)
    linked, left_out, special = {}, [], dict[str, str]()
    for entry in (source / name for name in names):
        if entry.name in ignored or (fill is None and ((entry.is_symlink() and entry.is_dir()) or is_large(entry))):
            if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(entry)):  # it would hold what is measured of it
                left_out.append(entry.name)
            else:
                linked[entry.name] = str(entry.absolute())
        elif fill is None:
            special |= copy_entry(entry, tree / entry.name, leave_out, source)
    if fill is not None:
        fill(tree)
    after = digest_tree(tree)
    if known:
        kept.rename(old)
    tree.rename(kept)
    lines = [f"{digest.hex()}  {name}" for name, digest in after.items()]
    write_text(out / PROGRAMS / DIGESTS, "\n".join(["# What decides what is measured.", *lines, ""]))
    shutil.rmtree(old, ignore_errors=True)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Snapshot(linked, left_out, special, changed if known else [], source=source)


def _list_outputs(out: Path) -> set[tuple[int, int]]:
    """Return device and inode of the files that stdout and stderr go to, as in `prove … --json > verdict.json`.

    Those of earlier calls of the proof in `out` are among them.
    """
    path = out / OUTPUTS_FILE
    found: set[tuple[int, int]] = set()
    with suppress(OSError, ValueError, TypeError):
        found = {(device, inode) for device, inode in json.loads(path.read_text(encoding="utf-8"))}
    for stream in (1, 2):
        with suppress(OSError):
            state = os.fstat(stream)
            if S_ISREG(state.st_mode):
                found.add((state.st_dev, state.st_ino))
    if found:
        write_text(path, json.dumps(sorted(found)) + "\n")
    return found


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _leave_out(outputs: set[tuple[int, int]], commands: list[str], folder: str, names: list[str]) -> list[str]:
    """Return which entries of a folder are not copied: tools' own, our own output, proofs, requests of these commands.

    Raises :class:`ConfigError` if the name of another one is not UTF-8.
    """
    paths = {name: Path(folder, name) for name in names}
    for path in paths.values():
        require_utf8(path)
    return [
        name for name, path in paths.items() if name in UNWATCHED or _is_none_of_its(path, outputs) or _asks_for(path, commands)
    ]


def _asks_for(path: Path, commands: list[str]) -> bool:
    """Return whether a file, as `speedproof init` writes it, asks for a proof of these commands."""
    try:
        small = path.suffix in REQUEST_SUFFIXES and path.stat().st_size <= _LARGEST_REQUEST
        return small and b"commands" in path.read_bytes() and read_request(path).commands == commands
    except (OSError, SpeedproofError):
        return False


def _is_none_of_its(path: Path, outputs: set[tuple[int, int]]) -> bool:
    if path.is_symlink():
        return False
    return _identify(path) in outputs or any((path / mark).is_file() for mark in (f"{PROGRAMS}/{DIGESTS}", RESULTS_MARK))


def _ignored_by_git(folder: Path, names: list[str]) -> set[str]:
    try:
        done = subprocess.run(
            ["git", "check-ignore", "--stdin", "-z"], cwd=folder, input="\0".join(names), capture_output=True, text=True
        )
    except OSError:
        return set()
    return set(done.stdout.split("\0")) - {""}


def list_changed_before(before: Sequence[WarmUpFiles]) -> set[str]:
    """Return the real paths of linked files that earlier warm-ups changed."""
    return {path for one in before for path in (*one.linked.rewritten.values(), *one.linked.grown.values())}
