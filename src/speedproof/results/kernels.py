"""`kernels.json`: what the GPU ran, by kernel and by group, with the processor's time for it and the share on tensor cores."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.summary import Kernel, SampledMetric

KERNELS_FILE = "kernels.json"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


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
