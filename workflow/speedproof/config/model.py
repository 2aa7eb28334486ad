"""The configuration's typed model. The JSON schema is generated from it, so each field says what it is, with its unit."""

from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from speedproof.config.extends import allow_extending, complete_variants
from speedproof.records.block import Quality

Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Beta = Annotated[float, Field(ge=0, lt=1)]
Betas = Annotated[tuple[Beta, Beta], Field(description="Shares of the running means of gradient and square that a step keeps")]
Fused = Annotated[
    bool, Field(description="One kernel for all parameters, which also reads gradient scaler and learning rate on the device")
]
# Snakemake puts an image's path into a shell command as it is.
ImageAddress = Annotated[str, Field(pattern=r"^[\w./:@%+=~-]+$")]
Three = tuple[Positive, Positive, Positive]


class Model(BaseModel):
    """A part of the configuration: unknown keys are errors, and nothing changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Phantom(Model):
    """Synthetic abdominal CTs in the Decathlon layout."""

    size: Literal["tiny", "small", "medium", "full"] = Field("full", description="`full` has the real set's 41 volumes")
    seed: Natural = Field(0, description="The same seed and size give the same bytes")


class Data(Model):
    """Where the labelled volumes come from."""

    source: Literal["msd", "local", "phantom"] = Field("msd", description="The registry's download, a folder, or synthetic")
    folder: str = Field("data", description="Where downloads and phantoms are kept, relative to the working folder")
    registry_entry: str = Field("Task09_Spleen", description="The registry's entry to download (`msd`)")
    local_folder: str | None = Field(None, description="A folder with imagesTr/ and labelsTr/ (`local`)")
    phantom: Phantom = Phantom()

    @model_validator(mode="after")
    def _local_needs_a_folder(self) -> "Data":
        if self.source == "local" and not self.local_folder:
            raise ValueError("source `local` needs `local_folder`, a folder with imagesTr/ and labelsTr/")
        return self


class Workload(Model):
    """What every variant of a case shares: the documented values are the defaults."""

    validation_cases: Positive = Field(9, description="The last cases by name validate, the others train")
    spacing_mm: tuple[float, float, float] = Field((1.5, 1.5, 2.0), description="Voxel size after resampling")
    intensity_range: tuple[float, float] = Field((-57.0, 164.0), description="Hounsfield units mapped to [0, 1], clipped")
    patch_size: Three = Field((96, 96, 96), description="Voxels of a training patch")
    patches_per_volume: Positive = Field(4, description="Random patches of a volume an epoch, foreground:background 1:1")
    window_size: Three = Field((160, 160, 160), description="Voxels of the sliding window")
    window_overlap: float = Field(0.25, ge=0, lt=1, description="Share of a window that the next one covers again")
    window_batch: Positive = Field(4, description="Windows in one forward pass")


class DiceLoss(Model):
    """The Dice loss alone."""

    name: Literal["dice"] = "dice"


class DiceCELoss(Model):
    """Dice and cross entropy, added."""

    name: Literal["dice_ce"] = "dice_ce"
    include_background: bool = Field(True, description="Whether the Dice part counts the background class")
    smooth: float = Field(1e-5, gt=0, description="Added to numerator and denominator of the Dice part")
    weight: float = Field(1.0, gt=0, description="Weight of either part")


class Adam(Model):
    """Adam without weight decay."""

    name: Literal["adam"] = "adam"
    learning_rate: float = Field(gt=0)
    betas: Betas = (0.9, 0.999)
    fused: Fused = False


class AdamW(Model):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"] = "adamw"
    learning_rate: float = Field(gt=0)
    betas: Betas = (0.9, 0.999)
    weight_decay: float = Field(0.01, ge=0)
    fused: Fused = False


class Novograd(Model):
    """MONAI's Novograd."""

    name: Literal["novograd"] = "novograd"
    learning_rate: float = Field(gt=0)


