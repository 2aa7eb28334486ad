"""A way to train: each key is one technique."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from speedproof.api import Epochs, Folder, Model, Natural, Number, Positive
from speedproof_spleen.extends import allow_extending

Beta = Annotated[Number, Field(ge=0, lt=1)]
Rate = Annotated[Number, Field(gt=0, le=1e6)]
Workers = Annotated[Natural, Field(le=1024)]
Betas = Annotated[tuple[Beta, Beta], Field(description="Shares of the running means of gradient and square that a step keeps")]
Fused = Annotated[
    bool, Field(description="One kernel for all parameters, which also reads gradient scaler and learning rate on the device")
]


class DiceLoss(Model):
    """The Dice loss alone."""

    name: Literal["dice"] = "dice"


class DiceCELoss(Model):
    """Dice and cross entropy, added."""

    name: Literal["dice_ce"] = "dice_ce"
    include_background: bool = Field(True, description="Whether the Dice part counts the background class")
    smooth: Number = Field(1e-5, gt=0, description="Added to reference and candidate of the Dice part")
    weight: Number = Field(1.0, gt=0, description="Weight of either part")


class Adam(Model):
    """Adam without weight decay."""

    name: Literal["adam"] = "adam"
    learning_rate: Rate
    betas: Betas = (0.9, 0.999)
    fused: Fused = False


class AdamW(Model):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"] = "adamw"
    learning_rate: Rate
    betas: Betas = (0.9, 0.999)
    weight_decay: Number = Field(0.01, ge=0)
    fused: Fused = False


class Novograd(Model):
    """MONAI's Novograd."""

    name: Literal["novograd"] = "novograd"
    learning_rate: Rate


class Sgd(Model):
    """Stochastic gradient descent with momentum."""

    name: Literal["sgd"] = "sgd"
    learning_rate: Rate
    momentum: Number = Field(0.0, ge=0, lt=1)
    weight_decay: Number = Field(0.0, ge=0)
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
    warm_up_epochs: Natural = Field(
        le=100_000, description="Epochs over which it rises, step by step; 0: it begins at the full rate"
    )
    shape: Literal["cosine", "linear"] = Field("cosine", description="How it falls: along half a cosine, or a line")
    final: Number = Field(0.0, ge=0, le=1, description="What it falls to, as a share of the full rate")


class Network(Model):
    """MONAI's UNet with two residual units a level, batch norm and PReLU."""

    channels: tuple[Annotated[Positive, Field(le=65536)], ...] = Field(
        (16, 32, 64, 128, 256), min_length=2, max_length=10, description="Channels of each level, strides of 2 between"
    )
    dropout: Number = Field(0.0, ge=0, lt=1)


