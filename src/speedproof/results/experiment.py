"""An experiment: one job that holds its GPUs, and runs in a random order that was written down before the first of them."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from speedproof.results.evidence_archive import find_files, is_there
from speedproof.results.files import cure_of, read_record, sha256_of
from speedproof.results.names import FileName, RelativePath, inside
from speedproof.results.quality import Quality
from speedproof.results.run_record import EPOCHS_FILE, GPU_FILE, RUN_FILE, TRACE_FOLDER, Conditions, Mode, Seconds
from speedproof.util.errors import RecordError

PLAN_FILE = "plan.json"
PREPARED_FOLDER = "prepared"
PREPARED_FILE = "prepared.json"
EXPERIMENT_FILE = "experiment.json"
OLD_EXPERIMENT_FILE = "block.json"  # of versions before 0.3
RUNS_FOLDER = "runs"
LOST_TRACE = "no trace"  # how a planned run ended that failed under the profiler; the experiment went on without it

# Files with a checksum in their experiment, below the folder of a run: no profiler's report, no checkpoint, no volume.
_VOUCHED = re.compile(r"(rank\d+/)?(\w[\w.-]*\.(json|csv)|trace/\w+\.(json|parquet)|stats/[\w.-]+\.(csv|txt))")
# Of that, what later steps compute with, of each process.
_READ = (EPOCHS_FILE, GPU_FILE, RUN_FILE, f"{TRACE_FOLDER}/*")
_PARSED = (EPOCHS_FILE, RUN_FILE)  # whenever results are read


# The numbers of pairs after which `until: decided` looks; the last is also the most that an experiment measures.
LOOKS = (4, 6, 8, 10, 12, 16, 20, 24)
Until = Literal["decided"]
# By which rule timed rounds were ordered; plans of earlier versions do not say it.
OrderDesign = Literal["turned pairs", "blocks of four"]
OLD_DESIGN: OrderDesign = "turned pairs"
EQUIVALENCE_MARGIN = 0.02  # unless a plan says otherwise, as those of earlier versions do not
Margin = Annotated[float, Field(gt=0, lt=1)]
Minutes = Annotated[float, Field(gt=0, le=10**6)]
# How many intervals hold the truth together, 95 times in a hundred: one in plans of versions that had no joint intervals.
Comparisons = Annotated[int, Field(ge=1)]


class PlannedRun(BaseModel):
    """One run of an experiment's order."""

    model_config = ConfigDict(extra="forbid")

    variant: FileName
    mode: Mode
    round: Annotated[int, Field(ge=0)]
    seed: int
    control: bool = False  # the first variant once more, to see how far it differs from itself


class RunPlace(NamedTuple):
    """Where in an order a run stands, and the variant of the run before it; None: it is the first."""

    number: int
    follows: str | None


FIRST_PLACE = RunPlace(0, None)


def place_runs(order: Sequence[PlannedRun]) -> list[RunPlace]:
    """Return the place of each run of an order."""
    return [RunPlace(number, order[number - 1].variant if number else None) for number in range(len(order))]


class Plan(BaseModel):
    """`plan.json`: the order, the ablation and the rule of quality, committed before the first run."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[3] = 3
    experiment: FileName
    design: OrderDesign = OLD_DESIGN
    order: list[PlannedRun]
    ablation: list[FileName] = []
    quality: Quality = Quality()
    equivalence_margin: Margin = EQUIVALENCE_MARGIN
    source: str | None = None  # of the variants' epochs and qualities; None: the workload's own programs write records
    until: Until | None = None  # decided: rounds end once all compared variants are; the order is drawn to the longest
    budget_min: Minutes | None = None  # that its timed rounds may take
    comparisons: Comparisons = 1
    quality_files: dict[str, str] = {}  # SHA-256 of each file that the quality command names, by its word

    def folders(self) -> list[str]:
        """Return the name of each run's folder, in order.

        `<nn>-<variant>-<mode>` or `<nn>-<variant>-control`; if their number is not fixed beforehand,
        `<variant>-<mode>-<repeat>` or `<variant>-control-<repeat>`.
        """
        kinds = ["control" if run.control else run.mode for run in self.order]
        if self.until is not None:
            return [f"{run.variant}-{kind}-{run.round + 1:02d}" for run, kind in zip(self.order, kinds, strict=True)]
        return [
            f"{number:02d}-{run.variant}-{kind}" for number, (run, kind) in enumerate(zip(self.order, kinds, strict=True), 1)
        ]

    def runs(self, rounds: int | None = None) -> dict[str, PlannedRun]:
        """Return the runs by the names of their folders, in order; of the timed ones those of so many rounds, if given."""
        named = zip(self.folders(), self.order, strict=True)
        return {name: run for name, run in named if rounds is None or run.mode != "timed" or run.round < rounds}


# What an experiment repeats of its plan, besides the order.
_PROMISED = ("experiment", "design", "ablation", "quality", "equivalence_margin", "comparisons")


def is_control(folder: str) -> bool:
    """Return whether a run's folder, by its name as :meth:`Plan.folders` gives it, is one of a control."""
    parts = folder.split("-")
    return parts[2 if folder[:1].isdigit() else 1 :][:1] == ["control"]


