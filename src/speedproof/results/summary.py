"""`summary.json`: where the time of one trace went. Tables of the same content lie beside it as CSV."""

from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from speedproof.results.files import read_record
from speedproof.results.names import ProfilerName

SUMMARY_FILE = "summary.json"

# A first epoch pays for cuDNN's set-up, lazy loading of kernels and the allocator's growth. It is left out of what epochs
# have in common as soon as two others remain.
WARM_UP_NEEDS_EPOCHS = 3

# An MFU of less than this share of the time in kernels that multiply would be far below the real one.
MFU_NEEDS_KNOWN = 0.5

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
    """A process of the trace. The summary describes one: its loop and GPUs."""

    process: int = Field(description="Number by order of appearance, not the system's; -1: unknown")
    summarized: bool = Field(description="Whether the summary describes it")
    devices: list[int] = Field(description="Numbers of the GPUs that it used")
    gpu_busy_s: float = Field(description="Time with a kernel or copy in the whole trace, summed over its GPUs")
    gpu_share: float = Field(description="Share of all processes' gpu_busy_s")


# Of :data:`speedproof.results.trace_tables.GpuTracing` what leaves open whether a GPU was used; and that CUDA was called.
GpuUntraced = Literal["off", "failed", "unseen", "unread", "unknown", "called"]


class Found(_Row):
    """What an iteration is, and how it was found."""

    unit: IterationUnit = Field(description="Word for an iteration; stretch: the whole trace")
    by: Literal["ranges", "repetition", "choice", "nothing"] = Field(
        description="ranges; repetition: of kernels; choice: --whole; nothing: nothing repeats"
    )
    name: str = Field(description="Name of its ranges, numbers as #")
    coverage: float = Field(
        description="Share of the time from first to last that ranges cover; for repetition, of the launches"
    )
    left_out: int = Field(
        description="Iterations that do not count: without an end or a launch, too long, different, or recorded in part"
    )

    @property
    def one(self) -> str:
        """Return the word for one of them, with its article."""
        return name_one(self.unit)

    @property
    def plural(self) -> str:
        """Return the word for several of them."""
        return name_several(self.unit)


class Candidate(_Row):
    """Ranges that repeat on the loop's thread; `--epoch` can choose them."""

    name: str = Field(description="Name, numbers as #")
    count: int = Field(description="Number of them, without nested ones")
    mean_s: float = Field(description="Mean length")
    coverage: float = Field(description="Share of the time from first to last that they cover")


class Epoch(_Row):
    """An iteration, cut into a training and a validation part."""

    index: int = Field(description="Counts from 1")
    number: int | None = Field(None, description="Number in the name of its range; null: none that tells it from the others")
    start_ns: int = Field(description="Start, from the trace's first event")
    end_ns: int = Field(description="End, likewise")
    duration_s: float = Field(description="end_ns - start_ns")
    training_s: float = Field(description="From the start to the first validation phase")
    validates: bool = Field(description="Whether it has a validation part")
    kernel_busy_fraction: float = Field(description="Share of the time with a kernel")
    gpu_busy_fraction: float = Field(description="Share of the time with a kernel or copy")


class Phase(_Row):
    """All calls of a phase in one part of the iterations."""

    name: str = Field(description="Name of its ranges, numbers as #")
    part: EpochPart = Field(description="Where its calls began; outside: in no iteration")
    calls: int = Field(description="Number of its ranges")
    wall_s: float = Field(description="Sum of their lengths on the CPU")
    gpu_busy_s: float = Field(description="Time with a kernel or copy that it caused")
    kernel_busy_s: float = Field(description="Time with a kernel that it caused")
    copy_busy_s: float = Field(description="Time with a copy or fill that it caused")
    projected_s: float = Field(description="First start to last end of a call's work on the GPU, summed over calls")
    method: Literal["own_thread", "main_thread_window", "both", "none"] = Field(description="How its GPU work was attributed")


