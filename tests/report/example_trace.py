"""The example's traces, and their summaries, worked out from the lengths of their phases."""

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from speedproof.results.summary import Epoch, EpochPart, IdleGap, Kernel, Phase, Share, Summary
from speedproof.results.trace_tables import TABLES
from tests.report.example_variants import (
    EPOCHS,
    GPU_SHARE,
    KERNELS,
    KERNELS_PER_PHASE,
    NS,
    PHASES_S,
    STEPS,
    VALIDATE_EVERY,
    VALIDATION_CASES,
    VALIDATION_S,
)

if TYPE_CHECKING:
    from tests.report.example import Example


def example_trace(variant: str, gpu: bool) -> dict[str, pa.Table]:
    """A trace of six epochs in the main thread; kernels fill the GPU's share of each phase that computes."""
    ranges: list[tuple[int, int, str]] = []
    kernels: list[tuple[int, int, str]] = []
    clock = 2 * NS
    for epoch in range(1, EPOCHS + 1):
        start = clock
        for _ in range(STEPS[variant]):
            for phase, length_s in PHASES_S[variant].items():
                clock = _add_phase(ranges, kernels, phase, clock, length_s, variant)
        if epoch % VALIDATE_EVERY == 0:
            for _ in range(VALIDATION_CASES):
                for phase, length_s in _validation_phases(variant).items():
                    clock = _add_phase(ranges, kernels, phase, clock, length_s, variant)
        ranges.append((start, clock, "epoch"))
    tables = {
        "ranges": _table("ranges", ranges, kind="push_pop", process=0, thread=0, end_thread=0, domain=0),
        "threads": pa.table({"process": [0], "thread": [0], "main": [True], "name": ["python"]}),
    }
    if gpu:
        tables["kernels"] = _table("kernels", kernels, process=0, device=0, stream=7, correlation=1, graph=None)
        tables["devices"] = pa.table({"device": [0], "name": ["NVIDIA H200"]})
    return tables


def _validation_phases(variant: str) -> dict[str, float]:
    per_case_s = VALIDATION_S[variant] / VALIDATION_CASES
    shares = {"validation dataload": 0.2, "sliding window": 0.6, "decollate batch": 0.1, "compute metric": 0.1}
    return {phase: share * per_case_s for phase, share in shares.items()}


def _add_phase(
    ranges: list[tuple[int, int, str]],
    kernels: list[tuple[int, int, str]],
    phase: str,
    start: int,
    length_s: float,
    variant: str,
) -> int:
    length = round(length_s * NS)
    ranges.append((start, start + length, phase))
    if phase in {"forward", "backward", "update", "sliding window"}:
        each = length // KERNELS_PER_PHASE
        for number in range(KERNELS_PER_PHASE):
            begin = start + number * each
            kernels.append((begin, begin + round(each * GPU_SHARE[variant]), list(KERNELS)[number % len(KERNELS)]))
    return start + length


def _table(name: str, events: list[tuple[int, int, str]], **constants: Any) -> pa.Table:
    starts, ends, names = zip(*events, strict=True)
    columns = {"start_ns": starts, "end_ns": ends, "name": names}
    columns |= {key: [value] * len(events) for key, value in constants.items()}
    schema = TABLES[name]
    return pa.table({field.name: pa.array(columns[field.name]).cast(field.type) for field in schema}, schema=schema)


