"""Which files in temporary folders are another program's: runs are not held responsible for those.

The system does not record who wrote a file. But a path is another program's if it also changes while no run of ours can write
to it. It is one, too, if after a run, whose own processes have all ended by then, a process works in it, or names it in its
words or variables.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from speedproof.util.child_processes import list_ancestors

_TEMPORARY = ("/dev/shm", "/var/tmp", "/tmp")


class OthersFiles:
    """Remembers what other programs were seen to use or change."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._folders: set[str] = set()  # in which they work

    def note(self, paths: Iterable[str]) -> None:
        """Note what changed while no run could write there."""
        self._paths.update(paths)

    def note_processes(self, own_folders: Collection[str]) -> None:
        """Note what processes name, and where they work if none of `own_folders` lies there; our own do not count."""
        ours = {os.getpid(), *list_ancestors()}  # their words name our programs and folders
        for process in Path("/proc").glob("[0-9]*"):
            if int(process.name) in ours or _find_parent(int(process.name)) == os.getpid():
                continue
            with suppress(OSError):  # it ended, or is another user's
                folder = os.readlink(process / "cwd")  # noqa: PTH115 (many)
                if folder not in _TEMPORARY and not any(f"{own}/".startswith(f"{folder}/") for own in own_folders):
                    self._folders.add(folder)
            with suppress(OSError):
                self._paths.update(_list_named(process))

    def has(self, name: str) -> bool:
        """Return whether a file, a folder or what is in it is another program's."""
        inside = (f"{name}/".startswith(f"{folder}/") for folder in self._folders)
        return any(inside) or any(f"{path}/".startswith(f"{name}/") for path in (*self._paths, *self._folders))


def _find_parent(process: int) -> int | None:
    """Return the number of a process' parent; None if it has ended."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[1])  # a program's name may hold spaces and parentheses


def _list_named(process: Path) -> list[str]:
    """Return the paths that are whole words of a process or its variables, or follow a `=` in one: below temporary folders."""
    texts = [(process / kind).read_bytes().decode(errors="surrogateescape") for kind in ("cmdline", "environ")]
    words = [word for text in texts for word in text.split("\0")]
    named = [os.path.normpath(word.rpartition("=")[2]) for word in words if "/" in word]
    return [name for name in named if name.startswith(tuple(f"{folder}/" for folder in _TEMPORARY))]


def is_temporary(name: str, places: Collection[str], environ: Mapping[str, str]) -> bool:
    """Return whether the innermost watched place of a path is a temporary folder: not if that is a HOME within /tmp."""
    inner = max((place for place in places if name.startswith(f"{place}/")), key=len, default="")
    folders = {*_TEMPORARY, os.path.realpath(environ["TMPDIR"])} if environ.get("TMPDIR") else {*_TEMPORARY}
    return inner in folders


@cache
def known_others() -> OthersFiles:
    """Return what this process knows of other programs."""
    return OthersFiles()