class IdleGap(_Row):
    """Idle time of one cause and detail."""

    cause: str = Field(description="A cause of docs/analysis-reference.md")
    detail: str = Field(description="Transform, call, operator, function or phase that the cause names, if any")
    count: int = Field(description="Number of stretches that contain it")
    total_s: float = Field(description="Length in all iterations")
    seconds_per_epoch: float = Field(description="Length per counted iteration")
    coverage: float = Field(description="Share with evidence: 1; unexplained: 0")


class Kernel(_Row):
    """All calls of a kernel."""

    group: str = Field(description="Readable, derived from the name")
    name: str = Field(description="As the profiler gives it")
    calls: int = Field(description="Number in the whole trace")
    total_s: float = Field(description="Sum of their lengths in the whole trace")
    seconds_per_epoch: float = Field(description="The same for calls that began in counted iterations, per counted iteration")
    tensor_cores: bool | None = Field(description="Whether the name shows tensor cores; null: it does not show either")
    launch_s: float | None = Field(None, description="Length of its launching calls; null: none in the trace")


class Stream(_Row):
    """A stream of a GPU in one iteration."""

    epoch: int = Field(description="Iteration's index")
    device: int = Field(description="GPU's number")
    stream: int | None = Field(description="Stream's number; null: the whole GPU")
    kernel_busy_s: float = Field(description="Time with a kernel")
    copy_busy_s: float = Field(description="Time with a copy or fill")
    overlap_s: float = Field(description="Time with both")
    gpu_busy_s: float = Field(description="Time with either")


class Transform(_Row):
    """All calls of a transform in every thread and process. Transforms nest: their times do not add up."""

    name: str = Field(description="Its class or range, without numbers")
    calls: int = Field(description="Number in the whole trace")
    wall_s: float = Field(description="Sum of their lengths")
    in_epochs_s: float = Field(description="The same for calls that began in an iteration")
    on_main_thread_s: float = Field(description="The same for calls on the loop's own thread")


class Share(_Row):
    """A term of the account."""

    epoch: int = Field(description="Iteration's index")
    part: EpochPart = Field(description="Part of the iteration")
    kind: Kind = Field(description="gpu, idle, cpu or residual")
    name: str = Field(description="Phase, kernel group, cause, or exposed communication; residual: what is not known")
    total_ns: int = Field(description="Length")


class Gap(_Row):
    """One of the longest stretches without a kernel; copies may run."""

    epoch: int = Field(description="Iteration's index")
    part: EpochPart = Field(description="Part of the iteration")
    start_s: float = Field(description="Start in the profiler's window")
    duration_s: float = Field(description="Length")
    cause: str = Field(description="With detail, what fills the largest part of it")
    detail: str = Field(description="Detail of that cause")
    share: float = Field(description="Share of the gap that both fill")
    before: str = Field(description="Kernel that ended last before it, if any")
    after: str = Field(description="Kernel that started first after it, if any")


class SlowEpoch(_Row):
    """An iteration that exceeds the median of its kind: with or without validation."""

    epoch: int = Field(description="Iteration's index")
    start_s: float = Field(description="Start in the profiler's window")
    duration_s: float = Field(description="Length")
    longer_s: float = Field(description="Excess over the median")
    kind: Kind = Field(description="Kind of the term that exceeds its own median most")
    part: EpochPart = Field(description="Part of that term")
    name: str = Field(description="Name of that term")
    term_longer_s: float = Field(description="Excess of that term; others may be shorter")


class CriticalPath(_Row):
    """Classes of an iteration's critical path; they add up to the iteration."""

    epoch: int = Field(description="Iteration's index")
    largest: PathClass = Field(description="The largest class")
    host_s: float = Field(description="The host computes or launches, and the GPU waits")
    loader_s: float = Field(description="The main thread loads or transforms data, and the GPU waits")
    device_s: float = Field(description="Kernels run in a row, and the host waits or is ahead")
    copy_s: float = Field(description="Memory is copied, and no kernel runs")
    communication_s: float = Field(description="Only communication runs")


