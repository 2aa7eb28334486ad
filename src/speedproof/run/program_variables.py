"""Which variables of its caller a program sees, and which of them decide what is measured."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from speedproof.config.model import Variant
from speedproof.results.files import digest_of, write_text
from speedproof.util.scrub import profiled_environment, reads_like_secret

# What an instrument sets for itself: ours, and the libraries that CUDA, NVTX and nsys load into a program.
_OWN = ["SPEEDPROOF_*"]
_PROFILERS = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_*", "QUADD_*"]
# Programs see these, but kept runs stay valid when they change: they differ from one shell, login or job to the next.
VOLATILE_VARIABLES = [
    # Where a shell stands and how deep, and what it ran last.
    "PWD", "OLDPWD", "SHLVL", "_", "WINDOWID", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER",
    # The terminal.
    "TERM", "TERM_*", "COLORTERM", "COLUMNS", "LINES", "LS_COLORS", "TMUX*", "STY", "VTE_VERSION", "GPG_TTY", "VSCODE_*",
    # The login and the desktop.
    "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "SSH_*", "XDG_SESSION_*", "XDG_RUNTIME_DIR", "XDG_SEAT*", "XDG_VTNR", "DBUS_*",
    "SESSION_MANAGER", "KRB5CCNAME", "INVOCATION_ID", "JOURNAL_STREAM",
    # The machine, which every run's conditions name, and what a scheduler or a CI service gave to this job.
    "HOSTNAME", "HOST", "TMPDIR", "SLURM_*", "GITHUB_*", "RUNNER_*", "CI_JOB_*", "CI_PIPELINE_*", "CI_RUNNER_*",
]  # fmt: skip
VARIABLES_FILE = "variables.json"


def passed_variables(variant: Variant, environ: Mapping[str, str], timed: bool) -> dict[str, str]:
    """Return what a run sees of `environ` besides the allowed variables; a profiled run only what its variant passes."""
    if timed and variant.inherit_environment:
        return inherited_variables(environ, variant.pass_environment, variant.drop_environment)
    return {name: value for name, value in environ.items() if _matches(name, variant.pass_environment)}


def without_dropped(variant: Variant, environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without what a variant drops, and without our own variables if it sees its caller's."""
    hidden = _OWN if variant.inherit_environment else []
    return {
        name: value
        for name, value in environ.items()
        if not _matches(name, variant.drop_environment)
        and (not _matches(name, hidden) or _matches(name, variant.pass_environment))
    }


def inherited_variables(environ: Mapping[str, str], passed: Sequence[str], dropped: Sequence[str]) -> dict[str, str]:
    """Return what a timed run sees of its caller's variables: all but secrets, an instrument's own, and dropped ones."""
    return {
        name: value
        for name, value in environ.items()
        if not _matches(name, dropped)
        and (_matches(name, passed) or not (reads_like_secret(name, value) or _matches(name, [*_OWN, *_PROFILERS])))
    }


def list_secrets(environ: Mapping[str, str], passed: Sequence[str], dropped: Sequence[str]) -> list[str]:
    """Return the names of the variables that a timed run would see if they did not read like a secret."""
    return sorted(
        name
        for name, value in environ.items()
        if reads_like_secret(name, value) and not _matches(name, [*passed, *dropped]) and name.isprintable()
    )


def list_dropped(environ: Mapping[str, str], dropped: Sequence[str]) -> list[str]:
    """Return the names of the variables that are there and dropped."""
    return sorted(name for name in environ if _matches(name, dropped))


def list_unprofiled(environ: Mapping[str, str], passed: Sequence[str], dropped: Sequence[str]) -> list[str]:
    """Return the names of the variables that decide what is measured, and that timed runs alone see."""
    allowed = profiled_environment(environ)
    return [name for name in deciding_variables(environ, passed, dropped) if name not in allowed and not _matches(name, passed)]


def deciding_variables(environ: Mapping[str, str], passed: Sequence[str], dropped: Sequence[str]) -> dict[str, str]:
    """Return, sorted, the variables that a timed run sees and with which other runs may be measured."""
    seen = sorted(inherited_variables(environ, passed, dropped).items())
    kept = {name: value for name, value in seen if name in passed or not _matches(name, VOLATILE_VARIABLES)}
    return {name: value for name, value in kept.items() if name.isprintable()}  # no other name can be written down


def digest_variables(deciding: Mapping[str, str]) -> dict[str, str]:
    """Return one digest of all variables that decide what is measured: no value is written down."""
    return {"variables": digest_of({name: _digest(value) for name, value in deciding.items()})}


def note_changed(out: Path, deciding: Mapping[str, str]) -> list[str]:
    """Return which variables changed since the last call of a proof, and note the present ones in its folder."""
    path = out / VARIABLES_FILE
    # Two bytes of a digest tell whether a value changed, and too little to find out a value by trying.
    now = {name: _digest(value)[:4] for name, value in deciding.items()}
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = now
    write_text(path, json.dumps(now, indent=1) + "\n")
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _digest(value: str) -> str:
    return hashlib.sha256(os.fsencode(value)).hexdigest()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
