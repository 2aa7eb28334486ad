"""The configuration's typed model. The JSON schema is generated from it, so each field says what it is, with its unit."""

import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from speedproof.config.base import Epochs, Folder, Model, Name, Natural, Number, Positive, Seed
from speedproof.config.evaluation import Evaluation
from speedproof.config.job_resources import Container, ImageAddress, JobResources, Resources
from speedproof.config.profiling import Profiling
from speedproof.config.reading import Reading
from speedproof.results import older_versions as older
from speedproof.results.claim import ClaimText
from speedproof.results.experiment import EQUIVALENCE_MARGIN, LOOKS, Margin, Minutes, Until
from speedproof.results.observations import WarmUpObserved
from speedproof.results.quality import Quality
from speedproof.results.run_record import Backend

VariablePattern = Annotated[str, Field(pattern=r"^[\w*?\[\]!%-]+$")]

MOST_RUNS = 100_000  # in all experiments
WORKLOAD_FILE = "workload.yaml"
SHIPPED = Path(__file__).parents[3] / "workloads"


def find_folder(case: str) -> Path:
    """Return the folder that `case` names: a workload's below `workloads/`, else the path of one."""
    shipped = SHIPPED / case
    return Path(
        os.path.normpath(shipped if (shipped / WORKLOAD_FILE).is_file() or os.sep not in case else Path(case).absolute())
    )


class Measurement(Model):
    """What runs, how often, and in how many experiments."""

    renamed: ClassVar[dict[str, str]] = older.CONFIG_KEYS["measurement"]

    variants: list[Name] = Field(min_length=1, max_length=1000, description="Variants to measure; the first is the reference")
    pairs: list[tuple[Name, Name]] = Field(
        [],
        max_length=1000,
        description="Further comparisons, [reference, candidate], besides the first variant with each other one",
    )
    ablation: list[Name] = Field(
        [],
        max_length=1000,
        description="Cumulative ablation: further variants, each with one more technique than the one before",
    )
    control: bool = Field(
        False, description="Run the first variant twice in every timed round; its ratio to itself is the noise floor"
    )
    experiments: Positive = Field(1, le=1000, description="Number of jobs; ratios are formed within each job, then merged")
    rounds: Natural = Field(5, le=1000, description="Timed runs of each variant per experiment, each a fresh process")
    until: Until | None = Field(
        None,
        description="decided: stop before `rounds` once each comparison is faster, slower or equivalent, and the quality of "
        "a faster variant is no worse; null: run all `rounds`",
    )
    claim: ClaimText | None = Field(
        None, description="Claimed speedup, as in '>= 1.5', which `until: decided` tests instead of any difference; null: none"
    )
    metric: str | None = Field(
        None,
        max_length=100,
        description="Metric that `until: decided` tests, as reports name it; null: training time per epoch, or wall time "
        "without epochs",
    )
    budget_min: Minutes | None = Field(
        None, description="Time limit in minutes for the timed rounds of an experiment, with `until: decided`; null: none"
    )
    profiled: Natural = Field(1, le=1000, description="Profiled runs of each variant per experiment")
    documented: Natural = Field(
        0, le=1000, description="Runs profiled like those of the documented numbers, with autograd's NVTX ranges (`emit_nvtx`)"
    )
    epochs: Epochs | None = Field(None, description="Epochs of every run; null: the variant's own")
    validate_every: Epochs | None = Field(None, description="Epochs from one validation to the next; null: the variant's own")
    checkpoint_every: Epochs | None = Field(
        None,
        description="Epochs between checkpoints of a timed run, from which a killed run resumes; null: none, it starts again",
    )
    seed: Seed = Field(0, description="Seed of the first round; each further round adds 1")
    order_seed: Seed | None = Field(None, description="Seed for the order of the runs; null: `seed`")
    device: Literal["auto", "cuda", "cpu"] = Field("auto", description="auto: a GPU if one is visible")
    quality: Quality = Quality()
    timeout_s: Positive | None = Field(None, description="Time limit in seconds for a run's program; null: none")
    trust_reported: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Reason to accept reported times that the observed times contradict; null: reject them",
    )
    equivalence_margin: Margin = Field(
        EQUIVALENCE_MARGIN,
        description="Two variants are equivalent if their ratio's interval is within this fraction of 1",
    )

    joint_with: Natural = Field(
        0, le=1000, description="Comparisons of other experiments whose intervals hold together with these"
    )

    @model_validator(mode="after")
    def _something_runs(self) -> "Measurement":
        if not self.rounds + self.profiled + self.documented:
            raise ValueError("nothing would run: set `rounds`, `profiled` or `documented` above 0")
        return self

    @model_validator(mode="after")
    def _rounds_end_at_a_look(self) -> "Measurement":
        if self.until is None and self.budget_min is not None:
            raise ValueError("`budget_min` needs `until: decided`; otherwise all `rounds` run")
        if self.until is None and self.claim is not None:
            raise ValueError("`claim` needs `until: decided`; otherwise all `rounds` run")
        if self.until is not None and self.rounds not in LOOKS:
            looks = ", ".join(map(str, LOOKS))
            raise ValueError(f"`until: decided` checks after {looks} rounds; set `rounds`, the maximum, to one of these")
        return self

    @model_validator(mode="after")
    def _pairs_are_of_variants(self) -> "Measurement":
        for name in (name for pair in self.pairs for name in pair):
            if name not in self.variants:
                raise ValueError(f"pairs: `{name}` is not one of `variants`: {', '.join(self.variants)}")
        return self

    def compared(self) -> list[tuple[str, str]]:
        """Return the pairs of variants that are compared, each once: the first with each of the others, then `pairs`."""
        return list(dict.fromkeys([*((self.variants[0], other) for other in self.variants[1:]), *self.pairs]))

    @property
    def comparisons(self) -> int:
        """Return how many ratios of a metric hold together: of the pairs, of each stage of the ablation, of `joint_with`."""
        return max(1, len(dict.fromkeys([*self.compared(), *pairwise(self.ablation)]))) + self.joint_with

    def all_variants(self) -> list[str]:
        """Return all variants that run in a round, each once: the variants, then what the ablation adds."""
        return list(dict.fromkeys([*self.variants, *self.ablation]))