class ClockSkew(_Row):
    """GPU work that begins before its own launch."""

    events: int = Field(description="Number of kernels and copies")
    most_s: float = Field(description="The longest lead")


class Launches(_Row):
    """How the loop's kernels reached the GPU in counted iterations."""

    calls: int = Field(description="Number of launching calls")
    call_s: float = Field(description="Length of a call, median")
    delay_s: float = Field(description="From the call's return to its kernel's start, median; 0 if it had started")
    delay_p99_s: float = Field(description="The same, 99th percentile")
    short_fraction: float = Field(description="Share of kernels shorter than their launching call")
    queue_mean: float = Field(description="Launched kernels that wait for their start, mean over time")
    queue_most: int = Field(description="The most that wait at once, in the whole trace")


class Communication(_Row):
    """Communication among GPUs per counted iteration. Only its exposed part costs time."""

    seconds_per_epoch: float = Field(description="Time with a communication kernel")
    exposed_s: float = Field(description="Part of it without another kernel on any GPU of the process")

    @property
    def hidden_s(self) -> float:
        """Return how much of it runs beside other kernels."""
        return self.seconds_per_epoch - self.exposed_s


class SampledMetric(_Row):
    """A GPU counter, sampled in counted iterations."""

    device: int = Field(description="GPU's number")
    role: MetricRole | None = Field(description="Meaning on any GPU, derived from the name; null: another")
    name: str = Field(description="As the profiler gives it, without unit")
    unit: str = Field(description="As the profiler gives it; Throughput %: percent of what the GPU can do at its clock")
    mean: float = Field(description="Mean of the samples")
    samples: int = Field(description="Number of them")
    epochs: int = Field(description="Counted iterations with enough samples")
    samples_per_s: float = Field(description="Sampling rate")


class Memory(_Row):
    """Memory of one kind that CUDA gave the process and has not got back."""

    device: int = Field(description="GPU's number")
    kind: str = Field(description="device; managed (GPU or host); pinned, pageable (host); unknown")
    peak_bytes: int = Field(description="Most in counted iterations")
    mean_bytes: float = Field(description="Mean by time in counted iterations")
    trace_peak_bytes: int = Field(description="Most in the whole trace")
    unmatched_frees: int = Field(description="Frees of allocations from before the recording")


class CopyRate(_Row):
    """Copies and fills of one kind that began in counted iterations."""

    kind: str = Field(description="Direction, and the host's memory: `HtoD, pageable`")
    calls: int = Field(description="Number of them whose size is known")
    bytes_per_epoch: float = Field(description="Bytes per counted iteration")
    seconds_per_epoch: float = Field(description="Sum of their lengths per counted iteration")
    bytes_per_s: float | None = Field(description="Bytes by their lengths; null: beyond what the GPU can do, or no length")
    limit_bytes_per_s: float | None = Field(description="By the GPU's datasheet; null: unknown")
    share: float | None = Field(description="bytes_per_s by limit_bytes_per_s")


class KernelRate(_Row):
    """Arithmetic of a kernel group in one type of number, of operators with known FLOP, in counted iterations."""

    group: str = Field(description="Readable, derived from the kernels' names")
    type: str = Field(description="Of the numbers: float32, tf32 (float32 on tensor cores, by the name), bfloat16")
    operators: int = Field(description="Number of operators")
    flop_per_epoch: float = Field(description="Their FLOP per counted iteration")
    bytes_per_epoch: float = Field(description="What they read and write at least, per counted iteration")
    seconds_per_epoch: float = Field(description="Sum of their kernels' lengths in this group, per counted iteration")
    flop_per_s: float | None = Field(description="FLOP by these lengths; null: beyond what the GPU can do")
    peak_flop_per_s: float | None = Field(description="By the GPU's datasheet; null: unknown")
    peak_share: float | None = Field(description="flop_per_s by peak_flop_per_s")
    bound: Literal["arithmetic", "memory"] | None = Field(
        description="What takes longer by the datasheet: the FLOP or the bytes; null: unknown"
    )
    bound_share: float | None = Field(description="That time by seconds_per_epoch; above 1 if caches hold the bytes")


