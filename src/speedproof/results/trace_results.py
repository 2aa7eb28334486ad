"""What the analyses of traces leave: differences, kernels, ranks."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.files import read_record
from speedproof.results.names import ProfilerName
from speedproof.results.run_record import RunOutcome
from speedproof.results.summary import WARM_UP_NEEDS_EPOCHS, EpochPart, IterationUnit, Kernel, SampledMetric
from speedproof.util.errors import RecordError

DIFFERENCE_FILE = "difference.json"
_MOST_TERMS = 3  # of those that a verdict names
_KERNELS = "kernels: "


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


def name_group(group: str) -> str:
    """Return the name of a term of kernels that no phase launched: `kernels: softmax`."""
    return f"{_KERNELS}{group}"


def find_group(name: str) -> str | None:
    """Return the group of kernels that a term is of; None if it is of a phase."""
    return name.removeprefix(_KERNELS) if name.startswith(_KERNELS) else None


class Term(_Row):
    """A reason why an iteration of `b` takes longer than one of `a`. Negative: `b` takes less."""

    kind: Literal["gpu", "idle", "cpu"] = Field(description="gpu: kernels; idle: a cause; cpu: a phase, without a GPU")
    part: EpochPart = Field(description="Part of the iteration")
    name: str = Field(description="As in the account")
    a_s: float = Field(description="Seconds per iteration of a")
    b_s: float = Field(description="Seconds per iteration of b")
    seconds_per_epoch: float = Field(description="b_s - a_s")
    seconds_per_sample: float | None = Field(description="The same per training sample; null: unknown")


class LargestTerm(_Row):
    """A term of the difference of a candidate's trace and its reference's, for programs that read outcomes."""

    kind: Literal["gpu", "idle", "cpu"] = Field(description="gpu: kernels; idle: a cause; cpu: a phase, without a GPU")
    part: EpochPart = Field(description="Part of the iteration")
    name: str = Field(description="As in the account")
    seconds: float = Field(description="What an iteration of the candidate takes more; below 0: less")


class KernelTerm(_Row):
    """A group of kernels in both traces. Calls at the same time count each."""

    group: str = Field(description="Readable, derived from the names")
    a_s: float = Field(description="Sum of its calls' lengths on all GPUs, per iteration of a")
    b_s: float = Field(description="The same for b")
    seconds_per_epoch: float = Field(description="b_s - a_s")


class Difference(_Row):
    """total_s = sum of the terms' seconds_per_epoch + residual_s."""

    schema_version: Literal[2] = Field(2, description="Version of this format")
    unit: IterationUnit = Field("epoch", description="Word for what is compared")
    condition: str | None = Field(None, description="What must be true for the numbers to mean something; null: not in doubt")
    notes: list[str] = Field([], description="What to know before trusting the numbers")
    a: str = Field(description="The first trace")
    b: str = Field(description="The second trace")
    epochs_a: int = Field(description="Counted iterations of a")
    epochs_b: int = Field(description="Counted iterations of b")
    samples_a: float | None = Field(description="Training samples per iteration of a; null: unknown")
    samples_b: float | None = Field(description="The same for b")
    epoch_a_s: float = Field(description="Length of an iteration of a, validation at its share")
    epoch_b_s: float = Field(description="The same for b")
    terms: list[Term] = Field(description="Largest change first, whatever its sign")
    kernels: list[KernelTerm] = Field([], description="By group, largest change first")
    residual_s: float = Field(description="The part that no rule explains, per iteration")
    total_s: float = Field(description="epoch_b_s - epoch_a_s")
    low_s: float | None = Field(
        None, description="Lower end of total_s' 95 % interval, from the spread of each trace's iterations; null: too few"
    )
    high_s: float | None = Field(None, description="Upper end")
    residual_per_sample_s: float | None = Field(description="Residual per training sample; null: unknown")
    total_per_sample_s: float | None = Field(description="Total per training sample; null: unknown")
    seal: str | None = Field(None, description="Checksum of all other fields; null: old file")

    def list_largest(self) -> list[LargestTerm]:
        """Return the terms that make most of the difference, the largest first."""
        largest = self.terms[:_MOST_TERMS]
        return [LargestTerm(kind=one.kind, part=one.part, name=one.name, seconds=one.seconds_per_epoch) for one in largest]

    @property
    def is_within_spread(self) -> bool:
        """Return whether the iterations of each trace differ so much that those of both may take as long."""
        return self.low_s is not None and self.high_s is not None and self.low_s <= 0 <= self.high_s


