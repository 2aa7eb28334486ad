"""`kernels.json`: what the GPU ran, by kernel and by group, with the processor's time for it and the share on tensor cores."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.files import read_record
from speedproof.results.summary import Kernel, SampledMetric

KERNELS_FILE = "kernels.json"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Use(_Row):
    """What some kernels take, in the whole trace, all processes and GPUs: calls at the same time count each."""

    calls: int = Field(description="How often they ran")
    gpu_s: float = Field(description="Sum of their durations")
    gpu_share: float = Field(description="Of all kernels' gpu_s, 0 to 1")
    cpu_s: float | None = Field(description="Sum of the durations of the calls that launched them; null where none is known")
    tensor_core_share: float | None = Field(
        description="Of gpu_s, what kernels take that use tensor cores; null where no name tells"
    )


class KernelUse(Use):
    """One kernel."""

    name: str = Field(description="As the profiler gives it")
    group: str = Field(description="Readable, derived from the name")


class GroupUse(Use):
    """Kernels of one group."""

    group: str = Field(description="Readable, derived from the kernels' names")
    kernels: int = Field(description="How many different ones")


class KernelsSummary(_Row):
    """`kernels.json`."""

    schema_version: Literal[2] = Field(2, description="Of this file's form")
    total: Use = Field(description="Of all kernels")
    tensor_cores_by: Literal["names", "names, samples"] = Field(
        "names",
        description="What tells of tensor cores: of a kernel its name, since no counter is of one; of the whole samples, too",
    )
    tensor_cores_active: float | None = Field(
        None,
        description="Share of the tensor cores' time at work in the iterations that count, 0 to 1, sampled; mean of GPUs; "
        "null where nothing sampled it. It is of all time, and of no kernel",
    )
    unknown_share: float = Field(description="Of total.gpu_s, the share of kernels whose names say nothing of tensor cores")
    groups: list[GroupUse] = Field(description="The costliest first")
    kernels: list[KernelUse] = Field(description="The costliest first")
    seal: str | None = Field(None, description="Digest of all other fields")


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


def read_kernels(folder: Path) -> KernelsSummary:
    """Read an analysis' `kernels.json`."""
    return read_record(folder / KERNELS_FILE, KernelsSummary)