class Arithmetic(_Row):
    """FLOP of operators with known shapes, in counted iterations."""

    flop_per_epoch: float = Field(description="FLOP per counted iteration")
    known_share: float | None = Field(
        description="Share of the time of kernels that multiply, by name (without a GPU: of operators that do), whose FLOP are "
        "known; null: there is none"
    )
    product: str | None = Field(description="The GPU whose datasheet counts; null: none, or unknown")
    source: str | None = Field(description="That datasheet")
    mfu: float | None = Field(
        description="Model FLOP utilization: time of the FLOP at the datasheet's peaks by the iterations' length; null: unknown"
    )
    groups: list[KernelRate] = Field(description="Most FLOP first; empty without a GPU")


class SampledFunction(_Row):
    """A function of the loop's thread, sampled in unknown host time of counted iterations."""

    name: str = Field(
        description="Innermost known function, else its library (`in libtorch_cpu.so`); for Python, `collate (loader.py)`"
    )
    samples: int = Field(description="Number of samples")
    share: float = Field(description="Share of all samples in unknown host time")


class Unattributed(_Row):
    """GPU busy time of the iterations that no phase claims."""

    reason: str = Field(description="What is missing to find its phase")
    fraction: float = Field(description="Share of all GPU busy time of the iterations")


class Advice(_Row):
    """A possible saving."""

    rule: str = Field(description="What was found")
    text: str = Field(description="What to do about it")
    seconds_per_epoch: float = Field(description="Upper bound of the saving per counted iteration")


# Keys that stand in the file only where they hold something, so that a trace without them keeps its summary's digest.
_WHERE_RECORDED = frozenset(
    {
        "gpu_overhang_s",
        "clock_skew",
        "metrics",
        "memory",
        "copies",
        "arithmetic",
        "sampled_functions",
        "sampled_python",
        "gpu_untraced",
    }
)

# What a summary of an earlier form is of: our own loop's epochs.
FOUND_EPOCHS = Found(unit="epoch", by="ranges", name="epoch", coverage=1.0, left_out=0)


