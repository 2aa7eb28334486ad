"""Temporary folders, removed when their process ends; if it was killed, when the next process like it begins."""

import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWNER_FILE = ".owner"
RUN_PREFIX = "run-"


@contextmanager
def own_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder that only its owner can read, and remove those of this prefix that killed processes left.

    A folder is in use as long as its process holds a lock on a file in it. Only those of this user and of this machine are
    removed, and links are not followed.
    """
    for path in parent.glob(f"{prefix}*"):
        _remove_if_left(path)
    while True:
        # It also removes what a program made read-only.
        temporary = tempfile.TemporaryDirectory(dir=parent, prefix=prefix, ignore_cleanup_errors=True)
        with temporary as folder, holding_new_folder(Path(folder)) as held:
            if held:
                yield Path(folder)
                return


@contextmanager
def removable_folder() -> Iterator[Path]:
    """Yield an empty temporary folder. Its path names nobody, since programs see it."""
    with own_folder(Path(tempfile.gettempdir()), RUN_PREFIX) as own:
        folder = own / "w"  # beside the file that shows whose it is
        folder.mkdir(0o700)
        yield folder


@contextmanager
def holding_new_folder(folder: Path) -> Iterator[bool]:
    """Hold a new folder of this user's as in use; yield whether it still exists.

    Another process that looks for what was left may take the lock first, and removes the folder then.
    """
    try:
        owner = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        yield False
        return
    try:
        os.write(owner, socket.gethostname().encode())
        yield try_lock(owner)
    finally:
        os.close(owner)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder whose process is gone; leave what is not known to be one."""
    try:
        found = folder.lstat()
        if folder.is_symlink() or not folder.is_dir() or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return
        owner = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        if os.read(owner, 1000) == socket.gethostname().encode() and try_lock(owner):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(owner)


def try_lock(handle: int) -> bool:
    """Lock an open file until it is closed; return whether nobody else has it locked."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
