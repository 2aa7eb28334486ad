"""An entry of the ledger: what a source states, the two commands that measure it, and what differs here."""

import math
import shlex
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from speedproof.config.base import Model, Number
from speedproof.config.load import validate
from speedproof.results.published import Published
from speedproof.run.proof.request import ProofRequest, check_request
from speedproof.stats.claims_file import Date, Speedup, load_claims
from speedproof.stats.stated_number import StatedNumber, Tolerance, describe_stated, list_bounds_of
from speedproof.util.errors import ConfigError, SpeedproofError
from speedproof.util.numbers import Unit, format_value
from speedproof.util.text import suggest
from speedproof.util.yaml_input import read_yaml

PROGRAMS_FOLDER = "programs"  # of the ledger: minimal programs of ours
EntryText = Annotated[str, Field(min_length=1, max_length=1000)]
_Cost = Annotated[Number, Field(ge=0, le=10_000)]  # minutes
_RAW = "https://raw.githubusercontent.com"


class SourceFile(Model):
    """A file of a public repository, as it was at a commit."""

    repository: str = Field(pattern=r"^https://github\.com/[\w.-]+/[\w.-]+$")
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    path: EntryText

    @property
    def url(self) -> str:
        """Return the page that shows the file."""
        return f"{self.repository}/blob/{self.commit}/{self.path}"

    @property
    def raw_url(self) -> str:
        """Return where the file itself is."""
        return f"{_RAW}{self.repository.removeprefix('https://github.com')}/{self.commit}/{self.path}"


class DocumentedSource(Model):
    """Who states the number, where, and what it was measured on."""

    project: EntryText
    file: SourceFile | None = Field(None, description="A file of a repository that states it")
    address: str | None = Field(None, pattern=r"^https?://\S+$", description="Any other page that states it")
    place: EntryText = Field(description="Where in the file or page")
    date: Date | None = Field(None, description="When it was first stated; null if that is not known")
    hardware: EntryText | None = Field(description="null if the source does not say")
    device: EntryText | None = Field(None, description="A word of the device's name, such as A100")
    software: EntryText | None = Field(None, description="Versions, if the source names them")
    data: EntryText

    @model_validator(mode="after")
    def _one_address(self) -> "DocumentedSource":
        if (self.file is None) == (self.address is None):
            raise ValueError("source: give either `file` or `address`")
        return self

    @property
    def url(self) -> str:
        """Return the page that states the number."""
        return self.file.url if self.file else str(self.address)

    @property
    def machine(self) -> str:
        """Return the hardware as sentences name it."""
        return self.hardware or "unnamed hardware"


NumberReading = Literal["times as fast", "percent faster", "percent less time"]


class DocumentedNumber(Model):
    """What the source states, in its own digits."""

    text: EntryText = Field(description="Paraphrase of the statement; no quotation longer than a few words")
    reads: NumberReading = Field("times as fast", description="What the digits count")
    stated: StatedNumber
    derived: EntryText | None = Field(None, description="How the number follows, if the source prints times and not a ratio")

    @property
    def unit(self) -> Unit:
        return "×" if self.reads == "times as fast" else "%"


class PublishedPart(Published):
    """Files of a public repository at one commit, and the folder that they are laid out in."""

    folder: str | None = Field(
        None, pattern=r"^[\w-]+$", description="Folder for the files, where two commits run. Default: beside the others"
    )

    @property
    def laid_out(self) -> dict[str, str]:
        """Return each file's path in the repository by its path in the folder that the commands run in."""
        return {str(PurePosixPath(self.folder or "", path)): path for path in self.files}


class Needs(Model):
    """What a run needs."""

    gpu: bool = False
    packages: list[Annotated[str, Field(pattern=r"^[\w.-]+$")]] = Field([], description="That `python` must have")
    minutes: _Cost = Field(description="About how long all runs take")
    gpu_minutes: _Cost = 0

    @model_validator(mode="after")
    def _gpu_time_is_of_a_gpu(self) -> "Needs":
        if self.gpu != (self.gpu_minutes > 0):
            raise ValueError("needs: `gpu: true` goes with `gpu_minutes` above 0")
        return self


