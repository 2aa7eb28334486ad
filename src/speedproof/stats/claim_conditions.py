"""What differs between how a source measured a number and how these runs did, and what held each variant back."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from speedproof.profilers.formats import find_profiler
from speedproof.profilers.nsys_formats import NSYS
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.run_record import Conditions, Mode
from speedproof.stats.claims_file import ClaimsFile, Source
from speedproof.stats.comparability import differing_conditions
from speedproof.stats.metrics import SAMPLED_BUSY, TRACED_BUSY, counts_warm_up, measure_run
from speedproof.util.numbers import format_count, format_value
from speedproof.util.text import write_setting

# A variant whose GPU works for less of an epoch is held back by what the host does: its time is mostly of that.
_LEAST_BUSY = 0.5


def list_conditions(file: ClaimsFile, source: Source, runs: list[MeasuredRun], mode: Mode, metric: str) -> list[str]:
    """Return what differs between how a source measured a metric and how these runs did; at least one run."""
    run = runs[0].run
    differences = [*_list_other_machine(source, run.conditions), *_list_other_data(file, run.conditions)]
    differences += _changed("workload", file.workload | source.workload, run.workload)
    for name, techniques in {run.run.variant: run.run.techniques for run in runs}.items():
        differences += _changed(name, file.variants.get(name, {}) | source.variants.get(name, {}), techniques)
    differences += _list_other_lengths(source, runs)
    warm = {run.run.variant for run in runs if counts_warm_up(run, metric)}
    if warm and warm < {run.run.variant for run in runs}:
        differences.append(f"the first (warm-up) epoch is included for {', '.join(sorted(warm))} only")
    differences.append(_describe_software(file, source, run.conditions.packages))
    if source.profiled:
        differences += _profiling_differences(run.profiler, mode)
    if beside := sum(other.had_company for other in runs):
        differences.append(f"another experiment shared the machine with {beside} of {format_count(len(runs), 'run')}")
    others = dict.fromkeys(key for other in runs for key in differing_conditions(run.conditions, other.run.conditions))
    if others:
        differences.append(f"measured with more than one {', '.join(others)}")
    return differences


def _list_other_machine(source: Source, conditions: Conditions) -> list[str]:
    if conditions.gpu is None:
        return [f"{conditions.device_name()} instead of {source.hardware}"]
    if source.is_of(conditions.gpu.name):
        return []
    host = f"{conditions.cpu}, {format_count(conditions.cores, 'core')}"
    return [f"{conditions.gpu.name} ({host}) instead of {source.hardware}"]


def _list_other_data(file: ClaimsFile, conditions: Conditions) -> list[str]:
    if conditions.synthetic_data:
        return [f"synthetic data ({conditions.dataset_name}) instead of {file.dataset}"]
    if file.dataset and conditions.dataset_name != file.dataset:
        return [f"dataset {conditions.dataset_name} instead of {file.dataset}"]
    return []


def _list_other_lengths(source: Source, runs: list[MeasuredRun]) -> list[str]:
    counts = {run.run.variant: run.run.epochs for run in runs}
    names = {epochs: name for name, epochs in counts.items()}
    return [
        f"{epochs} epochs{f' of {name}' if len(names) > 1 else ''} instead of {source.epochs}"
        for epochs, name in names.items()
        if epochs != source.epochs
    ]


def describe_bottleneck(variants: Sequence[str], results: Results) -> list[str]:
    """Return how busy two variants' GPUs were, by their traces or else by samples; nothing if that is not known."""
    traces = [results.trace_of(name) for name in variants]
    busy = [measure_run(run, TRACED_BUSY) if run else None for run in traces]
    how = "in profiled runs"
    if None in busy:
        busy, how = [_mean_of_samples(results.select(name, "timed")) for name in variants], "by NVML's samples"
    shares = [share for share in busy if share is not None]
    if len(shares) < 2 or len(shares) < len(variants):
        return []
    each = ", ".join(f"{format_value(share, '%')} in {name}" for name, share in zip(variants, shares, strict=True))
    held_back = ": the ratio measures the processor as well" if min(shares) < _LEAST_BUSY else ""
    return [f"GPU busy {each} ({how}){held_back}"]


def _mean_of_samples(runs: Sequence[MeasuredRun]) -> float | None:
    values = [measure_run(run, SAMPLED_BUSY) for run in runs]
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _describe_software(file: ClaimsFile, source: Source, packages: dict[str, str]) -> str:
    ours = ", ".join(f"{name} {packages[name]}" for name in file.packages or sorted(packages) if name in packages)
    return f"{ours or 'no packages recorded'}; the source names {source.software or 'no versions'}"


def _profiling_differences(profiler: str, mode: Mode) -> list[str]:
    if mode == "timed":
        return ["not profiled, though the documented runs were"]
    differences = [] if profiler == NSYS.name else [f"profiled by {find_profiler(profiler).title} instead of {NSYS.title}"]
    if mode == "profiled":
        differences.append("profiled without autograd's own NVTX ranges")
    return differences


def _changed(owner: str, documented: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    return [
        f"{owner}.{key} {write_setting(actual.get(key))} instead of {write_setting(value)}"
        for key, value in documented.items()
        if not _agrees(value, actual.get(key))
    ]


def _agrees(documented: Any, actual: Any) -> bool:
    """Compare what was documented with what ran; keys that the document does not name are free."""
    if isinstance(documented, dict):
        return isinstance(actual, dict) and all(_agrees(value, actual.get(key)) for key, value in documented.items())
    if isinstance(documented, list) and isinstance(actual, list | tuple):
        return list(actual) == documented
    return bool(documented == actual)
