"""What runs change where later runs see it: in HOME, temporary folders, shared memory, and the interpreter's packages.

A file counts if its status changed while the run went on: the system writes that time, and no program can set it. Only a hard
link that is made of it elsewhere does not count. Folders that are known and unchanged are not listed again.
"""

import os
import re
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from pathlib import Path
from stat import S_ISREG

from speedproof.run.others_files import is_temporary, known_others

# A walk after a run may take so long, and the one before all runs. On a core of a small virtual machine a known folder or file
# takes 5 us: 0.53 s of 11,702 folders with 99,465 files; a folder that no process had read since the start 0.5 ms.
WALK_S, FIRST_WALK_S = 0.07, 0.5
_MOST_FILES = 100_000  # that are remembered
_SHALLOW = 1  # down to which level files are looked at before deeper folders are
_TICK_NS = 10_000_000  # files bear the time of the system's last tick: up to 10 ms before they were written
# Other programs of a desktop and shells write these all the time; bytecode is checked against its source when it is read.
UNWATCHED_NAMES = frozenset({
    ".mozilla", "google-chrome", "chromium", "BraveSoftware", "mozilla", "Code", ".vscode", ".vscode-server", ".cursor",
    ".cursor-server", "Trash", "gvfs-metadata", "dconf", "pulse", "tracker3", "snap", ".git", ".ssh", ".gnupg", ".dbus",
    ".bash_history", ".zsh_history", ".python_history", ".viminfo", ".lesshst", ".Xauthority", ".xsession-errors",
    "__pycache__",
})  # fmt: skip
_OF_RUNS = re.compile(r"run-\w{8}")  # what another proof keeps for its runs
_MOST_REMEMBERED = 1000  # files that runs changed, most of them in a few
_CODE_SUFFIXES = (".py", ".pth", ".so", ".pyd")


@dataclass(frozen=True)
class Changes:
    """What a run changed outside of its private folders."""

    files: list[str] = field(default_factory=list)  # sorted
    code: list[str] = field(default_factory=list)  # of the interpreter's packages
    unwatched: list[str] = field(default_factory=list)  # folders that are too large to be walked whole
    created: list[str] = field(default_factory=list)  # files and folders that were not there before, by real paths
    vanished: list[str] = field(default_factory=list)  # files and folders that were there before the first run


@dataclass
class _Folder:
    changed_ns: int
    user: int
    folders: list[str]
    files: list[str]


