"""Commits of a git repository, each as a folder of its own: to measure one beside another."""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from speedproof.util.errors import ConfigError, SpeedproofError

_MOST_NAMED = 3
_SUBMODULE = "160000"  # its mode in a tree


class BuildError(SpeedproofError):
    """A commit that does not build."""

    exit_code = 3


@dataclass(frozen=True)
class Commit:
    """One commit, as seen from a folder of its repository: the folder's files are what counts."""

    name: str  # as it was asked for, for example main
    sha: str
    tree: str  # git's checksum of the folder's files
    folder: Path
    submodules: tuple[str, ...] = ()  # that it needs; an export leaves them empty

    @property
    def title(self) -> str:
        short = self.sha[:12]
        return short if self.sha.startswith(self.name) else f"{self.name} ({short})"


def resolve_commit(folder: Path, name: str) -> Commit:
    """Return the commit that a branch, a tag or a checksum names in the repository around a folder.

    Raises :class:`ConfigError` if there is none, or if it lacks the folder.
    """
    _ask(folder, "rev-parse", "--git-dir", why=f"{folder}: not in a git repository")
    sha = _ask(
        folder,
        *("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"),
        why=f"{name}: no such commit in {folder}; correct it, or fetch it (a CI checkout may hold one commit only)",
    )
    # `--verify` would keep a relative path from being resolved
    tree = _ask(
        folder, "rev-parse", f"{sha}:./", why=f"{name}: has no folder {folder.name}; start in one that both commits have"
    )
    listed = _ask(folder, "ls-tree", "-r", "--full-tree", tree, why=f"{name}: cannot be read")
    modules = [line.partition("\t")[2] for line in listed.splitlines() if line.startswith(_SUBMODULE)]
    return Commit(name, sha, tree, folder, tuple(modules))


def list_commit_files(commit: Commit) -> dict[str, str]:
    """Return git's mode and checksum of each file of a commit, by its name in the folder."""
    listed = _ask(commit.folder, "ls-tree", "-r", "-z", "--full-tree", commit.tree, why=f"{commit.title}: cannot be read")
    rows = (row.partition("\t") for row in listed.split("\0") if row)
    return {name: words for words, _, name in rows}


def read_title(commit: Commit) -> str:
    """Return the first line of a commit's message."""
    return _ask(commit.folder, "log", "-1", "--format=%s", commit.sha, why=f"{commit.title}: cannot be read")


def describe_uncommitted(commit: Commit) -> list[str]:
    """Return a line if a commit is the one that is checked out, and its files were changed since."""
    why = f"{commit.folder}: its changes cannot be listed"
    if _ask(commit.folder, "rev-parse", "HEAD", why=why) != commit.sha:
        return []
    changed = _ask(commit.folder, "diff", "--name-only", "--relative", "-z", "HEAD", "--", ".", why=why).split("\0")[:-1]
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    return [f"uncommitted changes are not measured: {', '.join(changed[:_MOST_NAMED])}{more}"] if changed else []


def export_commit(commit: Commit, target: Path) -> None:
    """Write a commit's files into an empty folder, as a checkout has them; the repository stays as it is."""
    git_dir = _ask(commit.folder, "rev-parse", "--absolute-git-dir", why=f"{commit.folder}: not in a git repository")
    with tempfile.TemporaryDirectory(prefix="speedproof-index-") as place:
        index = {"GIT_INDEX_FILE": str(Path(place, "index"))}
        words = (f"--git-dir={git_dir}", f"--work-tree={target.absolute()}")
        why = f"{commit.title}: cannot be checked out into {target}"
        _ask(target, *words, "read-tree", commit.tree, why=why, variables=index)
        _ask(target, *words, "checkout-index", "--all", why=why, variables=index)


@dataclass(frozen=True)
class CommitTrees:
    """The commits that are measured in one experiment, by variant, and how each is built in its folder."""

    commits: Mapping[str, Commit]
    build: str | None = None

    def fill(self, tree: Path) -> None:
        """Write each variant's files into a folder of its name, and build them there."""
        for variant, commit in self.commits.items():
            own = tree / variant
            own.mkdir()
            export_commit(commit, own)
            if self.build:
                build_folder(own, self.build, commit.title)


def build_folder(folder: Path, command: str, title: str) -> None:
    """Run a build command in a folder. Raises :class:`BuildError`, which calls it by `title`, if it fails."""
    with tempfile.TemporaryFile() as output:  # a pipe would wait for what a build leaves in the background, such as a server
        try:
            status = _run_in_session(shlex.split(command), folder, output)
        except OSError as error:
            raise BuildError(f"{title}: cannot run --build {command!r:.80} ({error.strerror}); correct it") from None
        output.seek(0)
        said = [line.strip() for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    if status:
        last = f": {said[-1]}" if said else ""
        raise BuildError(f"{title}: --build {command!r:.80} ended with exit status {status}{last}")


def _run_in_session(words: list[str], folder: Path, output: IO[bytes]) -> int:
    """Return a command's exit status; if this process is interrupted, all that the command started ends, too."""
    with subprocess.Popen(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    ) as child:
        try:
            return child.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise


def _ask(folder: Path, *words: str, why: str, variables: Mapping[str, str] | None = None) -> str:
    """Return what git prints. Raises :class:`ConfigError` with `why` and git's own reason."""
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            env={**os.environ, **(variables or {})},
            capture_output=True,
            text=True,
            errors="surrogateescape",
        )
    except OSError as error:
        raise ConfigError(f"{why} (git: {error.strerror})") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it failed"]
        raise ConfigError(f"{why} ({said[0]})")
    return done.stdout.strip()


@dataclass(frozen=True)
class HistoryCommit:
    """A commit of a line of history, as lists show it."""

    sha: str
    date: str  # of its author, as 2026-11-27
    subject: str
    merge: bool = False


def list_history(good: Commit, bad: Commit) -> list[HistoryCommit]:
    """Return the first parents from `good` to `bad`, both included, that changed the folder's files, the oldest first.

    Raises :class:`ConfigError` if `good` is not among the first parents of `bad`.
    """
    why = f"{good.title} and {bad.title}: their history cannot be read; a CI checkout may hold one commit only"
    if good.sha == bad.sha:
        raise ConfigError(f"{good.name} and {bad.name} are the same commit, {good.sha[:12]}; name an older and a newer one")
    line = _ask(good.folder, "rev-list", "--first-parent", f"{good.sha}..{bad.sha}", why=why).split()
    parent = _ask(good.folder, "rev-parse", f"{line[-1]}^", why=why) if line else ""
    if parent != good.sha:
        raise ConfigError(
            f"{good.title} is not among the first parents of {bad.title}; choose an earlier commit of its branch, for example "
            f"`git merge-base {good.name} {bad.name}`, and the older commit first"
        )
    log = ("log", "--first-parent", "--reverse", "--date=short", "--format=%H%x09%ad%x09%P%x09%s")
    first = _ask(good.folder, *log, "-1", good.sha, why=why)
    changed = _ask(good.folder, *log, f"{good.sha}..{bad.sha}", "--", ".", why=why)
    return [_read_history(row) for row in [first, *changed.splitlines()]]


def _read_history(row: str) -> HistoryCommit:
    sha, date, parents, subject = row.split("\t", 3)
    return HistoryCommit(sha, date, subject, merge=len(parents.split()) > 1)