class Sgd(Model):
    """Stochastic gradient descent with momentum."""

    name: Literal["sgd"] = "sgd"
    learning_rate: float = Field(gt=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    nesterov: bool = Field(False, description="The gradient is taken ahead, where the momentum leads")

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> "Sgd":
        if self.nesterov and not self.momentum:
            raise ValueError("`nesterov: true` needs a `momentum` above 0")
        return self


class ConstantRate(Model):
    """The optimizer's learning rate in every step."""

    name: Literal["constant"] = "constant"


class WarmUpDecay(Model):
    """A learning rate that rises to the optimizer's in equal parts, then falls until the run's last step."""

    name: Literal["warm_up_decay"] = "warm_up_decay"
    warm_up_epochs: Natural = Field(description="Epochs over which it rises, step by step; 0: it begins at the full rate")
    shape: Literal["cosine", "linear"] = Field("cosine", description="How it falls: along half a cosine, or a line")
    final: float = Field(0.0, ge=0, le=1, description="What it falls to, as a share of the full rate")


class Network(Model):
    """MONAI's UNet with two residual units a level, batch norm and PReLU."""

    channels: tuple[Positive, ...] = Field(
        (16, 32, 64, 128, 256), min_length=2, description="Channels of each level, strides of 2 between"
    )
    dropout: float = Field(0.0, ge=0, lt=1)


class Variant(Model):
    """One way to train a case: a named set of techniques, each one switch."""

    model_config = ConfigDict(json_schema_extra=allow_extending)

    title: str = Field(description="How figures and tables call it")
    cache: Literal["none", "ram", "gpu", "persistent", "lmdb", "smart", "resident"] = Field(
        "none",
        description="Where the deterministic transforms' results are kept; persistent: files, lmdb: a database, both new for "
        "each run; smart: a share in RAM, part of which is exchanged every epoch; resident: half-precision tensors on the "
        "device, preprocessed there, from which each batch of patches is gathered in one operation",
    )
    prepared_folder: str | None = Field(
        None,
        description="resident: a folder where preprocessed volumes are kept from run to run, by checksum; null: each run "
        "makes its own. A block fills it before its first run, so that each run of the variant starts from all of them",
    )
    cache_rate: float = Field(1.0, gt=0, le=1, description="smart: share of the volumes that are cached, and seen in an epoch")
    replace_rate: float = Field(0.1, gt=0, le=1, description="smart: share of the cached volumes that an epoch exchanges")
    cache_workers: Positive = Field(8, description="Threads that fill the training cache")
    validation_cache_workers: Positive = Field(8, description="Threads that fill the validation cache")
    copy_cache: bool = Field(True, description="Whether a cached volume is copied each time it is read")
    track_meta: bool = Field(True, description="Whether MONAI carries metadata along with tensors on the GPU")
    index_transform: bool = Field(
        False,
        description="Foreground and background voxels listed by a transform of the chain, so that a cache keeps them",
    )
    loader: Literal["process", "thread"] = Field("process", description="DataLoader, or MONAI's ThreadDataLoader")
    workers: Natural = Field(0, description="Worker processes of the training loader")
    validation_workers: Natural = Field(0, description="Worker processes of the validation loader")
    batch_size: Positive = Field(description="Volumes a step; each gives `patches_per_volume` patches")
    network: Network = Network()
    loss: DiceLoss | DiceCELoss = Field(DiceLoss(), discriminator="name")
    optimizer: Adam | AdamW | Novograd | Sgd = Field(discriminator="name")
    schedule: ConstantRate | WarmUpDecay = Field(ConstantRate(), discriminator="name")
    precision: Literal["fp32", "fp16", "bf16"] = Field(
        "fp32", description="fp16: autocast with a gradient scaler; bf16: autocast, whose range needs none"
    )
    memory_format: Literal["contiguous", "channels_last"] = Field(
        "contiguous", description="channels_last: a voxel's channels side by side in memory, as tensor cores read them"
    )
    cudnn: Literal["deterministic", "heuristic", "autotune"] = Field(
        "deterministic",
        description="deterministic: reproducible kernels; heuristic: those the library expects to be fastest, reproducible or "
        "not; autotune: the fastest, found by trying each convolution for seconds",
    )
    kernels: list[Literal["norm", "convolutions", "loss"]] = Field(
        [],
        description="Our own GPU kernels in place of the library's: batch norm with PReLU and residual in one; convolutions of "
        "few channels (with norm); Dice and cross entropy in one. Without a GPU: the same by torch",
    )
    launch: Literal["operations", "graphs"] = Field(
        "operations",
        description="graphs: forward, backward and update are recorded once and launched as a CUDA graph each. Without a GPU: "
        "operations",
    )
    scoring: Literal["monai", "device"] = Field(
        "monai",
        description="monai: Dice volume by volume, the best weights written at once; device: Dice counted there and read once "
        "a validation, the best weights kept there until the run ends",
    )
    toolkit: Literal["monai", "torch"] = Field(
        "monai",
        description="Whose network, loss and sliding window train: MONAI's, or ours in plain torch of the same weights and "
        "values, for which a process need not wait until MONAI is imported",
    )
    window_batch: Positive | None = Field(None, description="Windows in one forward pass; null: as the workload says")
    step_log: bool = Field(
        False,
        description="Two reads of the loss, a printed line and a TensorBoard write a step, as the profiling pair does",
    )
    range_style: Literal["push_pop", "start_end"] = Field("push_pop", description="How phases are marked in a trace")
    gpus: Positive = Field(
        1, description="Processes, a GPU of the node each (without GPUs: gloo on the processor), whose gradients are averaged"
    )
    nodes: Positive = Field(1, description="Nodes of the cluster, each with `gpus` of them; more than one needs Slurm")
    shard: bool = Field(
        True,
        description="Several GPUs: each trains on its share of the cases, so that an epoch is every case once; false: each "
        "on all cases with crops of its own, the same work a GPU as one alone",
    )
    epochs: Positive = Field(description="Epochs, unless `measurement.epochs` says otherwise")
    validate_every: Positive = Field(description="Epochs from one validation to the next")

    @model_validator(mode="after")
    def _gpu_cache_needs_no_workers(self) -> "Variant":
        if self.cache == "gpu" and (self.workers or self.validation_workers):
            raise ValueError("a cache on the GPU needs loaders without worker processes: set `workers: 0`")
        if not self.track_meta and self.cache not in ("gpu", "resident"):
            raise ValueError("`track_meta: false` goes with `cache: gpu` or `cache: resident`")
        if self.cache == "resident" and (self.track_meta or self.workers or self.validation_workers):
            raise ValueError("`cache: resident` needs `track_meta: false`, `workers: 0` and `validation_workers: 0`")
        if self.prepared_folder is not None and self.cache != "resident":
            raise ValueError("`prepared_folder` goes with `cache: resident`")
        if self.prepared_folder is not None and self.nodes > 1:
            raise ValueError("`prepared_folder` goes with `nodes: 1`: the first node alone would fill it")
        if self.toolkit == "torch" and (self.cache != "resident" or self.scoring != "device"):
            raise ValueError(
                "`toolkit: torch` needs `cache: resident` and `scoring: device`: other caches and scores are MONAI's"
            )
        self._check_kernels()
        if self.cache != "smart" and self.cache_rate != 1:
            raise ValueError("`cache_rate` goes with `cache: smart`")
        if self.cache == "smart" and (self.cache_rate == 1 or self.loader == "thread" or self.workers):
            raise ValueError("`cache: smart` needs a `cache_rate` below 1, `loader: process` and `workers: 0`")
        if self.ranks == 1 and not self.shard:
            raise ValueError("`shard: false` goes with `gpus` above 1")
        return self

    def _check_kernels(self) -> None:
        if self.kernels and self.toolkit != "torch":
            raise ValueError("`kernels` need `toolkit: torch`")
        if "convolutions" in self.kernels and "norm" not in self.kernels:
            raise ValueError("`kernels`: convolutions leave their biases to the norm's kernel: name `norm`, too")
        if "norm" in self.kernels and self.network.dropout:
            raise ValueError("`kernels`: the norm's kernel has no dropout: set `network.dropout: 0`, or leave out `norm`")
        if "norm" in self.kernels and any(256 % channels for channels in self.network.channels):
            raise ValueError("`kernels`: the norm's kernel takes channels that divide 256: change `network.channels`")
        if "convolutions" in self.kernels and min(self.network.channels) < 8:
            raise ValueError(
                "`kernels`: convolutions become products of matrices twice as wide as their channels, and tensor cores need a "
                "width of 16: set 8 or more in each of `network.channels`, or leave out `convolutions`"
            )
        if "loss" in self.kernels and not (isinstance(self.loss, DiceCELoss) and self.loss.include_background):
            raise ValueError("`kernels`: the loss kernel is that of `loss: {name: dice_ce, include_background: true}`")
        if self.launch == "graphs" and (self.ranks > 1 or self.step_log or self.cache != "resident"):
            raise ValueError("`launch: graphs` needs `cache: resident`, `step_log: false` and a single GPU")
        if self.launch == "graphs" and not getattr(self.optimizer, "fused", False):
            raise ValueError("`launch: graphs` needs an optimizer with `fused: true`, whose state is on the GPU")

    @property
    def ranks(self) -> int:
        """Return how many processes train."""
        return self.gpus * self.nodes


# A technique is one switch, or switches that mean something only together. How a run is called, how long it lasts and how
# its trace is marked are none.
TECHNIQUES: dict[str, tuple[str, ...]] = {
    "cache": ("cache", "cache_rate", "replace_rate", "cache_workers", "validation_cache_workers"),
    "prepared volumes": ("prepared_folder",),
    "cache copies": ("copy_cache",),
    "metadata": ("track_meta",),
    "foreground index": ("index_transform",),
    "loader": ("loader",),
    "loader workers": ("workers", "validation_workers"),
    "batch size": ("batch_size",),
    "network": ("network",),
    "loss": ("loss",),
    "optimizer": ("optimizer",),
    "schedule": ("schedule",),
    "precision": ("precision",),
    "memory format": ("memory_format",),
    "cuDNN": ("cudnn",),
    "kernels": ("kernels",),
    "launching": ("launch",),
    "scoring": ("scoring", "window_batch"),
    "toolkit": ("toolkit",),
    "step log": ("step_log",),
    "GPUs": ("gpus", "nodes", "shard"),
}


def changed_techniques(before: Variant, after: Variant) -> list[str]:
    """Return the names of the techniques in which two variants differ."""
    return [name for name, keys in TECHNIQUES.items() if any(getattr(before, key) != getattr(after, key) for key in keys)]


class Measurement(Model):
    """What runs, how often, in which blocks."""

    variants: list[Name] = Field(min_length=1, description="The sides, the one they are compared with first")
    pairs: list[tuple[Name, Name]] = Field(
        [], description="Sides to compare besides the first with each of the others: [numerator, denominator]"
    )
    ladder: list[Name] = Field([], description="Variants to measure besides, each one technique further than the one before")
    control: bool = Field(
        False, description="The first variant once more in every timed round: what it differs from itself is the noise floor"
    )
    blocks: Positive = Field(1, description="Jobs; ratios are formed inside each and merged over all")
    repeats: Natural = Field(5, description="Timed runs of each variant in a block, each a fresh process")
    profiled: Natural = Field(1, description="Profiled runs of each variant in a block")
    documented: Natural = Field(
        0, description="Runs profiled as the documented numbers were: with autograd's own NVTX ranges (`emit_nvtx`)"
    )
    epochs: Positive | None = Field(None, description="Epochs of every run; null: what the variant says")
    validate_every: Positive | None = Field(None, description="Epochs from one validation to the next; null: as the variant")
    checkpoint_every: Positive | None = Field(
        None,
        description="Epochs from one checkpoint of a timed run to the next, from which one that was killed goes on; null: "
        "none, it starts again",
    )
    seed: Natural = Field(0, description="Seed of the first repeat; the next ones count up. Also decides the order")
    device: Literal["auto", "cuda", "cpu"] = Field("auto", description="auto: a GPU where one is visible")
    quality: Quality = Quality()

    @model_validator(mode="after")
    def _something_runs(self) -> "Measurement":
        if not self.repeats + self.profiled + self.documented:
            raise ValueError("nothing would run: set `repeats`, `profiled` or `documented` above 0")
        return self

    @model_validator(mode="after")
    def _pairs_are_of_sides(self) -> "Measurement":
        for name in (name for pair in self.pairs for name in pair):
            if name not in self.variants:
                raise ValueError(f"pairs: `{name}` is not one of `variants`: {', '.join(self.variants)}")
        return self

    def sides(self) -> list[str]:
        """Return all variants that run in a round, each once: the sides, then what the ladder adds."""
        return list(dict.fromkeys([*self.variants, *self.ladder]))


class Profiling(Model):
    """How profiled runs are traced."""

    backend: Literal["auto", "nsys", "kineto"] = Field(
        "auto", description="auto: nsys where it is on PATH and works, else kineto"
    )
    nsys: str = Field("nsys", description="The nsys program")
    trace: list[Literal["cuda", "nvtx", "osrt", "cudnn", "cublas"]] = Field(
        ["cuda", "nvtx"], description="What nsys traces; osrt makes reports of gigabytes where many threads start"
    )
    gpu_samples_per_s: Positive = Field(10, description="NVML samples a second in gpu.csv, in every run")


class Container(Model):
    """The image that jobs run in with `--use-singularity`; without that switch it is not used."""

    image: ImageAddress | None = Field(None, description="A .sif file or a registry address; null: built from containers/")
    base: ImageAddress = Field(
        "nvcr.io/nvidia/pytorch:25.12-py3", description="What is built upon: an address with its tag or digest, or a .sif file"
    )
    folder: ImageAddress = Field("container", description="Where a built or fetched image is kept")
    scratch: str | None = Field(None, description="Local disk to build on; null: $TMPDIR, else the system's")
    scratch_gib: Natural = Field(60, description="Free space that a build needs there")


class JobResources(Model):
    """What a job asks Slurm for."""

    gpus: Natural = Field(0, description="GPUs of the node")
    gpu_model: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]+$")] | None = Field(
        None, description="The cluster's name for the GPU; null: any"
    )
    cores: Positive = Field(1, description="Processor cores")
    memory_mib: Positive = Field(4096, description="Main memory")
    runtime_min: Positive = Field(30, description="Time limit")


