"""Whether what an outcome rests on is still what it was: the programs' copies, other sources, and the files of ended runs."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISLNK, S_ISREG

from speedproof.util.errors import TamperedError

# Of a file, in this order: size, time of change, inode and mode. No program can set the time of change, unlike that of writing.
_State = tuple[int, int, int, int]
# Of a larger file, blocks and the time of writing are compared, since reading a whole data set takes minutes.
_READ_WHOLE_BYTES = 2**22
_BLOCKS, _BLOCK_BYTES = 16, 2**16


@dataclass(frozen=True)
class _Recorded:
    state: _State
    digest: bytes
    whole: bool  # whether that is the SHA-256 of all that a regular file holds


class Manifest:
    """Remembers the content of files and folders, and finds what differs from it later.

    Sizes, times and inodes are compared first; content is read again only of files in which those differ.
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._files: dict[Path, dict[str, _Recorded]] = {}
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> None:
        """Record one more file, or a folder with all that it holds; one that is missing must stay missing."""
        self._files[path] = {name: _record(name, state) for name, state in _list_states(path)}

    def list_digests(self, path: Path) -> dict[Path, str]:
        """Return the SHA-256 of what was recorded of a folder's files, those that were read whole."""
        return {Path(name): one.digest.hex() for name, one in self._files[path].items() if one.whole}

    def find_changed(self) -> dict[Path, Path]:
        """Return what was recorded and does not hold any more, each with a file of it that was changed, added or removed."""
        found = ((path, self._find_changed(path)) for path in self._files)
        return {path: name for path, name in found if name is not None}

    def _find_changed(self, path: Path) -> Path | None:
        recorded, now = self._files[path], dict(_list_states(path))
        for name in now.keys() | recorded.keys():
            before, state = recorded.get(name), now.get(name)
            if before is None or state is None:
                return Path(name)
            if state != before.state:
                if _mode_of(state) != _mode_of(before.state) or _record(name, state).digest != before.digest:
                    return Path(name)
                recorded[name] = replace(before, state=state)  # touched alone: not read again
        return None

    def check(self, when: str) -> None:
        """Raise :class:`TamperedError` if anything was changed; `when` says since when, as in "while b-timed-01 ran"."""
        if found := self.find_changed():
            raise TamperedError(
                f"{next(iter(found.values()))}: was changed {when}; nothing can be concluded from runs that change it; correct "
                "the command that does, then run again, which repeats what was changed",
                found,
            )


def _list_states(path: Path) -> Iterator[tuple[str, _State]]:
    """Yield each file and link of a folder, or the file itself, by its path."""
    try:
        if path.is_symlink() or not path.is_dir():
            yield str(path), _state_of(path.lstat())
            return
    except OSError:
        return
    folders = [str(path)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry.path, _state_of(entry.stat(follow_symlinks=False))
        except OSError:  # gone since it was listed, or closed: then its files are missing
            continue


def _state_of(status: os.stat_result) -> _State:
    return status.st_size, status.st_ctime_ns, status.st_ino, status.st_mode


def _mode_of(state: _State) -> int:
    return state[3]


def _record(name: str, state: _State) -> _Recorded:
    """Read a file, or the target of a link, for its digest."""
    size, mode = state[0], _mode_of(state)
    try:
        if S_ISLNK(mode):
            content = os.fsencode(Path(name).readlink())
        elif not S_ISREG(mode):
            content = b""
        elif size <= _READ_WHOLE_BYTES:
            return _Recorded(state, hashlib.sha256(Path(name).read_bytes()).digest(), whole=True)
        else:
            content = _read_blocks(Path(name), size)
    except OSError as error:  # closed to us, or gone since it was listed
        content = f"unreadable {error.errno}".encode()
    return _Recorded(state, hashlib.sha256(content).digest(), whole=False)


def _read_blocks(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        blocks = [b"%d %d " % (size, os.fstat(file.fileno()).st_mtime_ns)]
        for number in range(_BLOCKS):
            file.seek((size - _BLOCK_BYTES) * number // (_BLOCKS - 1))
            blocks.append(file.read(_BLOCK_BYTES))
    return b"".join(blocks)
