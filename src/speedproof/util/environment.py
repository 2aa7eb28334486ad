"""The environment of the steps' commands: this checkout's package, this interpreter's programs, the checkout's commit."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template

from speedproof.util.errors import ConfigError

# The commit is asked for where the workflow starts: a compute node or a container may have no git.
COMMIT_VARIABLE = "SPEEDPROOF_COMMIT"
UMASK_VARIABLE = "SPEEDPROOF_UMASK"
# The digest of all code that decides what a run measures, the instrument's and the workload's.
SOURCES_VARIABLE = "SPEEDPROOF_SOURCES"
# Set by the workflow where a job runs inside a container.
IMAGE_DIGEST_VARIABLE = "SPEEDPROOF_IMAGE_DIGEST"
# Set where an experiment's volumes were copied to the node's own disk.
SCRATCH_VARIABLE = "SPEEDPROOF_SCRATCH"
# Set where an experiment starts a process, or several together: when, in seconds of the machine's clock that nobody sets.
LAUNCHED_VARIABLE = "SPEEDPROOF_LAUNCHED"

# Python would look for every module in the working folder first; what a Python of ours starts in turn, too.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


def python_command(*arguments: str, python: str = sys.executable) -> list[str]:
    """Return the words that start a Python of ours: it looks for no module in the working folder (`-P`)."""
    return [python, "-P", *arguments]


def available_cores() -> int:
    """Return how many processor cores this process may use, which in a job is often fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def step_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return PYTHONPATH and PATH with this package's folder and this interpreter's programs in front, and the commit.

    Python then looks for modules in no working folder, where anybody's `math.py` may lie. A container keeps PYTHONPATH, so that
    editing the package rebuilds no image, and has a PATH of its own.
    """
    package, programs = Path(__file__).parents[2], Path(sys.executable).parent
    return {
        "PYTHONPATH": _in_front(package, environment.get("PYTHONPATH")),
        "PATH": _in_front(programs, environment.get("PATH")),
        **SAFE_PATH,
        COMMIT_VARIABLE: environment.get(COMMIT_VARIABLE) or _git_commit(package),
    }


def expand_variables(text: str, environ: Mapping[str, str], key: str) -> Path:
    """Return the path that a configured `text` stands for, with the values of its `$NAME`s; nothing else of it is replaced.

    Raises :class:`ConfigError`, which names the configuration's `key`, where a variable is not set here.
    """
    try:
        return Path(Template(text).substitute(environ))
    except KeyError as missing:
        raise ConfigError(f"{key}: ${missing.args[0]} is not set here; name a folder, or a variable that jobs have") from None


def find_scratch(scratch: str | None, environ: Mapping[str, str]) -> Path:
    """Return the folder of resources.scratch; the working folder if it is unset, or if only jobs have its variable."""
    try:
        return expand_variables(scratch or "", environ, "resources.scratch")
    except ConfigError:
        return Path()


def python_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what keeps a child's Python from looking for modules in the working folder; an empty name stands for it, too."""
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**SAFE_PATH, **({"PYTHONPATH": os.pathsep.join(paths)} if "PYTHONPATH" in environment else {})}


def describe_umask() -> dict[str, str]:
    """Return this process' file mode mask as a variable: nsys starts programs with none, and their files are everybody's."""
    mask = os.umask(0o077)
    os.umask(mask)
    return {UMASK_VARIABLE: f"{mask:03o}"}


def take_umask(environment: Mapping[str, str] = os.environ) -> None:
    """Take the file mode mask that the process which started this one described, if one did."""
    mask = environment.get(UMASK_VARIABLE, "")
    if mask.isdigit():
        os.umask(int(mask, 8))


def _in_front(folder: Path, paths: str | None) -> str:
    others = [path for path in (paths or "").split(os.pathsep) if path and path != str(folder)]
    return os.pathsep.join([str(folder), *others])


def _git_commit(folder: Path) -> str:
    """Return the checkout's commit, with `+` where files differ from it; nothing outside a checkout."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
