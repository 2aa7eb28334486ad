"""The entries of programs.yaml."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

CATALOGUE = Path(__file__).with_name("programs.yaml")


class Program(BaseModel):
    """A public program and a question about two commands, `a` and `b`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="owner and name on GitHub")
    commit: str = Field(pattern="^[0-9a-f]{40}$")
    checked: bool = Field(description="whether both commands ran once with these files and data")
    files: list[str] = Field(default=["."], description="files and folders of the repository that are needed")
    data: list[dict[str, Any]] = Field(default=[], description="a kind of make_data.MAKERS, a path, and the maker's options")
    setup: str | None = Field(default=None, description="shell command that builds and prepares it, in the top folder")
    folder: str = Field(default=".", description="where the commands start")
    a: str
    b: str
    unit: str = Field(description="what one time is about")
    printed: str | None = Field(default=None, description="pattern of a printed time, one group. Default: none")
    lines: str | None = Field(default=None, description="pattern of lines whose gaps are the times. Default: none")
    rate: bool = Field(default=False, description="whether the printed number is a rate: units per second")
    endless_s: float | None = Field(default=None, description="seconds after which a program without an end is stopped")
    question: str
    task: str = Field(description="what a reader needs to know, as a README would put it")


def read_programs(path: Path = CATALOGUE) -> dict[str, Program]:
    """Return all entries by name."""
    programs = [Program(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]
    named = {program.name: program for program in programs}
    if len(named) < len(programs):
        raise SystemExit(f"{path}: two entries have the same name")
    return named


def choose_programs(names: list[str]) -> list[Program]:
    """Return the entries of these names, or all if there are no names."""
    programs = read_programs()
    if unknown := [name for name in names if name not in programs]:
        raise SystemExit(f"{', '.join(unknown)}: not in {CATALOGUE.name}; choose from {', '.join(programs)}")
    return [programs[name] for name in names or programs]
