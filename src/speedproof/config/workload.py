"""The seam to a workload: `workload.yaml` names commands, which the instrument runs, and files, which it reads.

A workload is a folder. The instrument imports nothing from it: its commands find its Python code, if any, because PYTHONPATH
holds the folder and the libraries that it names.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError, field_validator

from speedproof.config.base import Model, Name, Positive
from speedproof.config.model import WORKLOAD_FILE, Variant, find_folder
from speedproof.config.validation_errors import describe_problem
from speedproof.results import older_versions as older
from speedproof.results.diagnosis import Software
from speedproof.results.quality import Quality
from speedproof.util.environment import SAFE_PATH, python_command
from speedproof.util.errors import ConfigError, DataError, RecordError, SpeedproofError, StorageError, TrainingError
from speedproof.util.image_file import identify_image
from speedproof.util.secrets import scrub_command, scrub_words
from speedproof.util.sources import digest_files
from speedproof.util.yaml_input import overlay, read_yaml

_NAME = re.compile("[a-z][a-z0-9_]{0,63}")

CommandLine = Annotated[
    str, Field(min_length=1, description="As a shell splits it; `{python}` is the instrument's interpreter")
]


# For programs that know nothing of speedproof the instrument has commands of its own.
_OWN = "{python} -m speedproof.cli.program_commands"


class Commands(Model):
    """What the instrument runs. Options are appended; each command says in its `--help` what they mean."""

    configure: CommandLine | None = Field(
        None,
        description="Reads a configuration as JSON, prints it completed, with `variants` if there are any; null: they say all",
    )
    prepare: CommandLine = Field(
        f"{_OWN} prepare", description="`--config --out`: leaves the data that variants read, and dataset.json"
    )
    conditions: CommandLine = Field(
        f"{_OWN} conditions", description="`--config --dataset --gpus`: prints what else than a variant could make runs differ"
    )
    software: CommandLine | None = Field(
        None, description="Prints what of the GPU the programs' framework sees, for the doctor"
    )
    run: CommandLine = Field(
        f"{_OWN} run", description="`--config --dataset --variant --mode --round --seed --profiler --out`: one run"
    )
    fill: CommandLine | None = Field(
        None, description="`--config --dataset --variant --out`: fills a variant's prepared folder"
    )


class Declared(Model):
    """`workload.yaml`."""

    renamed: ClassVar[dict[str, str]] = older.CONFIG_KEYS["completed"]

    title: str = Field(min_length=1, max_length=100)
    commands: Commands = Commands()
    variants: dict[Name, Variant] = Field({}, description="Programs to measure, where no command makes them of a configuration")
    quality: Quality = Field(
        Quality(), description="How good a result is; `measurement.quality` of a configuration is laid over it"
    )
    cores: Positive = Field(1, le=100_000, description="Processor cores that its programs make use of")
    packages: list[Annotated[str, Field(pattern=r"^[\w.-]+$")]] = Field(
        [], max_length=100, description="Python packages whose versions a run records, where `{python}` has them"
    )
    claims: str = Field("claims.yaml", description="The documented numbers, relative to this file")
    libraries: list[str] = Field(
        [], max_length=10, description="Folders whose Python modules its programs import, too, relative to this file"
    )
    sources: dict[Name, list[str]] = Field(
        {}, description="Files and folders that decide what a step computes: data, experiment"
    )

    @field_validator("sources")
    @classmethod
    def _sources_are_of_steps(cls, sources: dict[str, list[str]]) -> dict[str, list[str]]:
        older.refuse_renamed_keys(sources, older.CONFIG_KEYS["resources"])
        for step in sources.keys() - {"data", "experiment"}:
            raise ValueError(f"`{step}` is not a step with sources; use `data` or `experiment`")
        return sources


@dataclass(frozen=True)
class Workload:
    """A workload's folder, and what it declares."""

    folder: Path
    declared: Declared

    @property
    def claims(self) -> Path:
        return self.folder / self.declared.claims

    @property
    def module_folders(self) -> list[Path]:
        """Return where Python finds the workload's modules, those of its libraries, and the instrument's."""
        return [*self.own_folders, Path(__file__).parents[2]]

    @property
    def own_folders(self) -> list[Path]:
        """Return the workload's folder, and those of its libraries."""
        return [self.folder, *(Path(os.path.normpath(self.folder / name)) for name in self.declared.libraries)]

    @property
    def is_of_commands(self) -> bool:
        """Return whether its variants are commands that know nothing of the instrument, which runs them itself."""
        return self.declared.commands.run == Commands().run

    def command(self, name: str, python: str = sys.executable) -> list[str]:
        """Return the words of one of the declared commands; `python` is the interpreter where it runs.

        It looks for no modules in the working folder (-P).
        """
        command = getattr(self.declared.commands, name)
        if command is None:
            raise ConfigError(f"{self.folder / WORKLOAD_FILE}: commands.{name}: is missing; declare it")
        started = python_command(python=python)
        return [part for word in shlex.split(command) for part in (started if word == "{python}" else [word])]

    def complete(self, values: dict[str, Any], origin: str) -> dict[str, Any]:
        """Return a configuration with what this workload makes of it: its variants above all.

        Raises :class:`ConfigError`, or what else the workload's own command ends with.
        """
        values = self.lay_over_quality(values)
        if self.declared.variants or self.declared.commands.configure is None:
            values = self._complete_by_variants(values, origin)
        if self.declared.commands.configure is None:
            return values
        completed = self.ask("configure", f"--origin={origin}", said=json.dumps(values))
        if not isinstance(completed, dict):
            raise ConfigError(f"{self.folder / WORKLOAD_FILE}: commands.configure printed no mapping; run it by hand")
        return completed

    def _complete_by_variants(self, values: dict[str, Any], origin: str) -> dict[str, Any]:
        """Return a configuration with the declared variants, which it cannot change."""
        for key in ("variants", "workload"):
            if values.get(key):
                raise ConfigError(
                    f"{origin}: {key}: has no effect: the variants of {self.folder.name} are defined in its {WORKLOAD_FILE}; "
                    "remove the key"
                )
        if values.get("measurement", {}).get("documented"):
            raise ConfigError(
                f"{origin}: measurement.documented: is for workloads with a `run` command of their own; set it to 0"
            )
        for name, variant in self.declared.variants.items():
            if variant.command is None:
                raise ConfigError(
                    f"{self.folder / WORKLOAD_FILE}: variants.{name}.command: is missing; write what runs the program"
                )
        declared = self.declared.variants
        techniques = {
            key: [key] for variant in declared.values() for key in variant.settings
        }  # each by itself: a stage changes one
        file = self.folder / WORKLOAD_FILE
        variants = {
            name: _describe_variant(variant, self.folder, f"{file}: variants.{name}") for name, variant in declared.items()
        }
        return {**values, "completed": {"variants": variants, "techniques": techniques}}

    def lay_over_quality(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration with the workload's quality, but for those of its keys that it sets itself."""
        measurement = values.get("measurement")
        if not isinstance(measurement, dict):
            return values
        declared = {"quality": self.declared.quality.model_dump(mode="json", exclude_unset=True)}
        return {**values, "measurement": overlay(declared, measurement)}

    def digest_sources(self, step: str) -> str:
        """Return a short digest of the files that decide what a step of the workflow computes."""
        return digest_files(self.folder, self.declared.sources.get(step, []))

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return what lets a Python that is run for this workload find modules in its folder, and in none that it works in."""
        own = list(map(str, self.module_folders))
        others = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in own]
        return {**SAFE_PATH, "PYTHONPATH": os.pathsep.join([*own, *others])}

    def ask_software(self) -> Software | None:
        """Return what the framework of the programs sees of the GPU; None where nobody can say."""
        return None if self.declared.commands.software is None else Software.model_validate(self.ask("software"))

    def ask(self, name: str, *options: str, said: str = "") -> Any:
        """Run a command that prints JSON, with `said` as its input, and return what it printed.

        Raises:
            SpeedproofError: of the kind that its exit status stands for; the text is its last line.
        """
        command = [*self.command(name), *options]
        done = subprocess.run(
            command, input=said, capture_output=True, text=True, env={**os.environ, **self.environment(os.environ)}
        )
        if done.returncode:
            raise self._explain_end(command, done.returncode, done.stderr)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise ConfigError(f"{self.folder / WORKLOAD_FILE}: commands.{name} printed no JSON; run it by hand") from None

    def _explain_end(self, command: list[str], status: int, said: str) -> SpeedproofError:
        """Return how a command ended as an error of the same kind."""
        last = (said.strip().splitlines() or ["it said nothing"])[-1].removeprefix("speedproof: ")
        for kind in (ConfigError, DataError, TrainingError, RecordError, StorageError):
            if status == kind.exit_code:
                return kind(last)
        if missing := re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", last):
            needed = f"{self.folder.name} needs the module {missing[1]}, which {command[0]} does not find"
            return SpeedproofError(f"{needed}; install what the workload needs, as its README says")
        return SpeedproofError(f"{shlex.join(command)}: exit status {status}: {last}")


def _describe_variant(variant: Variant, folder: Path, key: str) -> dict[str, Any]:
    """Return a declared variant, with its command, its image and how it is read among its settings: a change makes it another.

    No setting holds a secret; an image is found from the workload's folder.
    """
    described = variant.model_dump(mode="json")
    image = Path(os.path.abspath(folder / variant.image)) if variant.image else None  # noqa: PTH100  (a link stays one)
    reads = {key: value for key, value in variant.reads.model_dump().items() if value is not None}
    environment = {
        name: scrub_words([f"{name}={value}"])[0].partition("=")[2]
        for name, value in variant.environment.items()
        if name != "PATH"
    }
    places = {name: number for name, number in (("gpus", variant.gpus), ("nodes", variant.nodes)) if number > 1}
    decides = {
        "command": scrub_command(variant.command or ""),
        "reads": reads,
        **places,
        **({"environment": environment} if environment else {}),
        **({"image": image.name, "image_id": identify_image(image, f"{key}.image")} if image else {}),
    }
    return {**described, "image": str(image) if image else None, "settings": {**variant.settings, **decides}}


def find_workload(name: str) -> Workload:
    """Return a workload by its place below `workloads/`, or by the path of a folder.

    Raises:
        ConfigError: there is no such folder, or its `workload.yaml` cannot be understood.
    """
    folder = find_folder(name)
    if not (folder / WORKLOAD_FILE).is_file():
        raise ConfigError(f"case: no {WORKLOAD_FILE} in {folder}; name a folder of workloads/, or the path of one that has it")
    if not _NAME.fullmatch(folder.name):
        raise ConfigError(f"case: {folder}: a workload's folder is named by small letters, digits and `_`; rename it")
    try:
        workload = Workload(folder, Declared.model_validate(read_yaml(folder / WORKLOAD_FILE)))
    except ValidationError as error:
        raise ConfigError(f"{folder / WORKLOAD_FILE}: {describe_problem(error, Declared)}") from None
    for library in workload.own_folders[1:]:
        if not library.is_dir():
            raise ConfigError(f"{folder / WORKLOAD_FILE}: libraries: there is no folder {library}; name one that is there")
    return workload
