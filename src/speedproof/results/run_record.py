"""A run record: one training process, what it was, what it measured and how it ended.

A run's folder holds `run.json` (:class:`Run`), `epochs.csv` (:data:`EPOCH_COLUMNS`), `gpu.csv`
(:data:`GPU_COLUMNS`), `log.txt` and `best.pt`; with `step_log` also TensorBoard's `scalars/`, a profiled one `trace/` and
`stats/`.
Where several processes trained, :mod:`speedproof.results.trace_results` says which of them lie in `rank<k>/`.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from speedproof.results import older_versions as older
from speedproof.results.files import digest_of, read_record, read_text, refuse_record, write_text
from speedproof.results.names import FileName, RelativePath, RunTracerName
from speedproof.results.observations import Count, Observations
from speedproof.results.quality import Finite, Quality
from speedproof.util.numbers import format_count

if TYPE_CHECKING:
    import pandas as pd  # a training process, which writes tables and reads none, does not wait for it

Mode = Literal["timed", "profiled", "documented"]
Backend = Literal["none", RunTracerName]
RunOutcome = Literal["completed", "not_a_number", "out_of_memory", "stopped", "worker_died", "failed"]

RUN_FILE = "run.json"
EPOCHS_FILE = "epochs.csv"
GPU_FILE = "gpu.csv"
LOG_FILE = "log.txt"
PROGRAMS = "programs"  # the folder of a proof's programs, which its runs name as their case
TITLE = "title"  # among a run's techniques: how tables and figures call its variant
TRACE_FOLDER = "trace"
STATS_FOLDER = "stats"

# Seconds are of a monotonic clock read after the device was synchronised. `train_s` runs from the start of the epoch
# to the end of its last training step, `validation_s` from there to the end of the epoch; `quality` and `validation_s` are
# empty where the epoch did not validate. Behind all may stand further qualities, `quality_<name>`, which are kept, not judged.
EPOCH_COLUMNS = [
    "epoch",
    "train_s",
    "validation_s",
    "loss",
    "quality",
    "steps",
    "samples_per_s",
    "peak_memory_mib",
]

# A further column of runs whose epochs our own clock saw end: from the report of the epoch before to this one's, of the first
# from its begin, and empty if that was not seen.
OBSERVED = "observed_s"
_FURTHER_QUALITY = "quality_"

# A warning of a run, which a report counts.
NOT_ALONE = "another experiment measured on this machine when it began or ended"

# `time_s` counts from the start of the process; the rest is NVML's, empty where the GPU does not tell.
GPU_COLUMNS = [
    "time_s",
    "gpu_busy_percent",
    "memory_busy_percent",
    "memory_used_mib",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "power_w",
    "temperature_c",
    "throttle_reasons",
]


# Where the launch time of a run's process comes from. The system counts from its boot, which it knows in whole seconds:
# times since the start of a process are then up to a second too long.
Clock = Literal["launcher", "system"]


def _check_moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"{text!r:.40} has no time zone")
    return text


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(ge=1)]
Moment = Annotated[str, AfterValidator(_check_moment)]  # ISO 8601, with its time zone
_MOST_RANKS = 100_000

# Conditions that name a thing which is compared by its digest, or say where the code came from or ran: they make no run faster.
NAMES_ONLY = frozenset({"dataset_name", "synthetic_data", "git_commit", "host"})


# What the configuration decides of a run.
SETTINGS = (
    "case", "variant", "mode", "profiler", "seed", "epochs", "validate_every", "techniques", "workload", "gpu_samples_per_s",
    "traced",
)  # fmt: skip


class Gpu(BaseModel):
    """The GPU that a run used, as NVML describes it. None where NVML does not tell."""

    model_config = ConfigDict(extra="forbid")

    name: str
    uuid: str
    driver: str
    memory_mib: Count
    power_limit_w: Amount | None = None
    max_sm_clock_mhz: Count | None = None
    application_sm_clock_mhz: Count | None = None
    ecc: bool | None = None
    mig: bool | None = None


class Conditions(BaseModel):
    """Whatever else than the variant could make two runs differ."""

    model_config = ConfigDict(extra="forbid")

    gpu: Gpu | None  # None: a CPU. Of several, the first
    gpu_uuids: list[str] = []  # all that the process sees; records of earlier versions do not say
    host: str | None = None  # a salted digest that tells hosts apart and names none; records of earlier versions do not say
    cpu: str
    cores: PositiveCount
    python: str
    packages: dict[str, str]
    cuda: str | None
    cudnn: str | None
    dataset: str  # the dataset's digest
    dataset_name: str
    synthetic_data: bool
    image: str | None  # the container's digest
    scratch: bool = False  # whether the volumes were read from the node's own disk (resources.scratch)
    git_commit: str | None
    sources: str  # the digest of the code that trains

    @property
    def device(self) -> Literal["cuda", "cpu"]:
        """Return what computed, as `measurement.device` calls it."""
        return "cpu" if self.gpu is None and self.cudnn is None else "cuda"

    def seen_gpus(self) -> set[str]:
        """Return the UUIDs of all GPUs that the process saw, as far as the record says."""
        return {*self.gpu_uuids, *([self.gpu.uuid] if self.gpu else [])}

    def device_name(self) -> str:
        """Return the name of what computed: the GPU, or the processor."""
        return self.gpu.name if self.gpu else f"CPU ({self.cpu}, {format_count(self.cores, 'core')})"


class Work(BaseModel):
    """The least work of a training epoch: arithmetic, and traffic of the GPU's memory in half precision."""

    model_config = ConfigDict(extra="forbid")

    flop_per_epoch: Amount
    bytes_per_epoch: Amount


