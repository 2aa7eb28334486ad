"""`summary.json`: where the time of one trace went. Tables of the same content lie beside it as CSV."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from speedproof.results.files import read_record

SUMMARY_FILE = "summary.json"

# A first epoch pays for cuDNN's set-up, lazy loading of kernels and the allocator's growth. It is left out of what epochs
# have in common as soon as two others remain.
WARM_UP_NEEDS_EPOCHS = 3

EpochPart = Literal["training", "validation", "outside"]
IterationUnit = Literal["epoch", "step", "iteration", "stretch"]
PathClass = Literal["host", "loader", "device", "copy", "communication"]
MetricRole = Literal["sm_active", "tensor_active", "dram_read", "dram_write"]
Kind = Literal["gpu", "idle", "cpu", "residual"]


def name_one(unit: IterationUnit) -> str:
    """Return the word with its article: an epoch, a step."""
    return f"{'an' if unit in ('epoch', 'iteration') else 'a'} {unit}"


def name_several(unit: IterationUnit) -> str:
    """Return the word for several: epochs, stretches."""
    return "stretches" if unit == "stretch" else f"{unit}s"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Process(_Row):
    """One process of the trace. One of them is summarised: its loop, and the GPUs that it used."""

    process: int = Field(
        description="The trace's own small number for it, in order of appearance, not the system's; -1: unknown"
    )
    summarized: bool = Field(description="Whether epochs, phases, idle gaps and the rest are this process'")
    devices: list[int] = Field(description="Numbers of the GPUs that it used")
    gpu_busy_s: float = Field(description="Sum over its GPUs of the union of its kernels and copies, in the whole trace")
    gpu_share: float = Field(description="Of all processes' gpu_busy_s, 0 to 1")


class Found(_Row):
    """What the iterations are, which the rest calls epochs, and how they were found."""

    unit: IterationUnit = Field(description="The word for one of them; stretch: the whole trace, in which nothing repeats")
    by: Literal["ranges", "repetition", "choice", "nothing"] = Field(
        description="Told from ranges, from kernels that repeat; choice: the user took the whole; nothing repeats"
    )
    name: str = Field(description="Of their ranges; numbers in it read #")
    coverage: float = Field(
        description="Share of the time from the first range to the last that ranges cover; below 0.9 an iteration lasts "
        "from the start of one to that of the next"
    )
    left_out: int = Field(description="How many were seen and do not count: no end, far too long, or recorded in part")

    @property
    def one(self) -> str:
        """Return the word for one of them, with its article."""
        return name_one(self.unit)

    @property
    def plural(self) -> str:
        """Return the word for several of them."""
        return name_several(self.unit)


class Candidate(_Row):
    """Ranges of the loop's thread that repeat: what --epoch could choose."""

    name: str = Field(description="Numbers in it read #")
    count: int = Field(description="How many, one after the other")
    mean_s: float = Field(description="How long one lasts")
    coverage: float = Field(description="Share of the time from the first to the last that they cover")


class Epoch(_Row):
    """One epoch, or whatever the iterations are: cut into its training and its validation part."""

    index: int = Field(description="Counts from 1")
    start_ns: int = Field(description="On the trace's clock, whose zero is the trace's first event")
    end_ns: int = Field(description="On the same clock")
    duration_s: float = Field(description="end_ns - start_ns")
    training_s: float = Field(description="From the epoch's start to where its first validation phase begins")
    validates: bool = Field(description="Whether it has a validation part")
    kernel_busy_fraction: float = Field(description="Share of the epoch in which at least one kernel ran")
    gpu_busy_fraction: float = Field(description="Share of the epoch in which a kernel ran or memory was copied")


class Phase(_Row):
    """All calls of one phase in one part of the epochs."""

    name: str = Field(description="Of its ranges; numbers in the names of a program that is not ours read #")
    part: EpochPart = Field(description="Where its calls began; outside: in no epoch")
    calls: int = Field(description="How many ranges of the name there are, on all threads of the process")
    wall_s: float = Field(description="Sum of the calls' durations on the CPU")
    gpu_busy_s: float = Field(description="Union of the kernels and copies that the phase caused")
    kernel_busy_s: float = Field(description="Union of its kernels alone")
    copy_busy_s: float = Field(description="Union of its copies and fills alone")
    projected_s: float = Field(description="Sum over calls of: first start to last end of what the call caused on the GPU")
    method: Literal["own_thread", "main_thread_window", "both", "none"] = Field(
        description="How the GPU's work was attributed: by the launching thread's phase, by the main thread's at that moment"
    )