StopReason = Literal["decided", "budget", "longest", "futile", "closed"]


class Stopped(BaseModel):
    """When and why the timed rounds of an experiment ended that go on until its variants are decided."""

    model_config = ConfigDict(extra="forbid")

    rounds: Annotated[int, Field(ge=0)]
    most: Annotated[int, Field(ge=1)]  # that were planned
    reason: StopReason
    budget_min: Minutes | None = None
    # What was saved is counted against: rounds of a plan fixed beforehand, by the noise of the first four, that finds a
    # difference as large as the margin of "the same" nine times in ten. None: beyond a thousand, or fewer than four ran.
    fixed: Annotated[int, Field(ge=1)] | None = None
    # Of rounds that ended as futile: the last look that could have been reached, and how many rounds of a plan with a fixed
    # number would decide, if they vary as these do; None: more than a thousand.
    reachable: Annotated[int, Field(ge=1)] | None = None
    needed: Annotated[int, Field(ge=1)] | None = None
    asked: str | None = None  # digest of what the rounds were to decide; None: of a version before


class PreparedFolder(BaseModel):
    """What filling a variant's `prepared_folder` took, in a process of its own before the experiment's first run."""

    model_config = ConfigDict(extra="forbid")

    variant: FileName
    seconds: Seconds  # from the start of the process until every volume was kept
    volumes: int  # training and validation
    from_store: int  # of those, kept already by an earlier experiment or attempt