class Summary(_Row):
    """Where the time of one trace went."""

    schema_version: Literal[4] = Field(4, description="Version of this format")
    profiler: ProfilerName = Field(description="nsys; kineto (torch.profiler); xla; nsightful")
    profiler_version: str = Field(description="Its version")
    has_gpu: bool = Field(description="Whether the process used a GPU, and enough was recorded")
    gpu_untraced: GpuUntraced | None = Field(
        None,
        description="Why there is no GPU work: off (not traced), failed, unseen (no GPU that the profiler traces), unread (of "
        "another accelerator), unknown, called (CUDA, but no work followed); absent if no GPU was used",
    )
    devices: list[str] = Field(description="Names of its GPUs")
    processes: list[Process] = Field(description="Those that used a GPU, and the loop's; empty if too little was recorded")
    found: Found = Field(FOUND_EPOCHS, description="What an iteration is")
    recorded: bool = Field(True, description="Whether enough GPU work was recorded")
    candidates: list[Candidate] = Field([], description="Ranges that repeat, longest in total first")
    epochs: list[Epoch] = Field(description="Iterations in order")
    phases: list[Phase] = Field(description="In order of first appearance")
    idle_gaps: list[IdleGap] = Field(description="Largest first")
    kernels: list[Kernel] = Field(description="Of all processes, costliest first")
    streams: list[Stream] = Field(description="GPU busy time by iteration, GPU and stream")
    transforms: list[Transform] = Field(description="Longest first")
    account: list[Share] = Field(description="Terms of each iteration, largest first")
    zero_ns: int | None = Field(
        None, description="The trace's zero in the profiler's window; null: unknown, times count from the first event"
    )
    gaps: list[Gap] = Field([], description="Longest first")
    slowest: list[SlowEpoch] = Field([], description="Largest excess first")
    critical_paths: list[CriticalPath] = Field([], description="One per iteration; empty without a GPU")
    clock_skew: ClockSkew | None = Field(None, description="Absent if no work begins before its launch")
    launches: Launches | None = Field(None, description="Null if no launch is in the trace")
    communication: Communication | None = Field(None, description="Null if there is none")
    gpu_overhang_s: list[float] = Field(
        [],
        description="GPU time on earlier launches after each line or mark that ends an epoch; absent if none was recorded",
    )
    metrics: list[SampledMetric] = Field([], description="Counters of its GPUs; absent if not sampled")
    memory: list[Memory] = Field([], description="By GPU and kind; absent if not recorded")
    copies: list[CopyRate] = Field([], description="Copies by kind, longest first; absent if there is none of known size")
    arithmetic: Arithmetic | None = Field(None, description="Absent if no operator's shapes were recorded")
    sampled_functions: list[SampledFunction] = Field(
        [], description="Most frequent first; absent without samples in unknown host time"
    )
    sampled_python: list[SampledFunction] = Field([], description="The same for functions in Python")
    unattributed_fraction: float = Field(description="Share of the iterations' GPU busy time that no phase claims")
    unattributed: list[Unattributed] = Field(description="The same by reason, largest first")
    ideal_epoch_s: float | None = Field(description="GPU busy time of a training part, mean")
    overlapped_epoch_s: float | None = Field(description="max(GPU busy, data time) of a training part, mean")
    advice: list[Advice] = Field(description="Largest saving first; savings overlap")
    warnings: list[str] = Field(description="What to know before trusting the numbers")
    seal: str | None = Field(None, description="Checksum of all other fields; null: old file")

    @model_serializer(mode="wrap")
    def _leave_out_what_was_not_recorded(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if value or name not in _WHERE_RECORDED}

    @property
    def own_numbers(self) -> dict[int, int]:
        """Return the number by which each epoch is called, by its index: its range's own, else the index."""
        return {epoch.index: epoch.index if epoch.number is None else epoch.number for epoch in self.epochs}

    @cached_property  # each row of many tables asks
    def validates(self) -> bool:
        """Return whether an epoch has a validation part."""
        return any(epoch.validates for epoch in self.epochs)

    @property
    def validation_share(self) -> float:
        """Return the share of epochs that validate, 1 / `validate_every`, over those that the metric `epoch_s` counts.

        These are whole intervals, each of which ends with an epoch that validates, without the first if others remain.
        """
        ends = [number for number, epoch in enumerate(self.epochs, start=1) if epoch.validates]
        first = ends[0] if len(ends) > 1 and self.epochs[0].index == 1 else 0
        return (len(ends) - (first > 0)) / (ends[-1] - first) if ends else 0.0

    @property
    def steady_epochs(self) -> list[Epoch]:
        """Return the epochs that count: with three or more, all but the first, which warms up."""
        return self.epochs[count_warm_up(len(self.epochs)) :]

    def count_epochs_behind(self, part: EpochPart) -> float:
        """Return for how many epochs a part of the steady ones stands: three validations, of every second epoch, for six."""
        if part == "training":
            return len(self.steady_epochs)
        return sum(epoch.validates for epoch in self.steady_epochs) / self.validation_share


def count_warm_up(epochs: int) -> int:
    """Return how many of so many epochs warm up, and so do not count."""
    return 1 if epochs >= WARM_UP_NEEDS_EPOCHS else 0


def read_summary(folder: Path) -> Summary:
    return read_record(folder / SUMMARY_FILE, Summary)