Caches = Literal["warm", "cold", "shared"]


class Variant(Model):
    """A program as it is measured, as its workload completes it from the configuration."""

    title: str = Field(min_length=1, max_length=100, description="Name in figures and tables")
    gpus: Positive = Field(1, le=1024, description="Processes per node, one GPU each")
    nodes: Positive = Field(1, le=10_000, description="Cluster nodes, each with `gpus` processes")
    own_ranks: bool = Field(False, description="Whether `command` starts a process per GPU itself, for example with torchrun")
    epochs: Epochs = Field(1, description="Epochs per run, unless `measurement.epochs` is set")
    stop_after: Positive | None = Field(
        None, description="Epochs after which its program is ended from outside; null: it ends by itself"
    )
    validate_every: Epochs = Field(1, description="Epochs from one validation to the next")
    prepared_folder: Folder | None = Field(
        None, description="Folder with prepared data for its runs; an experiment fills it before the first run"
    )
    command: str | None = Field(
        None, description="Command line; `{workload}` is the workload's folder. null: the workload's own command"
    )
    environment: dict[str, str] = Field({}, description="Extra environment variables for its program")
    inherit_environment: bool = Field(
        False, description="Pass the workflow's whole environment to its timed runs, except variables that look like secrets"
    )
    pass_environment: list[VariablePattern] = Field(
        [], description="Further environment variables to pass to its program, by name or shell pattern"
    )
    drop_environment: list[VariablePattern] = Field(
        [], description="Environment variables to hide from its program, by name or shell pattern"
    )
    image: ImageAddress | None = Field(None, description="Apptainer image (.sif) to run `command` in; null: none")
    reads: Reading = Field(Reading(), description="Where its epochs, quality and samples are read from")
    evaluation: Evaluation | None = Field(
        None, description="Command that measures the quality of its timed runs; null: the quality that it reports"
    )
    tree: str | None = Field(
        None,
        description="Folder to copy for each run to work in; `{workload}` as in `command`; null: an empty folder",
    )
    place: str | None = Field(
        None, description="Folder to run in without a copy; null: a fresh folder, which `{run}` names in any case"
    )
    origin: str | None = Field(None, description="Folder that `tree` is a copy of")
    mirrored: int = Field(0, ge=0, le=100, description="Folders above `origin` whose entries are linked above each copy")
    linked: dict[str, str] = Field({}, description="Entries to link there instead of copying, such as data: name → path")
    caches: Caches | None = Field(
        None,
        description="TMPDIR and compile caches: private (warm, cold) or the caller's (shared); null: the workload's own",
    )
    kept_caches: str | None = Field(None, description="Folder with the compile caches of its warm-up")
    terminal: bool = Field(False, description="Whether its program prints to a terminal though no printed lines are read")
    isolated: bool = Field(False, description="Discard what a run writes to HOME, temporary folders and packages")
    package_folders: list[str] = Field([], description="Package folders of its interpreter, which are checked for changes")
    named_folders: list[str] = Field([], description="Other folders that its command names, which are checked for changes")
    warm_up: WarmUpObserved | None = Field(None, description="Observations of its warm-up; null: it had none")
    fixed: list[str] = Field([], description="Files and folders besides `tree` that must not change during the measurement")
    settings: dict[str, Any] = Field({}, description="Any other settings of the program")
    told_epochs: bool = Field(True, description="Whether the program gets SPEEDPROOF_EPOCHS, the number of epochs to run")
    blind: bool = Field(False, description="Hide speedproof from its timed runs: no variable, module or folder")

    @property
    def watched_folders(self) -> list[str]:
        return [*self.named_folders, *self.package_folders]

    @property
    def ranks(self) -> int:
        """Return how many processes of a run are started here."""
        return 1 if self.own_ranks else self.gpus * self.nodes