class IdleGap(_Row):
    """All parts of the epochs' stretches without a running kernel that share cause and detail."""

    cause: str = Field(description="One of those that docs/analysis.md explains")
    detail: str = Field(description="The transform, the call, the phase that the cause names; empty where none does")
    count: int = Field(description="In how many stretches")
    total_s: float = Field(description="Their length, in all epochs")
    seconds_per_epoch: float = Field(description="Their length in the epochs that count, divided by these (steady_epochs)")
    coverage: float = Field(description="Share of it for which there is evidence: 1, and 0 of what is unexplained")


class Kernel(_Row):
    """All calls of one kernel."""

    group: str = Field(description="Readable, derived from the name")
    name: str = Field(description="As the profiler gives it")
    calls: int = Field(description="In the whole trace")
    total_s: float = Field(description="Sum of its calls' durations, in the whole trace")
    seconds_per_epoch: float = Field(
        description="Sum of the durations of calls that began in the epochs that count, divided by these (steady_epochs)"
    )
    tensor_cores: bool | None = Field(description="Whether the name tells of tensor cores; null where it tells nothing")
    launch_s: float | None = Field(
        None, description="Sum of the durations of the calls that launched it; null where none is in the trace"
    )


class Stream(_Row):
    """What one stream of one GPU did in one epoch; `stream` null: the whole GPU."""

    epoch: int = Field(description="The epoch's index")
    device: int = Field(description="The GPU's number")
    stream: int | None = Field(description="The stream's number, null for all of them together")
    kernel_busy_s: float = Field(description="Union of the kernels")
    copy_busy_s: float = Field(description="Union of the copies and fills")
    overlap_s: float = Field(description="Time in which kernels ran and memory was copied at once")
    gpu_busy_s: float = Field(description="Kernels or copies: kernel_busy_s + copy_busy_s - overlap_s")


class Transform(_Row):
    """All calls of one transform, in every thread and process, before the epochs too. They nest: they do not add up."""

    name: str = Field(description="Its class, without the number that a second transform of that class has")
    calls: int = Field(description="In the whole trace")
    wall_s: float = Field(description="Sum of the calls' durations")
    in_epochs_s: float = Field(description="Of wall_s: calls that began in an epoch, not where a cache was filled")
    on_main_thread_s: float = Field(description="Of wall_s: on the loop's own thread, so that the loop waited for it")


class Share(_Row):
    """One term of the account of the epochs' time: each nanosecond of an epoch belongs to exactly one.

    While kernels run, a nanosecond belongs to the phase that caused the kernel; of several at once, the one that started
    first. While communication alone runs, it is exposed communication. While none runs, it belongs to the cause of the idle
    gap. Other kernels of no phase and idle gaps without a cause are the residual; in a loop without phases kernels count by
    their groups. In a trace without a GPU a nanosecond belongs to the phase of the main thread; outside of all, to the
    residual.
    """

    epoch: int = Field(description="The epoch's index")
    part: EpochPart = Field(description="Of the epoch")
    kind: Kind = Field(description="What sort of term this is")
    name: str = Field(
        description="The phase, kernels' group or exposed communication (gpu), the phase (cpu), the cause (idle), or what "
        "is not known (residual)"
    )
    total_ns: int = Field(description="How much of the epoch")


class Gap(_Row):
    """One of the longest stretches of an epoch in which no kernel runs on any GPU of the process; copies may."""

    epoch: int = Field(description="The epoch's index")
    part: EpochPart = Field(description="Of the epoch")
    start_s: float = Field(description="When it begins, on the clock that the profiler's own window shows (zero_ns)")
    duration_s: float = Field(description="How long it lasts")
    cause: str = Field(description="That which fills most of it")
    detail: str = Field(description="That which fills most of it with its cause")
    share: float = Field(description="Share of it that this cause and detail fill, 0 to 1")
    before: str = Field(description="The kernel that ended last before it; empty where none did")
    after: str = Field(description="The kernel that started first after it; empty where none did")


class SlowEpoch(_Row):
    """One of the epochs that take longer than is typical: the median of those that count and, as it does, validate or not."""

    epoch: int = Field(description="The epoch's index")
    start_s: float = Field(description="When it begins, on the clock that the profiler's own window shows (zero_ns)")
    duration_s: float = Field(description="How long it lasts")
    longer_s: float = Field(description="How much longer than the median that is")
    kind: Kind = Field(description="What sort of term of its account is longer than that term's median by most")
    part: EpochPart = Field(description="Of the epoch, in which that term lies")
    name: str = Field(description="That term's name")
    term_longer_s: float = Field(description="How much longer than its median that term is; others may be shorter")