class Rates(BaseModel):
    """What a GPU was measured to do right after a run: large matrix products in half precision, and large copies."""

    model_config = ConfigDict(extra="forbid")

    flop_per_s: Amount
    bytes_per_s: Amount  # read and written


class Part(BaseModel):
    """One process of a run; a run that was killed and went on from a checkpoint has several."""

    model_config = ConfigDict(extra="forbid")

    first_epoch: PositiveCount  # those before it that the process before had measured after its checkpoint are measured again
    reason: str  # why the process before ended; empty of the first
    start_up_s: Seconds  # from the start of this process to its first epoch, cache fill included
    cache_fill_s: Seconds
    warm_up_s: Seconds | None  # this process' first training step


class ObservedRanges(BaseModel):
    """What was written down of a run's NVTX ranges, and what one of them costs there, measured before the run."""

    model_config = ConfigDict(extra="forbid")

    kept: Count  # of the name that is read
    others: Count
    kept_ns: Amount
    other_ns: Amount

    @property
    def cost_s(self) -> float:
        """Return what all of it cost the run."""
        return 1e-9 * (self.kept * self.kept_ns + self.others * self.other_ns)


class Run(BaseModel):
    """`run.json`. Of a run that was continued, times and epochs up to each checkpoint are those of the processes before."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[3] = 3
    run: FileName
    case: RelativePath
    variant: FileName
    mode: Mode
    profiler: Backend
    round: Count
    seed: int
    epochs: Count
    validate_every: PositiveCount
    techniques: dict[str, Any]
    workload: dict[str, Any]
    gpu_samples_per_s: int | None = None  # None in records of versions that did not record it
    traced: list[str] | None = None  # what nsys recorded; nothing, where it did not trace; None as above
    conditions: Conditions
    warnings: list[str]
    command: list[str]
    ranks: Annotated[int, Field(ge=1, le=_MOST_RANKS)] = 1  # processes that trained together; times are the slowest one's
    started: Moment
    ended: Moment
    clock: Clock = "system"
    start_up_s: Seconds  # from the start of the process to the first epoch, cache fill included
    cache_fill_s: Seconds  # from the files to filled caches for training and validation; 0: none, or filled by the first epoch
    cache_bytes: Count | None = None  # size of caches in memory; None: there are none, or the program did not report it
    warm_up_s: Seconds | None  # the first training step
    training_s: Seconds  # the sum of all epochs
    resolution_s: Amount | None = None  # half a unit of the last digit of printed epochs; None: they were not printed
    process_s: Seconds  # from the start of the process to its last measurement; continued: the parts' lives added up
    work: Work | None = None  # None in records of before it was counted
    flop_per_epoch: Amount | None = None  # as a program marks them; None: it does not
    parameters: Count | None = None
    rates: Rates | None = None  # None: not a timed run, or no GPU
    best_quality: Finite | None
    best_quality_epoch: PositiveCount | None
    best_quality_s: Seconds | None  # seconds since the start of the process
    continued: list[Part] = []  # the processes after the first one
    observed_ranges: ObservedRanges | None = None  # None: its NVTX ranges were not what was read
    observed: Observations | None = None  # None: in records of before it was written
    outcome: RunOutcome
    reason: str
    exit_status: int | None = None  # the program's own, if nothing else is known of why it failed

    @property
    def settings(self) -> dict[str, Any]:
        """Return what the configuration decided of this run, but for how its variant is called, which decides nothing."""
        settings = self.model_dump(mode="json", include=set(SETTINGS))
        return settings | {"techniques": without_title(self.techniques)}

    @property
    def is_of_proof(self) -> bool:
        """Return whether `speedproof prove` measured it, whose commands' files are all that its variant consists of."""
        return self.case == PROGRAMS

    @property
    def fingerprint(self) -> str:
        """Return what decides what this run measured."""
        return fingerprint_of(self.settings, self.conditions)


def fingerprint_of(settings: dict[str, Any], conditions: Conditions) -> str:
    """Return a digest of what decides what a run measures: its settings, and every condition that may differ between runs.

    A run of an interrupted experiment is kept if this is equal, so that all runs of an experiment can be compared.
    """
    return digest_of([settings, conditions.model_dump(mode="json", exclude=set(NAMES_ONLY))])


