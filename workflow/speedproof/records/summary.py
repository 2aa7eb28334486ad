"""`summary.json`: where the time of one trace went. Tables of the same content lie beside it as CSV."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.records.files import read_record

SUMMARY_FILE = "summary.json"

# A first epoch pays for cuDNN's set-up, lazy loading of kernels and the allocator's growth. It is left out of what epochs
# have in common as soon as two others remain.
WARM_UP_NEEDS_EPOCHS = 3

Part = Literal["training", "validation", "outside"]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Epoch(_Row):
    """One epoch: a range of that name, cut into its training and its validation part."""

    index: int
    start_ns: int
    end_ns: int
    duration_s: float
    training_s: float = Field(description="From the epoch's start to where its first validation phase begins")
    validates: bool
    kernel_busy_fraction: float = Field(description="Share of the epoch in which at least one kernel ran")
    gpu_busy_fraction: float = Field(description="Share of the epoch in which a kernel ran or memory was copied")


class Phase(_Row):
    """All calls of one phase in one part of the epochs."""

    name: str
    part: Part
    calls: int
    wall_s: float = Field(description="Sum of the calls' durations on the CPU")
    gpu_busy_s: float = Field(description="Union of the kernels and copies that the phase caused")
    kernel_busy_s: float
    copy_busy_s: float
    projected_s: float = Field(description="Sum over calls of: first start to last end of what the call caused on the GPU")
    method: Literal["own_thread", "main_thread_window", "both", "none"] = Field(description="How the GPU's work was attributed")


class Bubble(_Row):
    """All stretches of the epochs' time without a running kernel that share cause and detail."""

    cause: str
    detail: str = Field(description="The transform, the call, the phase that the cause names; empty where none does")
    count: int
    total_s: float
    coverage: float = Field(description="Share of the idle time that the cause's own evidence covers, 0 to 1")


class Kernel(_Row):
    """All calls of one kernel."""

    group: str
    name: str
    calls: int
    total_s: float
    tensor_cores: bool | None = Field(description="Whether the name tells of tensor cores; null where it tells nothing")


class Stream(_Row):
    """What one stream of one GPU did inside the epochs; `stream` null: the whole GPU."""

    device: int
    stream: int | None
    kernel_busy_s: float
    copy_busy_s: float
    overlap_s: float = Field(description="Time in which kernels ran and memory was copied at once")
    gpu_busy_s: float = Field(description="Kernels or copies: kernel_busy_s + copy_busy_s - overlap_s")


class Transform(_Row):
    """All calls of one transform, in every thread and process, before the epochs too. They nest: they do not add up."""

    name: str
    calls: int
    wall_s: float
    in_epochs_s: float = Field(description="Of wall_s: calls that began in an epoch, not where a cache was filled")
    on_main_thread_s: float = Field(description="Of wall_s: on the loop's own thread, so that the loop waited for it")


class Share(_Row):
    """One term of the account of the epochs' time: each nanosecond of an epoch belongs to exactly one.

    While kernels run, a nanosecond belongs to the phase that caused the kernel; of several at once, the one that started
    first. While none runs, it belongs to the cause of the bubble. Kernels of no phase and bubbles without a cause are the
    residual. In a trace without a GPU a nanosecond belongs to the phase of the main thread; outside of all, to the residual.
    """

    epoch: int = Field(description="The epoch's index")
    part: Part
    kind: Literal["gpu", "idle", "cpu", "residual"]
    name: str = Field(description="The phase (gpu, cpu), the cause (idle), or what could not be told (residual)")
    total_ns: int


class Advice(_Row):
    """What could be gained, and how much at most."""

    rule: str
    text: str
    seconds_per_epoch: float = Field(description="Upper bound: what it would save if it saved all it could")


class Summary(_Row):
    """`summary.json`."""

    schema_version: Literal[1] = 1
    profiler: Literal["nsys", "kineto"]
    profiler_version: str
    has_gpu: bool
    devices: list[str]
    epochs: list[Epoch]
    phases: list[Phase]
    bubbles: list[Bubble]
    kernels: list[Kernel] = Field(description="Of the whole trace, all processes")
    streams: list[Stream] = []
    transforms: list[Transform] = []
    account: list[Share] = []
    unattributed_fraction: float = Field(description="Share of the epochs' GPU busy time that no phase claims")
    ideal_epoch_s: float | None = Field(description="A training epoch with all bubbles gone: its GPU busy time, median")
    overlapped_epoch_s: float | None = Field(description="max(GPU busy, data time) of a training epoch, median")
    advice: list[Advice]
    warnings: list[str]

    @property
    def steady_epochs(self) -> list[Epoch]:
        """Return the epochs without the one that warms up, where there are enough of them."""
        return self.epochs[1:] if len(self.epochs) >= WARM_UP_NEEDS_EPOCHS else self.epochs


def read_summary(folder: Path) -> Summary:
    """Read a trace's `summary.json`."""
    return read_record(folder / SUMMARY_FILE, Summary)