def read_difference(folder: Path) -> Difference:
    return read_record(folder / DIFFERENCE_FILE, Difference)


KERNELS_FILE = "kernels.json"


class Use(_Row):
    """Some kernels in the whole trace, all processes and GPUs. Calls at the same time count each."""

    calls: int = Field(description="Number")
    gpu_s: float = Field(description="Sum of their lengths")
    gpu_share: float = Field(description="Share of all kernels' gpu_s")
    cpu_s: float | None = Field(description="Length of their launching calls; null: unknown")
    tensor_core_share: float | None = Field(
        description="Share of gpu_s in kernels that use tensor cores; null: no name shows it"
    )


class KernelUse(Use):
    """Use of one kernel."""

    name: str = Field(description="As the profiler gives it")
    group: str = Field(description="Readable, derived from the name")


class GroupUse(Use):
    """Use of one group."""

    group: str = Field(description="Readable, derived from the names")
    kernels: int = Field(description="Number of different kernels")


class KernelsSummary(_Row):
    """What the GPU ran."""

    schema_version: Literal[2] = Field(2, description="Version of this format")
    total: Use = Field(description="Use of all kernels")
    tensor_cores_by: Literal["names", "names, samples"] = Field(
        "names",
        description="What shows tensor cores: names; for tensor_cores_active, samples",
    )
    tensor_cores_active: float | None = Field(
        None,
        description="Sampled share of counted iterations with tensor cores active, idle time too, mean of GPUs; null: none",
    )
    unknown_share: float = Field(description="Share of total.gpu_s in kernels whose names do not show tensor cores either way")
    groups: list[GroupUse] = Field(description="Costliest first")
    kernels: list[KernelUse] = Field(description="Costliest first")
    seal: str | None = Field(None, description="Checksum of all other fields")


def summarize_kernels(kernels: list[Kernel], metrics: Sequence[SampledMetric] = ()) -> KernelsSummary:
    """Return what kernels and their groups take; `kernels` and `metrics` are a summary's, the costliest first."""
    active = [metric.mean / 100 for metric in metrics if metric.role == "tensor_active" and metric.unit == "Throughput %"]
    whole_s = sum(kernel.total_s for kernel in kernels)
    groups: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        groups[kernel.group].append(kernel)
    uses = [
        GroupUse(group=group, kernels=len(members), **_sum_up(members, whole_s).model_dump())
        for group, members in groups.items()
    ]
    unknown_s = sum(kernel.total_s for kernel in kernels if kernel.tensor_cores is None)
    return KernelsSummary(
        total=_sum_up(kernels, whole_s),
        tensor_cores_by="names, samples" if active else "names",
        tensor_cores_active=sum(active) / len(active) if active else None,
        unknown_share=unknown_s / whole_s if whole_s else 0.0,
        groups=sorted(uses, key=lambda use: -use.gpu_s),
        kernels=[
            KernelUse(name=kernel.name, group=kernel.group, **_sum_up([kernel], whole_s).model_dump()) for kernel in kernels
        ],
    )


def _sum_up(kernels: Iterable[Kernel], whole_s: float) -> Use:
    members = list(kernels)
    gpu_s = sum(kernel.total_s for kernel in members)
    launches = [kernel.launch_s for kernel in members if kernel.launch_s is not None]
    on_tensor_cores = sum(kernel.total_s for kernel in members if kernel.tensor_cores)
    known = gpu_s > 0 and any(kernel.tensor_cores is not None for kernel in members)
    return Use(
        calls=sum(kernel.calls for kernel in members),
        gpu_s=gpu_s,
        gpu_share=gpu_s / whole_s if whole_s else 0.0,
        cpu_s=sum(launches) if launches else None,
        tensor_core_share=on_tensor_cores / gpu_s if known else None,
    )


RANKS_FILE = "ranks.json"
ENDING_FILE = "ending.json"