class WorkloadClaim(Model):
    """A number that a workload's claims state, and that its workflow measures."""

    project: EntryText
    claims: str = Field(pattern=r"^\.\./workloads/\w+/claims\.yaml$", description="Its path in the ledger's folder")
    claim: str = Field(description="The number's id there")
    command: EntryText = Field(description="What measures it, in a checkout")


KeptRecords = list[Annotated[str, Field(pattern=r"^(\.\./)?records/[\w.-]+$")]]


class WorkloadEntry(Model):
    """An entry that a workload measures: what its claims say of the number is not repeated."""

    title: EntryText
    workload: WorkloadClaim
    needs: Needs
    records: KeptRecords


class LedgerEntry(Model):
    """A documented speedup: `ledger/<id>.yaml`."""

    title: EntryText
    source: DocumentedSource
    number: DocumentedNumber
    tolerances: dict[str, Tolerance] = Field({}, description="Of numbers whose printed digits do not say how exact they are")
    published: list[PublishedPart] = Field([], description="The source's own programs, which run unmodified")
    ours: list[Annotated[str, Field(pattern=r"^[\w-]+\.\w+$")]] = Field(
        [], description="Minimal programs of ours in ledger/programs, if the source has none that runs by itself"
    )
    proof: dict[str, Any] = Field(
        {}, description="The reference's command, the candidate's, and how they are read: keys of `speedproof init`"
    )
    workload: WorkloadClaim | None = Field(None, description="What states and measures it instead of `proof`")
    conditions: list[EntryText] = Field(description="What differs from the source in every run of this entry")
    needs: Needs
    records: KeptRecords = Field([], description="Kept records, the newest last; their paths in the ledger's folder")

    @model_validator(mode="after")
    def _can_be_run_and_judged(self) -> "LedgerEntry":
        stated = self.number.stated
        if len(set(self.files)) < len(self.files):
            raise ValueError("two programs of the same name; give each commit a `folder`")
        if both := {str(parent) for path in self.files for parent in PurePosixPath(path).parents} & set(self.files):
            raise ValueError(f"{min(both)} is a file and a folder; give each commit another `folder`")
        digits = [float(one) for one in (stated.value, stated.low, stated.high) if one]
        if self.number.reads == "percent less time" and max(digits, default=0) >= 100:
            raise ValueError("number.stated: nothing takes 100 % less time; is it `percent faster`?")
        if stated.tolerance not in (None, *self.tolerances):
            raise ValueError(f"number.stated: unknown tolerance `{stated.tolerance}`; add it to `tolerances`")
        if stated.printed_in is not None:
            raise ValueError("number.stated: `printed_in` is the unit of a time, and a speedup has none")
        if self.workload:
            return self
        if not self.published and not self.ours:
            raise ValueError("no program; give `published`, or `ours`")
        try:
            commands = self.request.commands
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if len(commands) != 2:
            raise ValueError(f"proof.commands: {len(commands)} commands; give the reference's and the candidate's")
        for script in (word for command in commands for word in shlex.split(command) if PurePosixPath(word).suffix == ".py"):
            if script not in self.files:
                raise ValueError(f"proof.commands: {script} is not in `published.files` or `ours`; add it")
        return self

    @property
    def request(self) -> ProofRequest:
        """Return what `speedproof prove` is asked. Raises :class:`ConfigError`."""
        return check_request({"device": "cuda" if self.needs.gpu else "cpu", **self.proof}, "proof")

    @property
    def files(self) -> list[str]:
        """Return the programs' files, by their paths in the folder that the commands run in."""
        return [*(path for part in self.published for path in part.laid_out), *self.ours]

    @property
    def program(self) -> str:
        """Return whose programs run."""
        if self.workload:
            return "workflow"
        return "published" if self.published and not self.ours else "published and ours" if self.published else "ours"

    @property
    def documented(self) -> str:
        """Return the documented number as a table shows it."""
        stated = describe_stated(self.number.stated, self.number.unit, self._tolerance)
        return stated + {"times as fast": "", "percent faster": " faster", "percent less time": " less time"}[self.number.reads]

    def list_ratio_bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest ratio that reproduce the number; an open end is infinite."""
        low, high = list_bounds_of(self.number.stated, self.number.unit, self._tolerance)
        match self.number.reads:
            case "times as fast":
                return low, high
            case "percent faster":
                return 1 + low, 1 + high
            case "percent less time":
                return 1 / (1 - low), 1 / (1 - high) if high < 1 else math.inf

    @property
    def range_of_ratios(self) -> str:
        """Return the ratios that reproduce the number in words."""
        low, high = self.list_ratio_bounds()
        if math.isinf(high):
            return f"more than {format_value(low, '×')}"
        return f"less than {format_value(high, '×')}" if low <= 0 else f"{low:.4g}–{high:.4g}×"

    @property
    def _tolerance(self) -> Tolerance | None:
        key = self.number.stated.tolerance
        return self.tolerances[key] if key else None


def load_entry(path: Path) -> LedgerEntry:
    """Read an entry; raise :class:`ConfigError` that names file and key."""
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must be a mapping of keys; copy another entry")
    if "workload" in values:
        return _read_claim(validate(WorkloadEntry, values, str(path)), path)
    return validate(LedgerEntry, values, str(path))


def _read_claim(entry: WorkloadEntry, path: Path) -> LedgerEntry:
    """Return an entry with what the workload's claims say of its number."""
    try:
        stated, name = load_claims(path.parent / entry.workload.claims), entry.workload.claim
    except SpeedproofError as error:
        raise ConfigError(f"{path}: workload.claims: {error}") from None
    claim = next((one for one in stated.claims if one.id == name and isinstance(one.quantity, Speedup)), None)
    if claim is None:
        raise ConfigError(f"{path}: workload.claim: {entry.workload.claims} states no speedup `{name}`; correct it")
    source = stated.sources[claim.source]
    documented = {
        "project": entry.workload.project,
        "address": source.url,
        "place": claim.place,
        "date": claim.date,
        "hardware": source.hardware,
        "device": source.gpu,
        "software": source.software,
        "data": stated.dataset or "not stated",
    }
    values = {
        **dict(entry),
        "source": documented,
        "number": {"text": claim.text, "stated": claim.stated},
        "tolerances": stated.tolerances,
        "conditions": [],  # its records list them
    }
    return validate(LedgerEntry, values, f"{path}: {entry.workload.claims}, {name}")


def list_entry_files(ledger: Path) -> dict[str, Path]:
    """Return each entry's file by its id. Raises :class:`ConfigError` if there is none."""
    found = {path.stem: path for path in sorted(ledger.glob("*.yaml"))}
    if not found:
        raise ConfigError(f"{ledger}: no entries there; run in a checkout of speedproof, or name a folder (--ledger)")
    return found


def find_entry_file(ledger: Path, name: str) -> Path:
    """Return an entry's file. Raises :class:`ConfigError` if there is no such entry."""
    files = list_entry_files(ledger)
    if name not in files:
        raise ConfigError(f"{name}: no such entry in {ledger}{suggest(name, files) or '; `speedproof ledger list` shows all'}")
    return files[name]


def load_ledger(ledger: Path) -> dict[str, LedgerEntry]:
    """Return all entries by their ids, or raise :class:`ConfigError` for the first one that is wrong."""
    return {name: load_entry(path) for name, path in list_entry_files(ledger).items()}


def normalize_package(name: str) -> str:
    """Return a package's name as an index compares it."""
    return name.lower().replace("_", "-").replace(".", "-")
