"""What an agent may ask of `speedproof mcp`: the named commands, and the folders of traces."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from speedproof.run.gate.gate_request import GateRequest, make_gate_request
from speedproof.run.proof.request import Command, ProofRequest, check_model, name_option, option
from speedproof.util.errors import ConfigError
from speedproof.util.text import printable, suggest

_COMMAND_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,31}", re.ASCII)
# What git calls a commit; none begins with a dash, which would be an option.
_COMMIT_NAME = re.compile(r"[\w@][\w./@^~{}+-]{0,199}", re.ASCII)


class ServerOptions(ProofRequest):
    """The options of `prove` that whoever starts the server fixes for all calls."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)
    derived: ClassVar[frozenset[str]] = frozenset({"commands", "names", "claim", "budget_min", "control", "profile", "job"})

    build: Command | None = option(None, "Gate", "Command that builds each commit in its own folder", metavar="COMMAND")


@dataclass(frozen=True)
class AgentLimits:
    """What the person who starts the server allows."""

    commands: Mapping[str, str]  # by their names
    options: Mapping[str, Any]  # of `prove`, by their keys, and `build`
    project: Path  # where commands run, and whose repository is gated
    folders: Sequence[Path]  # of traces; absolute, without links
    out: Path
    ledger: Path

    def make_proof(self, a: str, b: str, claim: str | None, budget_min: float) -> ProofRequest:
        """Return what `prove` is asked. Raises :class:`ConfigError` with all that is wrong."""
        values = {key: value for key, value in self.options.items() if key != "build"}
        values |= {"commands": [self.find_command(name) for name in (a, b)], "names": [a, b]}
        return check_model(ProofRequest, {**values, "claim": claim, "budget_min": budget_min}, "prove", name_option)

    def make_gate(self, base: str, head: str, command: str, regression: str | None, budget_min: float) -> GateRequest:
        """Return what `gate` is asked. Raises :class:`ConfigError` with all that is wrong."""
        for name in (base, head):
            if not _COMMIT_NAME.fullmatch(name):
                raise ConfigError(f"{printable(name)!r:.60}: not the name of a commit")
        values = {**self.options, "base": base, "head": head, "budget_min": budget_min}
        values.pop("workdir", None)  # a gate always runs commits
        return make_gate_request([self.find_command(command)], {**values, **({"regression": regression} if regression else {})})

    def find_command(self, name: str) -> str:
        """Return the command of a name. Raises :class:`ConfigError` if there is none."""
        if name not in self.commands:
            known = ", ".join(self.commands)
            raise ConfigError(
                f"{printable(name)!r:.60}: no such command; the server allows {known}{suggest(name, self.commands)}"
            )
        return self.commands[name]

    def find_trace(self, name: str) -> Path:
        """Return the real path of a trace in an allowed folder; a relative name starts there, or in the project.

        Raises :class:`ConfigError` if there is none, or if a link or `..` leads out of these folders.
        """
        for folder in (*self.folders, self.project):
            try:
                real = (folder / name).resolve(strict=True)
            except (OSError, RuntimeError, ValueError):  # not there, a loop of links, a zero byte
                continue
            if any(real.is_relative_to(one) and real != one for one in self.folders) and _is_trace(real):
                return real
        allowed = ", ".join(map(str, self.folders))
        raise ConfigError(f"{printable(name)!r:.200}: no such trace in the folders that the server allows: {allowed}")


def _is_trace(real: Path) -> bool:
    """Return whether a path can be read as a trace: a file, or a folder without links, which could lead elsewhere."""
    return real.is_file() or (real.is_dir() and not any(path.is_symlink() for path in real.rglob("*")))


def read_named_commands(texts: Sequence[str]) -> dict[str, str]:
    """Return commands by their names, of `NAME=COMMAND` texts. Raises :class:`ConfigError`."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, command = text.partition("=")
        if not (sign and command.strip() and _COMMAND_NAME.fullmatch(name)):
            raise ConfigError(f"--command: {text!r:.60}: write NAME=COMMAND, for example 'A=python train.py'")
        if name in found:
            raise ConfigError(f"--command: {name}: given twice; each command needs its own name")
        found[name] = command
    return found


def make_limits(
    commands: Sequence[str], options: Mapping[str, Any], project: Path, folders: Sequence[Path], out: Path, ledger: Path
) -> AgentLimits:
    """Return limits with absolute paths. Raises :class:`ConfigError` if a command, an option or a folder is wrong."""
    here = project.resolve()
    allowed = [(here / folder).resolve() for folder in folders or [Path()]]
    for folder in (here, *allowed):
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no such folder; name one that exists")
    limits = AgentLimits(read_named_commands(commands), options, here, allowed, here / out, here / ledger)
    for name in limits.commands:
        twice = {"commands": [limits.commands[name]] * 2, "names": []}
        check_model(ServerOptions, {**options, **twice}, f"mcp: command {name}", name_option)
    return limits
