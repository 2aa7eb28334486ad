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
from speedproof.results.experiment import EQUIVALENCE_MARGIN, LOOKS, Margin, Minutes, Until
from speedproof.results.observations import WarmUpObserved
from speedproof.results.quality import Quality
from speedproof.results.run_record import Backend

VariablePattern = Annotated[str, Field(pattern=r"^[\w*?\[\]!%-]+$")]

MOST_RUNS = 100_000  # of all experiments
WORKLOAD_FILE = "workload.yaml"
SHIPPED = Path(__file__).parents[3] / "workloads"


def find_folder(case: str) -> Path:
    """Return the folder that `case` names: a workload's below `workloads/`, else the path of one."""
    shipped = SHIPPED / case
    return Path(
        os.path.normpath(shipped if (shipped / WORKLOAD_FILE).is_file() or os.sep not in case else Path(case).absolute())
    )


class Measurement(Model):
    """What runs, how often, in which experiments."""

    renamed: ClassVar[dict[str, str]] = older.CONFIG_KEYS["measurement"]

    variants: list[Name] = Field(
        min_length=1, max_length=1000, description="The variants, the one they are compared with first"
    )
    pairs: list[tuple[Name, Name]] = Field(
        [], max_length=1000, description="Variants to compare besides the first with each of the others: [reference, candidate]"
    )
    ablation: list[Name] = Field(
        [], max_length=1000, description="Variants to measure besides, each one technique further than the one before"
    )
    control: bool = Field(
        False, description="The first variant once more in every timed round: what it differs from itself is the noise floor"
    )
    experiments: Positive = Field(1, le=1000, description="Jobs; ratios are formed inside each and merged over all")
    rounds: Natural = Field(5, le=1000, description="Timed runs of each variant in an experiment, each a fresh process")
    until: Until | None = Field(
        None,
        description="decided: timed rounds go on until each compared pair is faster, slower or equivalent, and a faster one is "
        "known to keep the quality, at most `rounds` of them; null: all `rounds` run",
    )
    claimed: Number | None = Field(
        None,
        gt=0,
        description="A ratio that is claimed: with `until: decided` it is decided on which side of it each lies",
    )
    claimed_at_most: bool = Field(
        False, description="Whether `claimed` is the most that the ratio is claimed to be; false: the least"
    )
    metric: str | None = Field(
        None,
        max_length=100,
        description="What decides with `until: decided`, as reports name it; null: the training epoch, or the process without "
        "epochs",
    )
    budget_min: Minutes | None = Field(
        None, description="Minutes that the timed rounds of an experiment may take, with `until: decided`; null: no limit"
    )
    profiled: Natural = Field(1, le=1000, description="Profiled runs of each variant in an experiment")
    documented: Natural = Field(
        0, le=1000, description="Runs profiled as the documented numbers were: with autograd's own NVTX ranges (`emit_nvtx`)"
    )
    epochs: Epochs | None = Field(None, description="Epochs of every run; null: what the variant says")
    validate_every: Epochs | None = Field(None, description="Epochs from one validation to the next; null: as the variant")
    checkpoint_every: Epochs | None = Field(
        None,
        description="Epochs from one checkpoint of a timed run to the next, from which one that was killed goes on; null: "
        "none, it starts again",
    )
    seed: Seed = Field(0, description="Seed of the first round; the next ones count up")
    order_seed: Seed | None = Field(None, description="Seed of the order of the runs; null: `seed`")
    device: Literal["auto", "cuda", "cpu"] = Field("auto", description="auto: a GPU where one is visible")
    quality: Quality = Quality()
    timeout_s: Positive | None = Field(None, description="How long a run's program may take; null: as long as it likes")
    trust_reported: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Why times that programs report count even if our own clock does not support them; null: they do not",
    )
    equivalence_margin: Margin = Field(
        EQUIVALENCE_MARGIN,
        description="Two variants are equivalent if their ratio's interval lies within this of 1, a fraction",
    )

    @model_validator(mode="after")
    def _something_runs(self) -> "Measurement":
        if not self.rounds + self.profiled + self.documented:
            raise ValueError("nothing would run: set `rounds`, `profiled` or `documented` above 0")
        return self

    @model_validator(mode="after")
    def _rounds_end_at_a_look(self) -> "Measurement":
        if self.until is None and self.budget_min is not None:
            raise ValueError("`budget_min` needs `until: decided`; without it all `rounds` run")
        if self.until is None and self.claimed is not None:
            raise ValueError("`claimed` needs `until: decided`; without it all `rounds` run")
        if self.until is not None and self.rounds not in LOOKS:
            looks = ", ".join(map(str, LOOKS))
            raise ValueError(f"`until: decided` looks after {looks} rounds; set `rounds`, the most, to one of these")
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
        """Return how many ratios of a metric hold together: of the compared pairs, and of each stage of the ablation."""
        return max(1, len(dict.fromkeys([*self.compared(), *pairwise(self.ablation)])))

    def all_variants(self) -> list[str]:
        """Return all variants that run in a round, each once: the variants, then what the ablation adds."""
        return list(dict.fromkeys([*self.variants, *self.ablation]))


