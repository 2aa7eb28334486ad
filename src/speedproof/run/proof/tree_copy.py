"""A copy of a working folder: its regular files, of a size that is bounded, and its links; anything else is named."""

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from speedproof.util.errors import ConfigError
from speedproof.util.units import MIB

LINKED_FROM_MIB = 64  # what is larger is linked; linked files that are larger together are known by size and time
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}

LeaveOut = Callable[[str, list[str]], list[str]]  # which entries of a folder are not copied


def name_special(path: Path) -> str | None:
    """Return what an entry is that has no content to copy; None: a file, a folder, or a link to one or to nothing."""
    try:
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except OSError as error:
        return "a circle of links" if error.errno == errno.ELOOP else None
    return f"a link to {kind}" if kind and path.is_symlink() else kind


def require_utf8(path: Path) -> None:
    """Raise a :class:`ConfigError` that names a file if its name is not UTF-8: no JSON file could hold it."""
    if not _is_utf8(path.name):
        name = os.fsencode(path).decode(errors="backslashreplace")
        raise ConfigError(f"{name}: its name is not valid UTF-8; rename it")


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_large(entry: Path) -> bool:
    """Return whether a file or folder is too large to be copied for each run."""
    if not entry.is_dir():
        return _read_size(entry) > LINKED_FROM_MIB * MIB
    total = 0
    for path in entry.rglob("*"):
        total += _read_size(path, follow=False)
        if total > LINKED_FROM_MIB * MIB:
            return True
    return False


def _read_size(path: Path, follow: bool = True) -> int:
    try:
        return path.stat(follow_symlinks=follow).st_size
    except OSError:
        return 0


def copy_entry(entry: Path, target: Path, leave_out: LeaveOut, top: Path) -> dict[str, str]:
    """Copy an entry of the folder `top`; return what is in it that has no content to copy, by name, and what each is.

    A link in a folder stays a link; one that leads out of `top` then leads there from anywhere.
    """
    special: dict[str, str] = {}
    if entry.is_dir():
        shutil.copytree(entry, target, symlinks=True, ignore=partial(_leave_special, leave_out, top, special))
        _lead_out(entry, target, top)
    elif (kind := name_special(entry)) is not None:
        special[entry.name] = kind
        _keep_link(entry, target)
    else:
        shutil.copy2(entry, target, follow_symlinks=entry.exists())
    return special


def _leave_special(leave_out: LeaveOut, top: Path, special: dict[str, str], folder: str, names: list[str]) -> list[str]:
    """Return which entries of a folder are not copied, and note those that have no content."""
    left = set(leave_out(folder, names))
    for path in (Path(folder, name) for name in names if name not in left):
        if (kind := name_special(path)) is not None:
            special[path.relative_to(top).as_posix()] = kind
            left |= set() if path.is_symlink() else {path.name}
    return list(left)


def _lead_out(source: Path, copied: Path, top: Path) -> None:
    for folder, folders, files in os.walk(copied):
        for link in (path for path in (Path(folder, name) for name in (*folders, *files)) if path.is_symlink()):
            original = source / link.relative_to(copied)
            if not _find_target(original).is_relative_to(top):
                link.unlink()
                _keep_link(original, link)


def _keep_link(entry: Path, target: Path) -> None:
    """Make a link of the same target elsewhere, if the entry is one; a relative target would be another one there."""
    if entry.is_symlink():
        named = entry.readlink()
        target.symlink_to(named if name_special(entry) == "a circle of links" else _find_target(entry))


def _find_target(link: Path) -> Path:
    """Return what a link names, as an absolute path."""
    return Path(os.path.normpath(link.parent.absolute() / link.readlink()))


def digest_tree(tree: Path) -> dict[str, bytes]:
    """Return the digest of each file of a tree, by its name: of its content, and of who may execute it.

    Files that links out of the tree lead to are digested by content up to a limit together, else by size and time of change.
    """
    files = list(_list_regular(tree))
    top = os.path.realpath(tree)
    outward = {path for path in files if path.is_symlink() and not _lies_in(os.path.realpath(path), top)}
    by_state = outward if sum(path.stat().st_size for path in outward) > LINKED_FROM_MIB * MIB else set()
    return {path.relative_to(tree).as_posix(): _digest(path, path in by_state) for path in files}


def _list_regular(tree: Path) -> Iterator[Path]:
    for path in sorted(tree.rglob("*")) if tree.is_dir() else []:
        require_utf8(path)
        if path.is_file():
            yield path


def _lies_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _digest(path: Path, by_state: bool) -> bytes:
    state = path.stat()
    digest = hashlib.sha256(b"%o" % (state.st_mode & 0o111))
    if by_state:
        digest.update(b"%d %d" % (state.st_size, state.st_mtime_ns))
        return digest.digest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: digest).digest()
