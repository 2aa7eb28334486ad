"""The folders above a run's copy of the working folder: in each, links lead to what lies there in the real one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from speedproof.config.model import Variant
from speedproof.config.workload import Workload
from speedproof.run.caches import find_top

_MOST_LEVELS = 2  # outside of a git repository
_MOST_ENTRIES = 1000  # of a folder that is mirrored: more are a data set, or a store of many projects
_NOT_LINKED = {".git"}  # git would write its index through it


def count_mirrored(source: Path) -> int:
    """Return how many folders above a working folder are mirrored: up to the root of its git repository, else up to two.

    The home folder, those for temporary files and the root folder are not, nor is what lies above them.
    """
    place = Path(os.path.realpath(source))
    folders = (place, *place.parents)
    root = next((level for level, folder in enumerate(folders) if (folder / ".git").exists()), None)
    most = _MOST_LEVELS if root is None else root
    never = {os.path.realpath(name) for name in ("/", "/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir(), Path.home())}
    for level, folder in enumerate(place.parents[:most]):
        if str(folder) in never or not _is_small(folder):
            return level
    return min(most, len(place.parents))


def _is_small(folder: Path) -> bool:
    try:
        return len(os.listdir(folder)) <= _MOST_ENTRIES  # noqa: PTH208 (as it counts only)
    except OSError:
        return False


def make_mirror(top: Path, workload: Workload, variant: Variant) -> Path:
    """Mirror the folders above a variant's origin in the empty folder `top`; return where its copy belongs."""
    if not variant.mirrored or variant.origin is None:
        return top
    origin, place = Path(variant.origin), top
    holds_ours = {str(above) for path in (workload.folder.resolve(), top.resolve()) for above in (path, *path.parents)}
    real = origin.parents[variant.mirrored - 1]
    for name in origin.relative_to(real).parts:
        with suppress(OSError), os.scandir(real) as entries:  # closed by now, or not on this machine
            for entry in entries:
                if entry.name not in {name, *_NOT_LINKED} and os.path.realpath(entry.path) not in holds_ours:
                    _link(f"{place}/{entry.name}", entry.path)
        real, place = real / name, place / name
        place.mkdir(0o700)
    return place


def _link(link: str, target: str) -> None:
    os.symlink(target, link)  # noqa: PTH211 (a thousand of them in each run: by Path they take twice as long)
    os.utime(link, ns=(0, 0), follow_symlinks=False)  # the system writes when it is followed


def list_followed(variant: Variant, place: Path) -> list[str]:
    """Return what a run in `place` used of the folders above it, as `../data`: the links that it followed."""
    followed = []
    for level, folder in enumerate(place.parents[: variant.mirrored], 1):
        followed += [f"{'../' * level}{name}" for name in _list_followed_in(folder)]
    return followed


def _list_followed_in(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        with suppress(OSError):
            if path.is_symlink() and path.lstat().st_atime_ns:
                yield path.name


def list_created_above(variant: Variant, place: Path) -> list[str]:
    """Return what lies beside the highest mirrored folder of a run, as `../data` from its working folder."""
    up = "../" * (variant.mirrored + 1)
    return [f"{up}{path.name}" for path in find_top(variant, place).parent.iterdir()]
