"""Find the program that a command names, and list what is wrong with the command."""

import os
import re
import shlex
import shutil
from pathlib import Path

# What only a shell understands: as words they would be handed to the program.
_SHELLS = {"&&", "||", "|", ";", "&", "<", ">", ">>", "2>", "2>&1", "&>"}
_REDIRECTION = re.compile(r"(\d?>{1,2}|&>)[^=>].*")
_BUILTINS = {"cd", "export", "source", ".", "set", "ulimit", "exec"}
_SCRIPTS = (".py", ".sh")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def join_command(words: list[str]) -> str:
    """Return a command as a shell reads it, given as one word or as several."""
    return words[0] if len(words) == 1 else shlex.join(words)


def resolve_command(command: str, source: Path, path: str, contained: bool = False) -> tuple[str, list[str]]:
    """Return a command that means the same in a copy of the folder `source`, and what is wrong with it, if anything.

    Its program is found now, by the `path` of who asks, or in the image that it is `contained` in; files outside of the folder
    are named in full.
    """
    variables, (first, *words) = _split_variables(shlex.split(command))
    if variables:
        rest = shlex.join([first, *words])
        if shell := _name_needed_shell(command, first, words) or _name_expanding_shell(command, variables):
            return command, [f"{command!r:.80} needs a shell; use {shell}"]
        found, mistakes = resolve_command(rest, source, path, contained)
        env = "env" if contained else shutil.which("env", path=path) or "env"
        return f"{shlex.join([env, *variables])} {found}", mistakes
    if needed := _name_needed_shell(command, first, words):
        return command, [f"{command!r:.80} needs a shell; use {needed}"]
    if contained and os.sep not in first:
        return command, _list_missing_scripts(command, words, source)
    if contained and os.path.isabs(first):  # noqa: PTH117
        return command, []
    program = source / first if os.sep in first else shutil.which(first, path=path)
    if mistake := _explain_program(first, program, command, source):
        return command, _list_unquoted(command, [first, *words], source) or [mistake]
    absolute = Path(program or "").absolute()
    relative = os.sep in first and not os.path.isabs(first) and not first.startswith("..")  # noqa: PTH117
    found = first if relative and absolute.is_relative_to(source.absolute()) else str(absolute)
    outside = [
        str((source / word).resolve()) if word.startswith("../") and (source / word).exists() else word for word in words
    ]
    return shlex.join([found, *outside]), _list_missing_scripts(command, words, source)


def _name_needed_shell(command: str, first: str, words: list[str]) -> str:
    """Return how to write a command that only a shell understands; nothing of any other."""
    shell = _SHELLS.intersection(words) or any(word.endswith(";") or _REDIRECTION.fullmatch(word) for word in (first, *words))
    if first in _BUILTINS or shell:
        return f"sh -c {shlex.quote(command)}"
    return ""


def _split_variables(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the `NAME=value` words before a program, and the words from the program on."""
    count = next((number for number, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words) - 1)
    return words[:count], words[count:]


def _name_expanding_shell(command: str, variables: list[str]) -> str:
    """Return how to write a command whose variables a shell must expand; nothing of any other."""
    return f"sh -c {shlex.quote(command)}" if any("$" in word or "`" in word for word in variables) else ""


def _explain_program(first: str, program: str | Path | None, command: str, source: Path) -> str:
    """Return why the program that a command names cannot run; nothing if it can."""
    if program is None:
        return f"{first}: no such program on your PATH; correct the command {command!r:.80}, and quote one that has arguments"
    if not Path(program).is_file():
        return f"{first}: no such file in {source}; correct the command {command!r:.80}"
    if not os.access(program, os.X_OK):
        return f"{first}: cannot be executed; allow it (chmod +x {first}), or name what runs it (sh {first})"
    return ""


def _list_unquoted(command: str, words: list[str], source: Path) -> list[str]:
    """Return the mistake that the first words are the name of one script, which has spaces; nothing if they are not."""
    # os.path, since a name may be too long for Path
    if os.path.exists(source / words[0]):  # noqa: PTH110
        return []
    names = [" ".join(words[:count]) for count in range(2, len(words) + 1)]
    scripts = [name for name in names if Path(name).suffix in _SCRIPTS and os.path.isfile(source / name)]  # noqa: PTH113
    found = scripts[0] if scripts else None
    return [f"{words[0]}: no such file in {source}; quote {found!r} in the command {command!r:.80}"] if found else []


def _list_missing_scripts(command: str, words: list[str], source: Path) -> list[str]:
    if words and (unquoted := _list_unquoted(command, words, source)):
        return unquoted
    return [
        f"{word}: no such file in {source}; correct the command {command!r:.80}"
        for word in words[:1]
        if Path(word).suffix in _SCRIPTS and not (source / word).exists()
    ]