class Completed(Model):
    """A configuration as its workload completes it: its variants, and facts about its data."""

    variants: dict[Name, Variant]
    shared: dict[str, Any] = Field({}, description="Settings that all variants share")
    techniques: dict[str, tuple[str, ...]] = Field(
        {}, description="Groups of settings that change together, by the technique's name"
    )
    ranges: tuple[str, ...] = Field((), description="NVTX ranges that every trace must contain; otherwise it is incomplete")
    dataset: Name = Field("data", description="Name of its data below RESULTS/data/")
    folders: dict[str, str] = Field({}, description="Further folders that steps must see, by key")
    download_mib: Number = Field(0.0, ge=0, description="Size of the download in MiB")
    data_mib: Number = Field(0.0, ge=0, description="Disk space for the data in MiB")


class Config(Model):
    """The whole configuration; the workload interprets and completes its own parts."""

    case: str = Field(min_length=1, description="The workload: a folder below workloads/, or a path")
    results: str = Field("results", description="Output folder, relative to the working folder")
    data: dict[str, Any] = Field({}, description="Source of the workload's data")
    workload: dict[str, Any] = Field({}, description="Settings that all variants of the workload share")
    variants: dict[Name, Any] = Field({}, description="Settings of each variant, by name")
    measurement: Measurement
    profiling: Profiling = Profiling()
    container: Container = Container()
    resources: Resources = Resources()
    completed: SkipJsonSchema[Completed | None] = Field(
        None, description="The configuration as the workload completed it; not for you to write"
    )

    @field_validator("results")
    @classmethod
    def _results_is_a_folder_of_ours(cls, value: str) -> str:
        if not value or Path(value) == Path() or ".." in Path(value).parts or value.startswith("~"):
            raise ValueError("must name a folder below the working folder")
        return value

    @model_validator(mode="after")
    def _complete(self) -> "Config":
        object.__setattr__(self, "completed", self.complete())  # the one thing that comes after the others
        return self

    @model_validator(mode="after")
    def _measured_variants_exist(self) -> "Config":
        for key in ("variants", "ablation"):
            for name in getattr(self.measurement, key):
                if name not in self.completed_variants:
                    known = ", ".join(sorted(self.completed_variants))
                    raise ValueError(f"measurement.{key}: unknown variant `{name}`; known are {known}")
        return self

    @model_validator(mode="after")
    def _runs_can_be_counted(self) -> "Config":
        asked = self.measurement
        each = asked.rounds * (1 + asked.control) + asked.profiled + asked.documented
        runs = asked.experiments * each * len(asked.all_variants())
        if runs > MOST_RUNS:
            raise ValueError(f"measurement: up to {runs:,} runs, {MOST_RUNS:,} are allowed; lower `experiments` or `rounds`")
        return self

    @model_validator(mode="after")
    def _ranges_are_taken_of_all_or_none(self) -> "Config":
        variants = {
            name: self.completed_variants[name] for name in self.measurement.all_variants() if name in self.completed_variants
        }
        of_ranges = [name for name, variant in variants.items() if variant.reads.source == "ranges"]
        if others := [name for name in variants if of_ranges and name not in of_ranges]:
            raise ValueError(
                f"measurement.variants: `{of_ranges[0]}` reads epochs from NVTX ranges and `{others[0]}` does not; recording "
                "ranges costs time, so use them for all variants, or for none"
            )
        return self

    @model_validator(mode="after")
    def _who_stops_is_on_one_node(self) -> "Config":
        several = [
            name
            for name in self.measurement.all_variants()
            if name in self.completed_variants and self.completed_variants[name].nodes > 1
        ]
        if self.measurement.until is not None and several:
            raise ValueError(
                f"measurement.until: `{several[0]}` trains on several nodes, which needs a fixed number of runs; set it to null"
            )
        if self.measurement.until is not None and not self.measurement.compared():
            raise ValueError("measurement.until: nothing is compared; name a second variant in `variants`, or set it to null")
        return self

    @model_validator(mode="after")
    def _captured_epochs_are_trained(self) -> "Config":
        if (epochs := self.profiling.captured_epochs) is None or not self.measurement.profiled:
            return self
        first, last = epochs
        for name in (name for name in self.measurement.all_variants() if name in self.completed_variants):
            trained, every = self.epochs_of(name), self.validate_every_of(name)
            if trained and last > trained:
                raise ValueError(f"profiling.capture: `{name}` trains {trained} epochs, and {last} was asked for")
            if last // every > (first - 1) // every and ((first - 1) % every or last % every):
                raise ValueError(
                    f"profiling.capture: of epochs {first}-{last} of `{name}`, which validates every {every}, some "
                    f"validate: take whole intervals, such as {every + 1}-{2 * every}, or epochs between two validations"
                )
        return self

    @model_validator(mode="after")
    def _ablation_changes_single_techniques(self) -> "Config":
        for before, after in pairwise(self.measurement.ablation):
            changed = self.changed_techniques(self.completed_variants[before].settings, self.completed_variants[after].settings)
            if len(changed) != 1:
                what = " and ".join(changed) or "nothing"
                raise ValueError(
                    f"measurement.ablation: `{after}` changes {what} against `{before}`; each stage changes one technique"
                )
        return self

    @property
    def workload_name(self) -> str:
        """Return what records call the workload: its place below `workloads/`; of one elsewhere, its folder's name."""
        folder = find_folder(self.case)
        return folder.relative_to(SHIPPED).as_posix() if folder.is_relative_to(SHIPPED) else folder.name

    @property
    def completed_variants(self) -> dict[str, Variant]:
        """Return what can be measured, by name."""
        return self.completed.variants if self.completed else {}

    @property
    def ranges(self) -> tuple[str, ...]:
        """Return the NVTX ranges that every trace has, or it was lost."""
        return self.completed.ranges if self.completed else ()

    @property
    def shared(self) -> dict[str, Any]:
        """Return the settings that all variants share."""
        return self.completed.shared if self.completed else {}

    def complete(self) -> Completed | None:
        """Return what the workload makes of the rest; here, what it made already."""
        return self.completed

    def changed_techniques(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
        """Return the names of the techniques in which the settings of two variants differ."""
        techniques = self.completed.techniques if self.completed else {}
        return [name for name, keys in techniques.items() if any(before.get(key) != after.get(key) for key in keys)]

    def epochs_of(self, variant: str) -> int:
        """Return how many epochs a run of `variant` takes; 0 where nothing but its process is known."""
        if self.completed_variants[variant].reads.source == "process":
            return 0
        return self.measurement.epochs or self.completed_variants[variant].epochs

    def reported_epochs_of(self, variant: str, profiler: Backend) -> int:
        """Return how many epochs a run's record holds: none if they are NVTX ranges, which only the profiler sees then."""
        measured = self.completed_variants[variant]
        return 0 if measured.reads.source == "ranges" and profiler != "none" else self.epochs_of(variant)

    def validate_every_of(self, variant: str) -> int:
        """Return how many epochs lie between two validations of `variant`."""
        return self.measurement.validate_every or self.completed_variants[variant].validate_every

    def prepared_folders(self) -> dict[str, Path]:
        """Return the folder of each measured variant that has a `prepared_folder`; a relative one is below the working one."""
        folders = {name: self.completed_variants[name].prepared_folder for name in self.measurement.all_variants()}
        return {name: Path(folder) for name, folder in folders.items() if folder is not None}

    def experiment_resources(self) -> JobResources:
        """Return what an experiment asks Slurm for: the GPUs of its widest variant, where it asks for any."""
        asked = self.resources.experiment
        widest = max(self.completed_variants[name].gpus for name in self.measurement.all_variants())
        return asked.model_copy(update={"gpus": max(asked.gpus, widest)}) if asked.gpus else asked

    def experiment_nodes(self) -> int:
        """Return on how many nodes an experiment runs: as many as its widest variant."""
        return max(self.completed_variants[name].nodes for name in self.measurement.all_variants())

    def experiments(self) -> list[str]:
        return [f"experiment-{number}" for number in range(1, self.measurement.experiments + 1)]