class Resources(Model):
    """What each kind of job asks Slurm for; without Slurm, a block takes all cores. Variants on several GPUs raise `gpus`."""

    block: JobResources = JobResources(gpus=1, cores=16, memory_mib=65536, runtime_min=240)
    analysis: JobResources = JobResources(cores=2, memory_mib=16384, runtime_min=60)
    scratch: str | None = Field(
        None,
        description="Folder on a block's own disk, or a variable of its job as `$TMPDIR`: volumes are copied there first, and "
        "profiles written there; null: neither",
    )

    @field_validator("scratch")
    @classmethod
    def _scratch_names_variables_at_most(cls, value: str | None) -> str | None:
        if value is not None and not (value and Template(value).is_valid()):
            raise ValueError("must be a folder's path; a `$` begins the name of a variable, as in $TMPDIR/mine")
        return value

    def doctor(self) -> JobResources:
        """Return a short job on the GPU that blocks ask for."""
        return self.block.model_copy(update={"runtime_min": min(10, self.block.runtime_min)})


class Config(Model):
    """The whole configuration."""

    case: Literal["spleen"] = Field("spleen", description="The workload")
    results: str = Field("results", description="Where everything that is made goes, relative to the working folder")
    data: Data = Data()
    workload: Workload = Workload()
    variants: dict[Name, Variant] = Field(description="Ways to train, by name")
    measurement: Measurement
    profiling: Profiling = Profiling()
    container: Container = Container()
    resources: Resources = Resources()

    @field_validator("results")
    @classmethod
    def _results_is_a_folder_of_ours(cls, value: str) -> str:
        if not value or Path(value) == Path() or ".." in Path(value).parts:
            raise ValueError("must name a folder below the working folder")
        return value

    @model_validator(mode="before")
    @classmethod
    def _complete_variants(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("variants"), dict):
            return {**values, "variants": complete_variants(values["variants"])}
        return values

    @model_validator(mode="after")
    def _measured_variants_exist(self) -> "Config":
        for key in ("variants", "ladder"):
            for name in getattr(self.measurement, key):
                if name not in self.variants:
                    known = ", ".join(sorted(self.variants))
                    raise ValueError(f"measurement.{key}: unknown variant `{name}`; known are {known}")
        return self

    @model_validator(mode="after")
    def _kernels_halve_every_side(self) -> "Config":
        for name in self.measurement.sides():
            variant = self.variants[name]
            halvings = len(variant.network.channels) - 1
            for key in ("patch_size", "window_size"):
                if variant.kernels and any(side % 2**halvings for side in getattr(self.workload, key)):
                    raise ValueError(
                        f"workload.{key}: the network of `{name}` halves each side {halvings} times, which its `kernels` take "
                        f"for granted; set sides that are multiples of {2**halvings}"
                    )
        return self

    @model_validator(mode="after")
    def _checkpoints_hold_all_that_decides(self) -> "Config":
        smart = [name for name in self.measurement.sides() if self.variants[name].cache == "smart"]
        if self.measurement.checkpoint_every and smart:
            raise ValueError(
                f"measurement.checkpoint_every: `{smart[0]}` exchanges volumes of its cache every epoch, which no checkpoint "
                "holds; set it to null"
            )
        return self

    @model_validator(mode="after")
    def _ladder_climbs_by_single_techniques(self) -> "Config":
        for before, after in pairwise(self.measurement.ladder):
            changed = changed_techniques(self.variants[before], self.variants[after])
            if len(changed) != 1:
                what = " and ".join(changed) or "nothing"
                raise ValueError(
                    f"measurement.ladder: `{after}` changes {what} against `{before}`; each step changes one technique"
                )
        return self

    def epochs_of(self, variant: str) -> int:
        """Return how many epochs a run of `variant` takes."""
        return self.measurement.epochs or self.variants[variant].epochs

    def validate_every_of(self, variant: str) -> int:
        """Return how many epochs lie between two validations of `variant`."""
        return self.measurement.validate_every or self.variants[variant].validate_every

    def prepared_folders(self) -> dict[str, Path]:
        """Return the folder of each measured variant that has a `prepared_folder`; a relative one is below the working one."""
        folders = {name: self.variants[name].prepared_folder for name in self.measurement.sides()}
        return {name: Path(folder) for name, folder in folders.items() if folder is not None}

    def block_resources(self) -> JobResources:
        """Return what a block asks Slurm for: the GPUs of its widest variant, where it asks for any."""
        asked = self.resources.block
        widest = max(self.variants[name].gpus for name in self.measurement.sides())
        return asked.model_copy(update={"gpus": max(asked.gpus, widest)}) if asked.gpus else asked

    def block_nodes(self) -> int:
        """Return on how many nodes a block runs: as many as its widest variant."""
        return max(self.variants[name].nodes for name in self.measurement.sides())

    def blocks(self) -> list[str]:
        """Return the blocks' names."""
        return [f"block-{number}" for number in range(1, self.measurement.blocks + 1)]