class Experiment(BaseModel):
    """`experiment.json`: written when every run of the plan is whole, or when the experiment is closed; later steps read it."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[3] = 3
    experiment: FileName
    variants: Annotated[list[FileName], Field(min_length=1)]  # as configured: the one that the others are compared with first
    pairs: list[tuple[FileName, FileName]] = []  # of variants that are compared besides
    ablation: list[FileName] = []  # variants, each one technique further than the one before
    quality: Quality = Quality()
    equivalence_margin: Margin = (
        EQUIVALENCE_MARGIN  # two variants whose ratio lies within it of 1 are the same; fixed before the first run
    )
    comparisons: Comparisons = 1
    trust_reported: str | None = None  # why reported times count that our own clock does not support; None: they do not
    data: dict[str, Any] = {}  # as configured, without folders; versions before have none
    titles: dict[FileName, str] = {}  # of a record: what its results called variants at last; the runs may have older ones
    design: OrderDesign = OLD_DESIGN
    order: list[PlannedRun]
    runs: list[FileName]
    prepared: list[PreparedFolder] = []  # of each variant that has one: all its runs find every volume prepared
    kept: list[FileName]  # runs kept from an interrupted attempt on the same GPU
    left_out: list[FileName] = []  # profiled runs that a record leaves out to stay small
    stopped: Stopped | None = (
        None  # of an experiment that goes on until its variants are decided; its intervals are repeated ones
    )
    undone: dict[FileName, str] = {}  # planned runs that it lacks, and how each ended: it was closed, or LOST_TRACE
    conditions: Conditions
    digests: dict[RelativePath, str]  # SHA-256 of every table a later step reads, by path relative to the experiment
    plan: str | None = None  # SHA-256 of plan.json; versions before have none
    seal: str | None = None  # digest of all other fields; versions before have none

    @model_validator(mode="after")
    def _names_each_run_once_and_vouches_for_nothing_else(self) -> "Experiment":
        if len(self.runs) != len(self.order) or len(set(self.runs)) != len(self.runs):
            raise ValueError(f"names {len(set(self.runs))} runs, and {len(self.order)} in its order")
        runs = tuple(f"{RUNS_FOLDER}/{name}/" for name in self.runs)
        for path in self.digests:
            run = next((run for run in runs if path.startswith(run)), None)
            if run is None or not _VOUCHED.fullmatch(path.removeprefix(run)):
                raise ValueError(f"digests: {path!r:.200} is not a table of one of its runs")
        return self


def experiment_file(folder: Path) -> Path:
    """Return the file that describes an experiment, by the name that its version gave it."""
    old = folder / OLD_EXPERIMENT_FILE
    return old if is_there(old) else folder / EXPERIMENT_FILE


def read_experiment(folder: Path) -> Experiment:
    return read_record(experiment_file(folder), Experiment)


def read_whole_experiment(folder: Path) -> Experiment:
    """Read a finished experiment, and check every file against its checksum.

    Raises:
        RecordError: it is another experiment, or its plan is missing, was changed, or is of other runs. Or a file that a later
            step computes with is missing, was changed, is a link that leads out of it, or has no checksum

    """
    experiment = read_experiment(folder)
    if experiment.experiment != folder.name:
        raise RecordError(
            f"{folder}: holds {experiment.experiment}, in {experiment_file(folder).name}; rename the folder, or remove it"
        )
    check_files(folder, experiment, experiment.digests)
    runs = set(experiment.runs)
    patterns = [f"{RUNS_FOLDER}/*/{rank}{name}" for rank in ("", "rank*/") for name in _READ]
    for path in (path for pattern in patterns for path in find_files(folder, pattern)):
        name = path.relative_to(folder)
        if name.parts[1] in runs and name.as_posix() not in experiment.digests:
            raise RecordError(f"{path}: its experiment has no checksum of it; {cure_of(path)}")
    read_plan(folder, experiment)
    return experiment


def read_plan(folder: Path, experiment: Experiment) -> Plan:
    """Read the plan of a finished experiment.

    Raises:
        RecordError: it is missing or was changed, or the experiment, as far as it got, was not run and judged as it says

    """
    path = inside(folder, PLAN_FILE)
    if experiment.plan not in (None, sha256_of(path, keep=True)):
        raise RecordError(f"{path}: was changed after its experiment ended; {cure_of(path)}")
    plan = read_record(path, Plan)
    ran = set(experiment.runs)
    order = [(name, run) for name, run in plan.runs().items() if name in ran]
    if order != list(zip(experiment.runs, experiment.order, strict=True)) or any(
        getattr(plan, field) != getattr(experiment, field) for field in _PROMISED
    ):
        raise RecordError(f"{path}: does not match its experiment's {experiment_file(folder).name}; {cure_of(path)}")
    return plan


def check_files(folder: Path, experiment: Experiment, names: Iterable[str]) -> None:
    """Check files of a finished experiment against the checksums in its `experiment.json`.

    Raises:
        RecordError: one is missing, was changed, or leads out of the experiment

    """
    for name in names:
        path = inside(folder, name)
        if name not in experiment.digests:
            raise RecordError(f"{path}: its experiment has no checksum of it; {cure_of(path)}")
        if not is_there(path):
            raise RecordError(f"{path}: is missing, though its experiment had it; {cure_of(path)}")
        if sha256_of(path, keep=path.name in _PARSED) != experiment.digests[name]:
            raise RecordError(f"{path}: was changed after its experiment ended; {cure_of(path)}")


def check_vouched(folder: Path) -> None:
    """Check a folder inside a finished experiment, such as a run's trace; accept a folder outside of experiments.

    Raises :class:`RecordError` if its files do not match the experiment's checksums.
    """
    folder = folder.resolve()
    for parent in folder.parents:
        if parent.name == RUNS_FOLDER and is_there(experiment_file(parent.parent)):
            experiment = read_experiment(parent.parent)
            below = f"{folder.relative_to(parent.parent).as_posix()}/"
            found = {path.relative_to(parent.parent).as_posix() for path in find_files(folder, "*")}
            check_files(
                parent.parent, experiment, sorted(found | {name for name in experiment.digests if name.startswith(below)})
            )
