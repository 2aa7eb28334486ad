"""The copy of the working folder that a proof measures."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from stat import S_ISREG

from speedproof.results.files import write_text
from speedproof.results.run_record import PROGRAMS
from speedproof.run.proof.request import REQUEST_SUFFIXES, read_request
from speedproof.run.working_folder import UNWATCHED
from speedproof.util.errors import ConfigError, SpeedproofError

TREE, DIGESTS = "tree", "tree.sha256"
OUTPUTS_FILE = "outputs.json"
LINKED_FROM_MIB = 64
_LARGEST_REQUEST = 2**16  # bytes


@dataclass(frozen=True)
class Snapshot:
    """What a run's working folder holds besides copied files: what is linked instead; and what it lacks."""

    linked: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # large, or ignored by git, and the proof lies in it
    changed: list[str] = field(default_factory=list)  # against the copy that an earlier call took
    source: Path | None = field(default=None, compare=False)  # the folder that was copied


def take_snapshot(source: Path, out: Path, committed: bool = False, commands: Sequence[str] = ()) -> Snapshot:
    """Copy the working folder `source` into the proof's folder `out`; link what is large, or ignored by git.

    If `committed`, the last commit is copied. Edits that are made while it runs change nothing;
    those since an earlier call are named. No part of it are the file that our own output goes to, which is another one each
    time, and files that ask for a proof of these `commands`.

    Raises :class:`ConfigError` where there is no commit.
    """
    tree = out / PROGRAMS / TREE
    known, before = tree.is_dir(), _digest_tree(tree)
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(0o700 | (source.stat().st_mode & 0o077), parents=True)  # no more open than what it copies
    (out / PROGRAMS / DIGESTS).touch()  # by which it is known for a proof, and not copied into itself
    leave_out = partial(_leave_out, _list_outputs(out), list(commands))
    names = [entry.name for entry in source.iterdir()]
    names = sorted({*names} - {*leave_out(str(source), names)})
    ignored = _ignored_by_git(source, names)
    linked, left_out = {}, []
    for entry in (source / name for name in names):
        if entry.name in ignored or (not committed and ((entry.is_symlink() and entry.is_dir()) or _is_large(entry))):
            if out.resolve().is_relative_to(entry.resolve()):  # it would hold what is measured of it
                left_out.append(entry.name)
            else:
                linked[entry.name] = str(entry.absolute())
        elif committed:
            continue
        elif entry.is_dir():
            shutil.copytree(entry, tree / entry.name, symlinks=True, ignore=leave_out)
        else:
            shutil.copy2(entry, tree / entry.name, follow_symlinks=entry.exists())
    if committed:
        _take_commit(source, tree)
    after = _digest_tree(tree)
    lines = [f"{digest.hex()}  {name}" for name, digest in after.items()]
    write_text(out / PROGRAMS / DIGESTS, "\n".join(["# What decides what is measured.", *lines, ""]))
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Snapshot(linked, left_out, changed if known else [], source)


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
    """Return which entries of a folder are not copied: tools' own, our own output, proofs, and what is not a regular file."""
    paths = {name: Path(folder, name) for name in names}
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
    special = not path.is_file() and not path.is_dir()  # a pipe, a socket
    return special or _identify(path) in outputs or (path / PROGRAMS / DIGESTS).is_file()


def _take_commit(source: Path, tree: Path) -> None:
    """Put the files of a folder's last commit into `tree`."""
    try:
        done = subprocess.run(["git", "archive", "--format=tar", "HEAD", "."], cwd=source, capture_output=True, check=True)
        # As a checkout has them, links and rights included.
        subprocess.run(["tar", "--extract", "--directory", tree], input=done.stdout, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode(errors="replace").strip() or str(error)
        why = said.splitlines()[0]
        raise ConfigError(f"workdir: no commit of {source} to be had ({why}); commit, or leave it out") from None


def _digest_tree(tree: Path) -> dict[str, bytes]:
    """Return the digest of each file of a tree, by its name: of its content, and of who may execute it."""
    import hashlib

    return {
        path.relative_to(tree).as_posix(): hashlib.sha256(b"%o" % (path.stat().st_mode & 0o111) + path.read_bytes()).digest()
        for path in (sorted(tree.rglob("*")) if tree.is_dir() else [])
        if path.is_file()
    }


def _ignored_by_git(folder: Path, names: list[str]) -> set[str]:
    try:
        done = subprocess.run(
            ["git", "check-ignore", "--stdin", "-z"], cwd=folder, input="\0".join(names), capture_output=True, text=True
        )
    except OSError:
        return set()
    return set(done.stdout.split("\0")) - {""}


def _is_large(entry: Path) -> bool:
    """Return whether a file or folder is too large to be copied for each run."""
    total = 0
    paths = entry.rglob("*") if entry.is_dir() else [entry]
    for path in paths:
        try:
            total += path.lstat().st_size
        except OSError:
            continue
        if total > LINKED_FROM_MIB * 2**20:
            return True
    return False
