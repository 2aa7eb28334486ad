"""Folders whose names the tools in between cannot take: refused before any job, since some would be executed."""

from collections.abc import Mapping
from pathlib import Path

from speedproof.util.errors import ConfigError

# Snakemake puts texts between quotes with Python's repr: a single quote changes the kind of quotes, and then `$` and
# backticks run; a backslash, or a character that repr escapes, arrives as another one.
MISQUOTED = "'\\"
# In folders besides: braces are Snakemake's wildcards, and ours in commands; colons and commas separate the folders of
# PYTHONPATH and Apptainer; Slurm and nsys replace a percent sign and the letter behind it in names. The table of mounts, which
# --isolate reads, escapes by backslashes.
MISREAD_HERE = "\\{}:,%"  # without a workflow
MISREAD = f"{MISQUOTED}{MISREAD_HERE}"


def find_unsafe(text: str, unsafe: str) -> str | None:
    """Return the first character of `text` that is one of `unsafe` or not printable."""
    return next((character for character in text if character in unsafe or not character.isprintable()), None)


def check_folders(folders: Mapping[str, Path], workflow: bool = True) -> None:
    """Raise :class:`ConfigError` that names the first folder which the tools cannot take, by what it is for.

    Without the `workflow` these are neither Snakemake nor Slurm, and fewer characters are refused.
    """
    tools = "Snakemake, Apptainer or Slurm" if workflow else "search paths, Apptainer or profilers"
    for purpose, folder in folders.items():
        found = find_unsafe(str(folder), MISREAD if workflow else MISREAD_HERE)
        if found:
            raise ConfigError(
                f"{purpose} {str(folder)!r}: {tools} cannot take {found!r} in a path; move it, or use a link without it"
            )


def check_command_line_settings(settings: Mapping[str, object]) -> None:
    """Raise :class:`ConfigError` where a value of `--config` would reach a submitted job changed.

    Snakemake repeats these values on the job's command line.
    """
    for key, value in settings.items():
        found = find_unsafe(_text_of(value), MISQUOTED)
        if found:
            raise ConfigError(f"--config {key}: Snakemake cannot hand {found!r} on to a Slurm job; use a --configfile")


def _text_of(value: object) -> str:
    """Return all keys and values of a nested setting, one after the other."""
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_text_of(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return " ".join(_text_of(inner) for inner in value)
    return str(value)