class OutsideWatch:
    """Knows the folders below some places, and finds which files below them were changed since a moment."""

    def __init__(self, places: Sequence[str], user: int) -> None:
        self._places, self._user = places, user
        self._known: dict[str, _Folder] = {}
        self._states: dict[str, tuple[int, int, int, int, int]] = {}  # of files as they were last seen
        self._appeared: set[str] = set()  # entries that known folders had got at the last walk
        self._new: set[str] = set()  # entries that known folders had got at any walk before
        self.vanished: set[str] = set()  # entries, there at the first walk, that known folders had lost at the last
        self.between: set[str] = set()  # entries that known folders had got before the last run began
        self._remembered = 0
        self.changed: dict[str, None] = {}  # what runs changed so far

    def find_changed(self, since_ns: int, leave_out: Collection[str], limit_s: float = WALK_S) -> tuple[list[str], list[str]]:
        """Return the files of this user that were changed since, and the places that a walk of `limit_s` does not finish."""
        until_s = time.perf_counter() + limit_s
        since_ns -= _TICK_NS
        self._new |= self._appeared
        self._appeared, self.vanished = set(), set()
        found = [name for name in self.changed if self._is_changed(name, since_ns)]  # again, as most that is changed
        walked, quiet, unfinished = self._walk(since_ns, {*leave_out, *self._places}, until_s)
        self.between = {name for name in self._appeared if self._is_older(name, since_ns)}
        in_time = takewhile(lambda _: time.perf_counter() <= until_s, quiet)
        found += [*walked, *self._select_changed(in_time, since_ns)]
        return sorted(name for name in found if name not in leave_out), sorted(unfinished)

    def _walk(self, since_ns: int, skipped: Collection[str], until_s: float) -> tuple[list[str], list[str], set[str]]:
        """Return the files that were changed since, those that may have been, and the places that are not walked in time.

        The second are files of deeper folders in which none came or went: they are only written in place, if at all.
        """
        found: list[str] = []
        quiet: list[str] = []
        queue = deque((place, place, 0) for place in self._places)  # what lies higher comes first, whatever place it is of
        while queue and time.perf_counter() < until_s:
            path, place, depth = queue.popleft()
            folder, fresh = self._look(path, since_ns)
            if folder is None:
                continue
            if fresh or depth <= _SHALLOW:
                found += self._select_changed(folder.files, since_ns)
            else:
                quiet += folder.files
            for name in folder.folders:
                if name not in skipped:  # a new folder comes first
                    (queue.appendleft if fresh and name not in self._known else queue.append)((name, place, depth + 1))
        return found, quiet, {place for _, place, _ in queue}

    def _select_changed(self, names: Iterable[str], since_ns: int) -> list[str]:
        return [name for name in names if name not in self.changed and self._is_changed(name, since_ns)]

    def select_created(self, names: Collection[str]) -> list[str]:
        """Return which of these files were not there at the walk before the last; for those of a new folder, the folder."""
        found = set()
        for name in names:
            new = [path for path in (name, *map(str, Path(name).parents)) if path in self._appeared]
            found.update(new[-1:])  # the outermost
        return sorted(found)

    def _look(self, path: str, since_ns: int) -> tuple[_Folder | None, bool]:
        """Return what a folder holds, and whether entries of it came or went since; nothing of a folder that is closed."""
        try:
            status = os.lstat(path)
            changed_ns = status.st_ctime_ns
            known = self._known.get(path)
            if known is None or known.changed_ns != changed_ns:
                if known is not None:
                    self._remembered -= len(known.files)
                listed = self._list(path, _Folder(changed_ns, status.st_uid, [], []))
                if known is not None:
                    old, new = ({*one.folders, *one.files} for one in (known, listed))
                    self.vanished |= {name for name in old - new if self._is_lost(name)}
                    self._appeared |= new - old if self._remembered < _MOST_FILES else set()  # else `old` may lack some
                known = self._known[path] = listed
        except OSError:
            return None, False
        return known, changed_ns >= since_ns

    def _list(self, path: str, folder: _Folder) -> _Folder:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name in UNWATCHED_NAMES or _OF_RUNS.fullmatch(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folder.folders.append(entry.path)
                elif self._remembered < _MOST_FILES and entry.is_file(follow_symlinks=False):
                    folder.files.append(entry.path)
                    self._remembered += 1
        return folder

    def _is_lost(self, name: str) -> bool:
        """Return whether an entry of this user's is gone that was there at the first walk."""
        state, folder = self._states.get(name), self._known.get(name)
        user = folder.user if folder else state[-1] if state else None
        new = any(path in self._new for path in (name, *map(str, Path(name).parents)))
        return user == self._user and not new and not os.path.lexists(name)

    def _is_older(self, name: str, since_ns: int) -> bool:
        try:
            return os.lstat(name).st_ctime_ns < since_ns
        except OSError:
            return False

    def _is_changed(self, name: str, since_ns: int) -> bool:
        try:
            status = os.lstat(name)
        except OSError:
            return False
        before = self._states.get(name)
        state = (status.st_nlink, status.st_ino, status.st_size, status.st_mtime_ns, status.st_uid)
        if before != state:
            self._states[name] = state
        if status.st_ctime_ns < since_ns or status.st_uid != self._user or not S_ISREG(status.st_mode):
            return False
        if before is None:  # a known folder's file that no walk came to, or a new one
            return name in self._appeared or status.st_nlink == 1 or status.st_mtime_ns >= since_ns
        return before[0] == state[0] or before[1:] != state[1:]  # else only the number of its links changed (uv, cp -al)


def find_changes(
    folders: Sequence[str],
    since_ns: int,
    leave_out: Collection[Path],
    limit_s: float = WALK_S,
    packages: Sequence[str] | None = None,
) -> Changes:
    """Return what was changed since a moment in these `folders` and others that later runs see.

    Those that are `packages` of an interpreter, by default all, hold code.
    """
    packages = folders if packages is None else packages
    places = list_shared_places(folders, os.environ)
    own = {str(path) for path in leave_out} | {str(path.resolve()) for path in leave_out}
    watch = _watch_of(places)
    found, unfinished = watch.find_changed(since_ns, own, limit_s)
    # In temporary folders other programs delete all the time, and nothing shows whether a run would have read it.
    lost = [name for name in watch.vanished if not is_temporary(name, places, os.environ)]
    vanished = [name for name in lost if not any(f"{name}/".startswith(f"{path}/") for path in own)]
    held = _list_held(places) if found or vanished else set()
    found, vanished = ([name for name in names if _name_entry(name, places) not in held] for names in (found, vanished))
    others = known_others()
    others.note(name for name in watch.between if is_temporary(name, places, os.environ))
    if any(is_temporary(name, places, os.environ) for name in found):
        others.note_processes([*own, str(Path.cwd()), os.path.realpath(Path.home())])
    foreign = [name for name in (*watch.select_created(found), *found) if is_others(name, places)]
    found = [name for name in found if not (_is_our_output(name) or any(f"{name}/".startswith(f"{one}/") for one in foreign))]
    watch.changed = dict.fromkeys([*found, *watch.changed][:_MOST_REMEMBERED])
    code = [name for name in found if name.endswith(_CODE_SUFFIXES) and any(name.startswith(f"{one}/") for one in packages)]
    files, code, unfinished = ([shorten_home(name) for name in names] for names in (found, code, unfinished))
    return Changes(files, code, unfinished, watch.select_created(found), sorted(map(shorten_home, vanished)))


def note_others(folders: Sequence[str], since_ns: int, leave_out: Collection[Path]) -> None:
    """Note what changed in temporary folders since a moment as other programs': no run could write there."""
    places = list_shared_places(folders, os.environ)
    watch = _watch_of(places)
    changed, _ = watch.find_changed(since_ns, {str(path.resolve()) for path in leave_out})
    known_others().note(name for name in (*changed, *watch.between) if is_temporary(name, places, os.environ))


def is_others(name: str, places: Sequence[str] | None = None) -> bool:
    """Return whether a path lies in a temporary folder and is known to be another program's."""
    places = list_shared_places((), os.environ) if places is None else places
    return is_temporary(name, places, os.environ) and known_others().has(name)


def list_changed_so_far(folders: Sequence[str]) -> list[Path]:
    """Return the files that this run or an earlier one of this process changed, of any variant with these folders."""
    return [Path(name) for name in _watch_of(list_shared_places(folders, os.environ)).changed]


def _list_held(places: Sequence[str]) -> set[str]:
    """Return the entries of the places in which other programs have files open or mapped: what changes there is theirs.

    Of the run itself no process is left.
    """
    held = set()
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with suppress(OSError):  # it ended, or is another user's
            for file in (process / "fd").iterdir():
                with suppress(OSError):
                    held.add(_name_entry(os.readlink(file), places))  # noqa: PTH115 (many thousands)
        with suppress(OSError):
            mapped = (process / "maps").read_text(encoding="utf-8", errors="surrogateescape")
            names = {f"/{path}" for path in re.findall(r" /(.+)$", mapped, re.MULTILINE)}
            # Only there: many programs map the same packages' libraries.
            held.update(_name_entry(name, places) for name in names if is_temporary(name, places, os.environ))
    return held - {""}


def _name_entry(name: str, places: Sequence[str]) -> str:
    """Return the entry of a watched place that a file lies in; of one whose name begins with a dot, as ~/.cache, one of its."""
    for place in sorted(places, key=len, reverse=True):  # the innermost one
        if name.startswith(f"{place}/"):
            parts = name.removeprefix(f"{place}/").split("/")
            return "/".join([place, *parts[: 2 if parts[0].startswith(".") else 1]])
    return ""


def _is_our_output(name: str) -> bool:
    """Return whether a file is the one that this process prints to, as in `speedproof prove … > proof.log`."""
    for stream in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(stream), Path(name).stat()):
                return True
    return False


@cache
def _watch_of(places: tuple[str, ...]) -> OutsideWatch:
    """Return the watch of these places, which remembers their folders as long as this process lives."""
    return OutsideWatch(places, os.geteuid())


def list_shared_places(folders: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is watched: folders that are there and this user can write to; last /tmp, which may be large."""
    named = [environ.get(name, "") for name in ("HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME", "HOME", "TMPDIR")]
    places = dict.fromkeys(os.path.realpath(place) for place in ["/dev/shm", "/var/tmp", *folders, *named, "/tmp"] if place)
    return tuple(place for place in places if place != "/" and _is_writable_folder(place))


def _is_writable_folder(place: str) -> bool:
    return Path(place).is_dir() and os.access(place, os.W_OK)


def shorten_home(name: str) -> str:
    """Return a path with ~ for the home folder."""
    home = os.path.realpath(Path.home())
    return f"~{name.removeprefix(home)}" if home != "/" and f"{name}/".startswith(f"{home}/") else name