Caches = Literal["warm", "cold", "shared"]


class Variant(Model):
    """A program as it is measured, as its workload describes it; people write what their workload makes variants of."""

    title: str = Field(min_length=1, max_length=100, description="How figures and tables call it")
    gpus: Positive = Field(1, le=1024, description="Processes on a node, a GPU each")
    nodes: Positive = Field(1, le=10_000, description="Nodes of the cluster, each with `gpus` of them")
    own_ranks: bool = Field(False, description="Its `command` uses `gpus` GPUs and starts its processes itself, as by torchrun")
    epochs: Epochs = Field(1, description="Epochs, unless `measurement.epochs` says otherwise")
    validate_every: Epochs = Field(1, description="Epochs from one validation to the next")
    prepared_folder: Folder | None = Field(
        None, description="What its runs find prepared; an experiment fills it before the first"
    )
    command: str | None = Field(
        None, description="What runs it, as a shell splits it; `{workload}` is the workload's folder. null: its workload's own"
    )
    environment: dict[str, str] = Field({}, description="Variables that its program sees besides")
    inherit_environment: bool = Field(
        False, description="Its timed runs see all variables of where the workflow runs but those that read like a secret"
    )
    pass_environment: list[VariablePattern] = Field(
        [], description="Variables, by name or shell pattern, that its program sees besides the allowed ones as they are here"
    )
    drop_environment: list[VariablePattern] = Field(
        [], description="Variables, by name or shell pattern, that its program does not see, allowed or not"
    )
    image: ImageAddress | None = Field(None, description="A .sif file that `command` runs in, by Apptainer; null: none")
    reads: Reading = Field(Reading(), description="Where its epochs, qualities and samples come from")
    evaluation: Evaluation | None = Field(None, description="What judges the quality of its timed runs; null: what it reports")
    tree: str | None = Field(
        None,
        description="Folder that each run works in a copy of; `{workload}` as in `command`; null: an empty one",
    )
    place: str | None = Field(None, description="Folder that it runs in itself; null: a fresh one, which `{run}` names anyway")
    linked: dict[str, str] = Field({}, description="What is linked there instead, as data are: name → where it lies")
    caches: Caches | None = Field(
        None,
        description="TMPDIR and compile caches of runs: private (warm, cold) or the caller's (shared); null: as its workload",
    )
    kept_caches: str | None = Field(None, description="Folder with the compile caches that its warm-up left")
    isolated: bool = Field(False, description="Whether what a run writes to HOME, temporary folders and packages goes after it")
    package_folders: list[str] = Field([], description="Folders of its interpreter's packages, in which changes are looked for")
    warm_up: WarmUpObserved | None = Field(None, description="What was seen of its warm-up; null: there was none")
    fixed: list[str] = Field([], description="Files and folders besides `tree` that nothing may change while runs go on")
    settings: dict[str, Any] = Field({}, description="Whatever else decides what it does, free of form")
    told_epochs: bool = Field(True, description="Whether its program is told how many epochs to run (SPEEDPROOF_EPOCHS)")
    blind: bool = Field(False, description="Whether its timed runs see nothing of speedproof: no variable, module or folder")

    @property
    def ranks(self) -> int:
        """Return how many processes of a run are started here."""
        return 1 if self.own_ranks else self.gpus * self.nodes


class Completed(Model):
    """What a workload makes of a configuration: its variants, and what the instrument must know of its data."""

    variants: dict[Name, Variant]
    shared: dict[str, Any] = Field({}, description="Settings that all variants share, free of form")
    techniques: dict[str, tuple[str, ...]] = Field({}, description="Settings that are one switch together, by its name")
    ranges: tuple[str, ...] = Field((), description="NVTX ranges that every trace has, or it was lost")
    dataset: Name = Field("data", description="What its data are called below RESULTS/data/")
    folders: dict[str, str] = Field({}, description="Folders besides results that steps must see, by key")
    download_mib: Number = Field(0.0, ge=0, description="What must be fetched")
    data_mib: Number = Field(0.0, ge=0, description="Room that the data need")


class Config(Model):
    """The whole configuration. What its workload alone understands, the workload completes."""

    case: str = Field(min_length=1, description="The workload: a place below workloads/, or the path of a folder")
    results: str = Field("results", description="Where everything that is made goes, relative to the working folder")
    data: dict[str, Any] = Field({}, description="Where the workload's data come from")
    workload: dict[str, Any] = Field({}, description="What all variants of the workload share")
    variants: dict[Name, Any] = Field({}, description="What the workload makes variants of, by name")
    measurement: Measurement
    profiling: Profiling = Profiling()
    container: Container = Container()
    resources: Resources = Resources()
    completed: SkipJsonSchema[Completed | None] = Field(
        None, description="What the workload makes of all this; not for people to write"
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
                f"measurement.variants: `{of_ranges[0]}` is read of its NVTX ranges, `{others[0]}` is not, and what takes them "
                "costs time; read all variants so, or none"
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
                f"measurement.until: `{several[0]}` trains on several nodes, which await every run; set it to null"
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
        """Return how many epochs a run's record tells: none where they are NVTX ranges, which a profiler takes for itself."""
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