class SpleenVariant(Model):
    """One way to train a case: a named set of techniques, each one switch."""

    model_config = ConfigDict(json_schema_extra=allow_extending)

    title: str = Field(min_length=1, max_length=100, description="How figures and tables call it")
    cache: Literal["none", "ram", "gpu", "persistent", "lmdb", "smart", "resident"] = Field(
        "none",
        description="Where the deterministic transforms' results are kept; persistent: files, lmdb: a database, both new for "
        "each run; smart: a share in RAM, part of which is exchanged every epoch; resident: half-precision tensors on the "
        "device, preprocessed there, from which each batch of patches is gathered in one operation",
    )
    prepared_folder: Folder | None = Field(
        None,
        description="resident: a folder where preprocessed volumes are kept from run to run, by checksum; null: each run "
        "makes its own. An experiment fills it before its first run, so that each run of the variant starts from all of them",
    )
    cache_rate: Number = Field(1.0, gt=0, le=1, description="smart: share of the volumes that are cached, and seen in an epoch")
    replace_rate: Number = Field(0.1, gt=0, le=1, description="smart: share of the cached volumes that an epoch exchanges")
    cache_workers: Positive = Field(8, le=1024, description="Threads that fill the training cache")
    validation_cache_workers: Positive = Field(8, le=1024, description="Threads that fill the validation cache")
    copy_cache: bool = Field(True, description="Whether a cached volume is copied each time it is read")
    track_meta: bool = Field(True, description="Whether MONAI carries metadata along with tensors on the GPU")
    index_transform: bool = Field(
        False,
        description="Foreground and background voxels listed by a transform of the chain, so that a cache keeps them",
    )
    loader: Literal["process", "thread"] = Field("process", description="DataLoader, or MONAI's ThreadDataLoader")
    workers: Workers = Field(0, description="Worker processes of the training loader")
    validation_workers: Workers = Field(0, description="Worker processes of the validation loader")
    persistent_workers: bool = Field(
        False, description="Worker processes live from epoch to epoch, and are not started for each"
    )
    prefetch_factor: Annotated[Positive, Field(le=1024)] | None = Field(
        None, description="Batches that each worker process prepares ahead; null: torch's own number, two"
    )
    pin_memory: bool = Field(
        False,
        description="Batches lie in pinned memory and go to the GPU beside what it computes; nothing changes without a GPU, "
        "and where volumes are there already (`cache: gpu` or `resident`)",
    )
    batch_size: Positive = Field(le=10_000, description="Volumes a step; each gives `patches_per_volume` patches")
    network: Network = Network()
    loss: DiceLoss | DiceCELoss = Field(DiceLoss(), discriminator="name")
    optimizer: Adam | AdamW | Novograd | Sgd = Field(discriminator="name")
    schedule: ConstantRate | WarmUpDecay = Field(ConstantRate(), discriminator="name")
    precision: Literal["fp32", "fp16", "bf16"] = Field(
        "fp32",
        description="fp16: autocast with a gradient scaler; bf16: autocast, whose range needs none. Without a GPU: fp32",
    )
    memory_format: Literal["contiguous", "channels_last"] = Field(
        "contiguous", description="channels_last: a voxel's channels side by side in memory, as tensor cores read them"
    )
    cudnn: Literal["deterministic", "heuristic", "autotune"] = Field(
        "deterministic",
        description="deterministic: reproducible kernels; heuristic: those the library expects to be fastest, reproducible or "
        "not; autotune: the fastest, found by trying each convolution for seconds",
    )
    kernels: list[Literal["norm", "convolutions", "loss", "crops", "adam"]] = Field(
        [],
        description="Our own GPU kernels in place of the library's: batch norm with PReLU and residual in one; convolutions of "
        "few channels (with norm); Dice and cross entropy in one; a batch's patches out of resident volumes in one; Adam in "
        "one, which also writes half-precision copies of the weights for the next step. Without a GPU: the same by torch",
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
    window_batch: Annotated[Positive, Field(le=10_000)] | None = Field(
        None, description="Windows in one forward pass; null: as the workload says"
    )
    step_log: bool | Literal["printed"] = Field(
        False,
        description="printed: two reads of the loss and a printed line a step, as MONAI's notebooks do; true: a TensorBoard "
        "write, too, as the profiling pair does; false: the loss is read once an epoch",
    )
    range_style: Literal["push_pop", "start_end"] = Field("push_pop", description="How phases are marked in a trace")
    gpus: Positive = Field(
        1,
        le=1024,
        description="Processes, a GPU of the node each (without GPUs: gloo on the processor), whose gradients are averaged",
    )
    nodes: Positive = Field(
        1, le=10_000, description="Nodes of the cluster, each with `gpus` of them; more than one needs Slurm"
    )
    shard: bool = Field(
        True,
        description="Several GPUs: each trains on its share of the cases, so that an epoch is every case once; false: each "
        "on all cases with crops of its own, the same work a GPU as one alone",
    )
    overlap: Number = Field(
        0.0,
        ge=0,
        lt=1,
        description="Several GPUs with `kernels` or `launch: graphs`: gradients whose mean over the GPUs is taken while the "
        "backward pass goes on, as a share of their bytes, the first that come; the others' is taken behind it",
    )
    epochs: Epochs = Field(description="Epochs, unless `measurement.epochs` says otherwise")
    validate_every: Epochs = Field(description="Epochs from one validation to the next")

    @model_validator(mode="after")
    def _check_combinations(self) -> "SpleenVariant":
        self._check_caches()
        if (self.persistent_workers or self.prefetch_factor is not None) and not self.workers:
            raise ValueError("`persistent_workers` and `prefetch_factor` go with `workers` above 0")
        self._check_kernels()
        self._check_graphs_and_optimizer()
        if self.cache != "smart" and self.cache_rate != 1:
            raise ValueError("`cache_rate` goes with `cache: smart`")
        if self.cache == "smart" and (self.cache_rate == 1 or self.loader == "thread" or self.workers):
            raise ValueError("`cache: smart` needs a `cache_rate` below 1, `loader: process` and `workers: 0`")
        if self.ranks == 1 and not self.shard:
            raise ValueError("`shard: false` goes with `gpus` above 1")
        if self.overlap and not self.averages_itself:
            raise ValueError("`overlap` goes with `gpus` above 1, and `kernels` or `launch: graphs`")
        return self

    def _check_caches(self) -> None:
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

    def _check_kernels(self) -> None:
        if "crops" in self.kernels and self.cache != "resident":
            raise ValueError("`kernels`: crops are those of resident volumes: set `cache: resident`, or leave out `crops`")
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

    def _check_graphs_and_optimizer(self) -> None:
        if self.launch == "graphs" and (self.step_log or self.cache != "resident"):
            raise ValueError("`launch: graphs` needs `cache: resident` and `step_log: false`")
        if self.launch == "graphs" and not getattr(self.optimizer, "fused", False):
            raise ValueError("`launch: graphs` needs an optimizer with `fused: true`, whose state is on the GPU")
        if "adam" in self.kernels and not (isinstance(self.optimizer, Adam) and self.optimizer.fused):
            raise ValueError("`kernels`: the optimizer's kernel is that of `optimizer: {name: adam, fused: true}`")
        if "adam" in self.kernels and self.precision == "fp32":
            raise ValueError("`kernels`: adam needs `precision: fp16` or `bf16`")

    @property
    def copies_batches(self) -> bool:
        """Return whether batches come from the host's memory."""
        return self.cache not in ("gpu", "resident")

    @property
    def averages_itself(self) -> bool:
        """Return whether a step averages the gradients over the ranks itself, in place of DistributedDataParallel."""
        return self.ranks > 1 and (bool(self.kernels) or self.launch == "graphs")

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
    "loader workers": ("workers", "validation_workers", "persistent_workers", "prefetch_factor"),
    "pinned memory": ("pin_memory",),
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
    "GPUs": ("gpus", "nodes", "shard", "overlap"),
}