def without_title(techniques: Mapping[str, Any]) -> dict[str, Any]:
    """Return techniques without the title, which may be corrected when a run is done, and repeats none."""
    return {name: value for name, value in techniques.items() if name != TITLE}


def read_run(folder: Path) -> Run:
    return read_record(folder / RUN_FILE, Run)


def read_epochs(folder: Path) -> "pd.DataFrame":
    """Read a run's `epochs.csv`: one row an epoch, :data:`EPOCH_COLUMNS` and, behind them, further qualities."""
    path = folder / EPOCHS_FILE
    table = _read_csv(path, EPOCH_COLUMNS, older.RENAMED_EPOCH_COLUMNS)
    qualities = [name for name in table.columns if name == "quality" or name.startswith(_FURTHER_QUALITY)]
    columns = [*EPOCH_COLUMNS, *([OBSERVED] if OBSERVED in table else [])]
    _check_numbers(path, table, columns, whole=("epoch", "train_s"), signed=("loss", *qualities))
    if table["epoch"].tolist() != list(range(1, len(table) + 1)):
        refuse_record(path, "its epochs do not count from 1")
    for column in qualities:
        _check_numbers(path, table, [column], whole=(), signed=qualities)
        if table[column].isin([math.inf, -math.inf]).any():
            refuse_record(path, f"{column} holds what is not finite")
    return table


def check_run_qualities(folder: Path, quality: Quality, run: Run, epochs: "pd.DataFrame") -> None:
    """Check that the qualities of a run in `folder` can be; raise :class:`RecordError` where one cannot."""
    for name, values in ((EPOCHS_FILE, epochs["quality"].dropna()), (RUN_FILE, [run.best_quality])):
        for value in values:
            if value is not None and not quality.allows(value):
                refuse_record(folder / name, f"{value:g} is no {quality.title}")


def read_gpu_samples(folder: Path) -> "pd.DataFrame":
    """Read a run's `gpu.csv`: one row per sample, :data:`GPU_COLUMNS`; no rows without a GPU."""
    path = folder / GPU_FILE
    table = _read_csv(path, GPU_COLUMNS)
    _check_numbers(path, table, [name for name in GPU_COLUMNS if name != "throttle_reasons"], whole=("time_s",))
    if not table["time_s"].is_monotonic_increasing:
        refuse_record(path, "its samples are not in the order of their times")
    return table


def _check_numbers(
    path: Path, table: "pd.DataFrame", columns: Iterable[str], whole: Iterable[str], signed: Iterable[str] = ()
) -> None:
    """Check that columns hold numbers, finite and none below 0 but for those of `signed`, and those of `whole` no gap."""
    for column in columns:
        values = table[column].to_numpy()
        if not len(values) or (values.dtype.kind == "O" and table[column].isna().all()):  # without a number there is no type
            gaps = len(values) > 0
        elif values.dtype.kind not in "iuf":
            refuse_record(path, f"{column} holds a value that is not a number")
        else:
            gaps = bool((values != values).any())
            if column not in signed and ((values < 0) | (values == math.inf)).any():
                refuse_record(path, f"{column} holds what cannot be: {values.min():g} to {values.max():g}")
        if gaps and column in whole:
            refuse_record(path, f"{column} has a gap")


def write_csv(path: Path, table: "pd.DataFrame") -> None:
    """Write a table as CSV, whole or not at all: nine digits are enough, and empty means not measured."""
    write_text(path, table.to_csv(index=False, float_format="%.9g", lineterminator="\n"))


def write_epochs(folder: Path, epochs: Iterable[Mapping[str, float | None]]) -> None:
    """Write a run's `epochs.csv` as :func:`write_csv` would, without pandas, for which training need not wait."""
    text = io.StringIO()
    table, rows = csv.writer(text, lineterminator="\n"), list(epochs)
    further = [name for name in (rows[0] if rows else []) if name == OBSERVED or name.startswith(_FURTHER_QUALITY)]
    columns = [*EPOCH_COLUMNS, *further]
    table.writerow(columns)
    table.writerows([_format_cell(epoch[column]) for column in columns] for epoch in rows)
    write_text(folder / EPOCHS_FILE, text.getvalue())


def _format_cell(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _read_csv(path: Path, columns: list[str], older_names: Mapping[str, str] | None = None) -> "pd.DataFrame":
    import pandas as pd

    text = read_text(path)
    try:
        widths = {len(row) for row in csv.reader(io.StringIO(text), strict=True)}
        table = pd.read_csv(io.StringIO(text), index_col=False, keep_default_na=False, na_values=[""])
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error, ValueError, OverflowError) as error:
        refuse_record(path, f"not a CSV table ({' '.join(str(error).split())})")
    if len(widths) > 1:
        refuse_record(path, "its rows have different numbers of cells")
    names = [(older_names or {}).get(name, name) for name in table.columns]
    if missing := [column for column in columns if column not in names]:
        refuse_record(path, f"no column {', '.join(missing)}")
    if names == list(table.columns):
        return table
    return table.set_axis(names, axis=1)[[*columns, *(name for name in names if name not in columns)]]
