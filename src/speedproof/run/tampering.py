"""Whether what an outcome rests on is still what it was: the programs' copies, other sources, and the files of ended runs."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from stat import S_ISLNK, S_ISREG

from speedproof.util.errors import TamperedError

# Of a file, in this order: size, time of change, inode and mode. No program can set the time of change, unlike that of writing.
_State = tuple[int, int, int, int]
# Of a larger file, blocks and the time of writing are compared, since reading a whole data set takes minutes.
_READ_WHOLE_BYTES = 2**22
_BLOCKS, _BLOCK_BYTES = 16, 2**16


class Manifest:
    """Remembers the content of files and folders, and finds what differs from it later.

    Sizes, times and inodes are compared first; content is read again only of files in which those differ.
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        """Record these files and folders."""
        self._files: dict[Path, dict[str, tuple[_State, bytes]]] = {}
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> None:
        """Record one more file, or a folder with all that it holds; one that is missing must stay missing."""
        self._files[path] = {name: (state, _digest(name, state)) for name, state in _list_states(path)}

    def find_changed(self) -> dict[Path, Path]:
        """Return what was recorded and does not hold any more, each with a file of it that was changed, added or removed."""
        found = ((path, self._find_changed(path)) for path in self._files)
        return {path: name for path, name in found if name is not None}

    def _find_changed(self, path: Path) -> Path | None:
        recorded, now = self._files[path], dict(_list_states(path))
        for name in now.keys() | recorded.keys():
            changed = now.get(name) != (recorded[name][0] if name in recorded else None)
            if changed and name in now.keys() & recorded:
                changed = _digest(name, now[name]) != recorded[name][1]
                recorded[name] = (now[name], recorded[name][1])  # touched alone: not read again
            if changed:
                return Path(name)
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


def _digest(name: str, state: _State) -> bytes:
    """Return a digest of a file's content, kind and rights."""
    size, _, _, mode = state
    digest = hashlib.sha256(b"%o " % mode)
    try:
        if S_ISLNK(mode):
            digest.update(os.fsencode(Path(name).readlink()))
        elif S_ISREG(mode) and size <= _READ_WHOLE_BYTES:
            digest.update(Path(name).read_bytes())
        elif S_ISREG(mode):
            with Path(name).open("rb") as file:
                digest.update(b"%d %d " % (size, os.fstat(file.fileno()).st_mtime_ns))
                for number in range(_BLOCKS):
                    file.seek((size - _BLOCK_BYTES) * number // (_BLOCKS - 1))
                    digest.update(file.read(_BLOCK_BYTES))
    except OSError as error:  # closed to us, or gone since it was listed
        digest.update(f"unreadable {error.errno}".encode())
    return digest.digest()