def example_summary(variant: str, example: "Example", version: str) -> Summary:
    """The summary of :func:`example_trace`, worked out from the lengths of its phases."""
    step_s = sum(PHASES_S[variant].values())
    gpu_share = GPU_SHARE[variant] if example.gpu else 0.0
    train_s, train_busy_s = STEPS[variant] * step_s, STEPS[variant] * (step_s - PHASES_S[variant]["dataload"]) * gpu_share
    epochs, start = [], 2 * NS
    for index in range(1, EPOCHS + 1):
        validates = index % VALIDATE_EVERY == 0
        duration_s = train_s + (VALIDATION_S[variant] if validates else 0.0)
        busy = (train_busy_s + (0.6 * VALIDATION_S[variant] * gpu_share if validates else 0.0)) / duration_s
        end = start + round(duration_s * NS)
        epochs.append(
            Epoch(
                index=index,
                start_ns=start,
                end_ns=end,
                duration_s=duration_s,
                training_s=train_s,
                validates=validates,
                kernel_busy_fraction=busy,
                gpu_busy_fraction=busy,
            )
        )
        start = end
    phases = [_phase(name, "training", EPOCHS * STEPS[variant], s, gpu_share) for name, s in PHASES_S[variant].items()]
    calls = VALIDATION_CASES * EPOCHS // VALIDATE_EVERY
    phases += [_phase(name, "validation", calls, s, gpu_share) for name, s in _validation_phases(variant).items()]
    gpu_s = sum(phase.gpu_busy_s for phase in phases)
    idle_s = sum(epoch.duration_s for epoch in epochs) - gpu_s
    return Summary(
        profiler="kineto" if example.profiler == "kineto" else "nsys",
        profiler_version=version,
        has_gpu=example.gpu,
        devices=["NVIDIA H200"] if example.gpu else [],
        processes=[],
        epochs=epochs,
        phases=phases,
        idle_gaps=[
            IdleGap(
                cause="waiting for data",
                detail="RandCropByPosNegLabel",
                count=48,
                total_s=idle_s,
                seconds_per_epoch=idle_s / EPOCHS,
                coverage=0.93,
            )
        ]
        if example.gpu
        else [],
        kernels=[
            Kernel(
                group=group,
                name=name,
                calls=1000,
                total_s=share * gpu_s,
                seconds_per_epoch=share * gpu_s / EPOCHS,
                tensor_cores=None,
            )
            for name, (group, share) in KERNELS.items()
        ]
        if example.gpu
        else [],
        streams=[],
        transforms=[],
        account=[share for epoch in epochs for share in _account(epoch, phases, example.gpu)],
        unattributed_fraction=0.0,
        unattributed=[],
        ideal_epoch_s=train_busy_s if example.gpu else None,
        overlapped_epoch_s=train_busy_s if example.gpu else None,
        advice=[],
        warnings=[],
    )


def _account(epoch: Epoch, phases: list[Phase], gpu: bool) -> list[Share]:
    """An epoch's share of what the phases had the GPU do, and its idle time; without one, of the processor's time."""
    counts = {"training": EPOCHS, "validation": EPOCHS // VALIDATE_EVERY if epoch.validates else math.inf}
    busy = [
        Share(
            epoch=epoch.index,
            part=phase.part,
            kind="gpu" if gpu else "cpu",
            name=phase.name,
            total_ns=round((phase.gpu_busy_s if gpu else phase.wall_s) * NS / counts[phase.part]),
        )
        for phase in phases
        if phase.gpu_busy_s or not gpu
    ]
    training_ns = round(epoch.training_s * NS)
    lengths: dict[EpochPart, int] = {"training": training_ns, "validation": epoch.end_ns - epoch.start_ns - training_ns}
    idle = [
        Share(
            epoch=epoch.index,
            part=part,
            kind="idle" if gpu else "cpu",
            name="waiting for data" if gpu else "in no phase",
            total_ns=length - sum(share.total_ns for share in busy if share.part == part),
        )
        for part, length in lengths.items()
        if part == "training" or epoch.validates
    ]
    return [*busy, *idle]


def _phase(name: str, part: Any, calls: int, length_s: float, gpu_share: float) -> Phase:
    busy_s = calls * length_s * gpu_share if name in {"forward", "backward", "update", "sliding window"} else 0.0
    return Phase(
        name=name,
        part=part,
        calls=calls,
        wall_s=calls * length_s,
        gpu_busy_s=busy_s,
        kernel_busy_s=busy_s,
        copy_busy_s=0.0,
        projected_s=busy_s,
        method="own_thread" if gpu_share else "none",
    )