# What a rank's compute ends with: collectives among the kernels, or, in a trace without any, the backward phase.
Basis = Literal["communication kernels", "backward phase"]


class Ending(_Row):
    """`ending.json`: how one rank ended. The first that did not end well is the cause; the others lost a partner."""

    schema_version: Literal[1] = 1
    rank: int
    outcome: RunOutcome
    reason: str
    ended_s: float = Field(description="The system's time, in seconds")


class RankTimes(_Row):
    """What one rank waited and communicated, in seconds an epoch: means over the steady epochs."""

    rank: int
    epoch_s: float = Field(description="Length of an epoch")
    waited_s: float | None = Field(
        description="Lost to imbalance: for each collective, the slowest rank's compute less this one's; null: unknown"
    )
    communication_s: float | None = Field(description="Union of the communication kernels; null: none in the trace")
    exposed_s: float | None = Field(description="Of communication_s: while no other kernel runs on this rank's GPU")

    @property
    def hidden_s(self) -> float | None:
        """Return how much of the communication runs beside other kernels."""
        return None if self.communication_s is None or self.exposed_s is None else self.communication_s - self.exposed_s


class Wait(_Row):
    """One step (of training), or all of a part outside of steps: what a rank computed, and waited for which one."""

    epoch: int
    part: Literal["training", "validation"]
    step: int | None = Field(description="Counted from 1; null: collectives outside the training steps")
    rank: int
    compute_s: float = Field(description="From each collective's end, or the epoch's start, to the next one's start")
    waited_s: float
    slowest: int = Field(description="The rank that computed longest")
    group: str | None = Field(None, description="Their process group and its ranks; null: the traces name none")


class WaitedFor(_Row):
    """How long one rank waits for another one in an epoch: the mean over those that count."""

    rank: int
    slowest: int = Field(description="The rank that came last to the collectives in question")
    waited_s: float


class RanksSummary(_Row):
    """`ranks.json`: who waits for whom in one run, and how much of the communication is hidden behind other work."""

    schema_version: Literal[1] = 1
    profiler: ProfilerName
    basis: Basis
    ranks: list[RankTimes]
    waits: list[Wait]
    waited_for: list[WaitedFor] = Field([], description="Who waits for whom, longest first; empty: nobody, or an old file")
    unit: IterationUnit = Field("epoch", description="Word for what the keys call an epoch")
    unmatched: list[int] = Field([], description="Epochs in which ranks show different collectives: they do not count")
    notes: list[str] = Field(description="What these numbers cannot tell")
    seal: str | None = Field(None, description="Digest of all other fields; versions before have none")

    @property
    def steady_waits(self) -> list[Wait]:
        """Return the waits without those of the warm-up epoch, if enough others remain."""
        enough = max((wait.epoch for wait in self.waits), default=0) >= WARM_UP_NEEDS_EPOCHS
        return [wait for wait in self.waits if wait.epoch > 1] if enough else self.waits


def rank_folder(run: Path, rank: int | str) -> Path:
    """Return the folder of one rank of a run of several; a word stands for a rank that only its process knows."""
    return run / f"rank{rank}"


def process_folders(run: Path, ranks: int) -> list[Path]:
    """Return the folder of each of a run's processes: the run's own if it has only one."""
    return [run] if ranks == 1 else [rank_folder(run, rank) for rank in range(ranks)]


def find_first_failure(run: Path) -> Ending | None:
    """Return the ending of the rank that failed first; None if no rank recorded a failure."""
    failures = []
    for path in run.glob(f"rank*/{ENDING_FILE}"):
        try:
            failures.append(read_record(path, Ending))
        except RecordError:
            continue
    failures = [ending for ending in failures if ending.outcome != "completed"]
    return min(failures, key=lambda ending: ending.ended_s, default=None)


def find_silent_ranks(run: Path) -> list[int]:
    """Return the ranks that did not say how they ended: they were killed, or never began."""
    return sorted(int(path.name.removeprefix("rank")) for path in run.glob("rank*") if not (path / ENDING_FILE).exists())


def read_ranks_summary(folder: Path) -> RanksSummary:
    return read_record(folder / RANKS_FILE, RanksSummary)