class CriticalPath(_Row):
    """What the critical path of one epoch consists of; the classes add up to the epoch (docs/analysis.md)."""

    epoch: int = Field(description="The epoch's index")
    largest: PathClass = Field(description="The class that takes most of it")
    host_s: float = Field(description="The host computes or launches, and the GPU waits for it")
    loader_s: float = Field(description="The same, while the main thread loads or transforms data")
    device_s: float = Field(description="Kernels run one after the other, and the host waits for them or is ahead")
    copy_s: float = Field(description="The same, while memory is copied and no kernel runs")
    communication_s: float = Field(description="The same, while communication alone runs")


class ClockSkew(_Row):
    """Work of the GPU that begins before its own launch: the clocks of host and GPU differ by at least that."""

    events: int = Field(description="How many kernels and copies; the critical path takes each to begin with its launch")
    most_s: float = Field(description="The longest time by which one of them precedes its launch")


class Launches(_Row):
    """How the kernels that the loop launched in the epochs that count reached the GPU."""

    calls: int = Field(description="How many calls launched them")
    call_s: float = Field(description="What a call takes on the CPU, median")
    delay_s: float = Field(description="From the call's return to its kernel's start, median; 0 where it had started before")
    delay_p99_s: float = Field(description="The same, 99th percentile")
    short_fraction: float = Field(description="Share of the kernels that are shorter than the call that launched them")
    queue_mean: float = Field(description="How many launched kernels wait for their start, mean over time")
    queue_most: int = Field(description="The most that wait at one moment, in the whole trace")


class Communication(_Row):
    """Communication among GPUs in a mean epoch. What is hidden costs no time; what is exposed is a term of the account."""

    seconds_per_epoch: float = Field(description="Union of the communication kernels")
    exposed_s: float = Field(description="Of it: while no other kernel runs on any of the process' GPUs")

    @property
    def hidden_s(self) -> float:
        """Return how much of it runs beside other kernels."""
        return self.seconds_per_epoch - self.exposed_s


class SampledMetric(_Row):
    """A counter of one GPU, sampled while the iterations that count ran; each sample is of the time since the one before."""

    device: int = Field(description="The GPU's number")
    role: MetricRole | None = Field(description="What it says on any GPU, derived from the name; null: something else")
    name: str = Field(description="As the profiler gives it, without the unit")
    unit: str = Field(description="As the profiler gives it; `Throughput %`: percent of what the GPU can do at its clock")
    mean: float = Field(description="Over the samples")
    samples: int = Field(description="How many")
    epochs: int = Field(description="In how many epochs that count; those with fewer than 10 samples are left out")
    samples_per_s: float = Field(description="How often it was sampled")


class Memory(_Row):
    """Memory of one kind that the summarised process has in use on one GPU: what CUDA gave it and has not got back.

    A framework that keeps freed memory for later, as PyTorch does, has that in use, too.
    """

    device: int = Field(description="The GPU's number")
    kind: str = Field(description="device, managed (on the GPU or the host), or the host's: pinned, pageable; or unknown")
    peak_bytes: int = Field(description="The most, in the epochs that count")
    mean_bytes: float = Field(description="Mean by time, over the epochs that count")
    trace_peak_bytes: int = Field(description="The most, in the whole trace")
    unmatched_frees: int = Field(description="Frees of what was allocated before the recording, which counts as nothing")


class SampledFunction(_Row):
    """A function in which the loop's thread was sampled on the CPU during unknown host time of the epochs that count."""

    name: str = Field(
        description="The innermost on the stack whose name is known, else the library: `in libtorch_cpu.so`; of Python, "
        "the function and its file: `collate (loader.py)`"
    )
    samples: int = Field(description="How many found the thread there")
    share: float = Field(description="Of all samples in unknown host time, 0 to 1")


class Unattributed(_Row):
    """GPU busy time of the epochs that no phase claims, and why."""

    reason: str = Field(description="What is missing to tell its phase")
    fraction: float = Field(description="Share of the epochs' GPU busy time; all reasons' sum is unattributed_fraction")


class Advice(_Row):
    """What could be gained, and how much at most."""

    rule: str = Field(description="What was found, in a word")
    text: str = Field(description="What to do about it")
    seconds_per_epoch: float = Field(
        description="Upper bound: what it would save if it saved all it could, over the epochs that count (steady_epochs)"
    )


# Keys that stand in the file only where they hold something, so that a trace without them keeps its summary's digest.
_WHERE_RECORDED = frozenset({"gpu_overhang_s", "clock_skew", "metrics", "memory", "sampled_functions", "sampled_python"})

# What a summary of an earlier form is of: our own loop's epochs.
FOUND_EPOCHS = Found(unit="epoch", by="ranges", name="epoch", coverage=1.0, left_out=0)


class Summary(_Row):
    """`summary.json`."""

    schema_version: Literal[3] = Field(3, description="Of this file's form")
    profiler: Literal["nsys", "kineto"] = Field(description="Which recorded the trace")
    profiler_version: str = Field(description="Of nsys, or of torch")
    has_gpu: bool = Field(description="Whether the summarised process used a GPU, and enough of that was recorded")
    devices: list[str] = Field(description="Names of the GPUs that it used")
    processes: list[Process] = Field(description="Those that used a GPU or had ranges, in the order of their numbers")
    found: Found = Field(FOUND_EPOCHS, description="What the epochs are, and how they were found")
    recorded: bool = Field(True, description="Whether enough of the GPU's work is in the trace to speak of it")
    candidates: list[Candidate] = Field([], description="What else could be one, the longest in all first")
    epochs: list[Epoch] = Field(description="In order; a trace without epochs counts as one")
    phases: list[Phase] = Field(description="In order of first appearance")
    idle_gaps: list[IdleGap] = Field(description="The largest first")
    kernels: list[Kernel] = Field(description="Of the whole trace, all processes; the costliest first")
    streams: list[Stream] = Field(description="GPU busy time by epoch, device and stream")
    transforms: list[Transform] = Field(description="The longest first")
    account: list[Share] = Field(description="The terms into which each epoch falls, the largest first; they add up to it")
    zero_ns: int | None = Field(
        None, description="What the trace's zero is on the clock that the profiler's own window shows; null: that is unknown"
    )
    gaps: list[Gap] = Field([], description="The longest stretches without a kernel, the longest first")
    slowest: list[SlowEpoch] = Field([], description="Those that exceed their median by most, at least three being of a kind")
    critical_paths: list[CriticalPath] = Field([], description="Of each epoch; none where there is no GPU")
    clock_skew: ClockSkew | None = Field(None, description="Of work that begins before its launch; absent where none does")
    launches: Launches | None = Field(None, description="Of the loop's kernels; null where no launch is in the trace")
    communication: Communication | None = Field(None, description="Hidden and exposed; null where there is none")
    gpu_overhang_s: list[float] = Field(
        [],
        description="How long the GPU works on what was launched before, after each line or mark that ends an epoch; "
        "absent if none came while the trace was recorded",
    )
    metrics: list[SampledMetric] = Field(
        [], description="Of sampled GPUs that the process used; absent where nothing sampled them"
    )
    memory: list[Memory] = Field([], description="By GPU and kind; absent where allocations were not recorded")
    sampled_functions: list[SampledFunction] = Field(
        [], description="What ran in unknown host time, the most frequent first; absent where no sample lies in it"
    )
    sampled_python: list[SampledFunction] = Field([], description="The same of Python's functions, where Python was sampled")
    unattributed_fraction: float = Field(description="Share of the epochs' GPU busy time that no phase claims")
    unattributed: list[Unattributed] = Field(description="The same by reason, the largest first")
    ideal_epoch_s: float | None = Field(description="A training epoch with all idle gaps gone: its GPU busy time, mean")
    overlapped_epoch_s: float | None = Field(description="max(GPU busy, data time) of a training epoch, mean")
    advice: list[Advice] = Field(description="What would save most first; rules overlap, so their seconds do not add up")
    warnings: list[str] = Field(description="What a reader must know before trusting the numbers")
    seal: str | None = Field(None, description="Digest of all other fields; versions before have none")

    @model_serializer(mode="wrap")
    def _leave_out_what_was_not_recorded(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if value or name not in _WHERE_RECORDED}

    @property
    def validates(self) -> bool:
        """Return whether an epoch has a validation part."""
        return any(epoch.validates for epoch in self.epochs)

    @property
    def validation_share(self) -> float:
        """Return the share of epochs that validate, 1 / `validate_every`, over those that the metric `epoch_s` counts.

        These are whole intervals, each of which ends with an epoch that validates, without the first where others remain.
        """
        ends = [number for number, epoch in enumerate(self.epochs, start=1) if epoch.validates]
        first = ends[0] if len(ends) > 1 and self.epochs[0].index == 1 else 0
        return (len(ends) - (first > 0)) / (ends[-1] - first) if ends else 0.0

    @property
    def steady_epochs(self) -> list[Epoch]:
        """Return the epochs without the one that warms up, where there are enough of them."""
        return self.epochs[count_warm_up(len(self.epochs)) :]


def count_warm_up(epochs: int) -> int:
    """Return how many of so many epochs warm up, and so do not count."""
    return 1 if epochs >= WARM_UP_NEEDS_EPOCHS else 0


def read_summary(folder: Path) -> Summary:
    """Read a trace's `summary.json`."""
    return read_record(folder / SUMMARY_FILE, Summary)
