"""Sentences about a trace, and about the difference of two: their words are in `trace.md.j2`."""

from collections.abc import Callable, Iterator
from statistics import median
from typing import get_args

from speedproof.report.document import VariantName
from speedproof.report.prose import Prose
from speedproof.results.summary import (
    MFU_NEEDS_KNOWN,
    Communication,
    GpuUntraced,
    Launches,
    PathClass,
    SampledMetric,
    Summary,
    name_several,
)
from speedproof.results.trace_results import Difference
from speedproof.util.numbers import format_count, format_large, format_value
from speedproof.util.units import MIB

PROSE = Prose("trace.md.j2")
_UNEVEN = 0.1  # of the mean: where the median differs by more, it is said, too
_LOST = 0.005  # a smaller share is not worth a clause
_ROLES = {
    "sm_active": "SMs active",
    "tensor_active": "tensor cores active",
    "dram_read": "memory read",
    "dram_write": "written",
}

# That a trace has no GPU work, or why it does not show whether there was any.
describe_no_gpu: Callable[[GpuUntraced | None], str] = PROSE["no_gpu"]
# The largest cause of time without a kernel, of which there must be some.
describe_main_cause: Callable[[Summary], str] = PROSE["main_cause"]
# How long an iteration would be without idle time, and with data loaded beside it.
describe_ideal: Callable[[Summary], str] = PROSE["ideal"]
# How long GPUs communicate in a mean iteration, and how much of that is hidden.
describe_communication: Callable[[Communication], str] = PROSE["communication"]
# How long kernels wait for their start, and how many do.
describe_launches: Callable[[Launches], str] = PROSE["launches"]
# Which ranges repeat on the loop's thread: what --epoch could choose.
describe_candidates: Callable[[Summary], str] = PROSE["candidates"]
# How much of the GPU's time no phase claims, and why.
describe_unattributed: Callable[[Summary], str] = PROSE["unattributed"]


def describe_epochs(summary: Summary) -> str:
    """Return how many iterations there are, how long they last, and how busy the GPU is."""
    if not summary.epochs:
        return "Nothing was traced."
    epochs = summary.steady_epochs
    lengths_s = [epoch.duration_s for epoch in epochs]
    length_s, median_s = sum(lengths_s), median(lengths_s)
    mean_s = length_s / len(epochs)
    uneven = abs(mean_s - median_s) > _UNEVEN * mean_s
    text = PROSE["epochs"](summary, mean_s, median_s if uneven else None, len(epochs) == len(summary.epochs))
    if not summary.recorded:
        return f"{text}; too little GPU work was recorded to measure its use."
    if not summary.has_gpu:
        return f"{text}; {describe_no_gpu(summary.gpu_untraced)}"
    gpu = sum(epoch.gpu_busy_fraction * epoch.duration_s for epoch in epochs) / length_s
    kernel = sum(epoch.kernel_busy_fraction * epoch.duration_s for epoch in epochs) / length_s
    return f"{text}; {PROSE['busy'](summary, gpu, kernel)}"


def describe_arithmetic(summary: Summary) -> Iterator[str]:
    """Yield how much an iteration computes, and how well that uses the GPU, if operators' shapes were recorded."""
    if (one := summary.arithmetic) is not None:
        lost = 0.0 if one.known_share is None else 1 - one.known_share
        flop, few = format_large(one.flop_per_epoch, "FLOP"), lost > 1 - MFU_NEEDS_KNOWN
        yield PROSE["arithmetic"](summary, one, flop, lost if lost >= _LOST else 0.0, few)


def describe_epoch_change(a: str, b: str, difference: Difference) -> list[str]:
    """Return in a sentence by how much the mean epoch of the trace `b` is longer or shorter than that of `a`."""
    lengths = PROSE["lengths"](difference, name_several(difference.unit))
    unit = difference.unit
    condition = [f"Only if {difference.condition}: "] if difference.condition else []
    if not difference.total_s:
        return [*condition, VariantName(b), f" takes as long per {unit} as ", VariantName(a), lengths]
    change = f"{format_value(abs(difference.total_s), 's')} {'less' if difference.total_s < 0 else 'more'}"
    takes = [VariantName(b), f" takes {change} per {unit} than ", VariantName(a), lengths]
    spread = "no difference beyond their spread: " if condition else "No difference beyond their spread: "
    return [*condition, *([spread] if difference.is_within_spread else []), *takes]


def describe_counters(summary: Summary) -> Iterator[str]:
    """Yield what each GPU's sampled counters say of its use, and how much of its memory was in use."""
    for device in sorted({metric.device for metric in summary.metrics}):
        metrics = [metric for metric in summary.metrics if metric.device == device]
        uses = {metric.role: metric for metric in metrics if metric.role}
        shown = [f"{word} {_format_metric(uses[role])}" for role, word in _ROLES.items() if role in uses]
        yield PROSE["counters"](device, metrics, shown)
    yield from (PROSE["memory"](memory, MIB) for memory in summary.memory)


def _format_metric(metric: SampledMetric) -> str:
    return f"{format_value(metric.mean)} {metric.unit.replace('Throughput %', '%')}".rstrip()


def describe_paths(summary: Summary) -> str:
    """Return what the critical path of the epochs that count consists of, the largest class first."""
    paths = summary.critical_paths[len(summary.epochs) - len(summary.steady_epochs) :]
    sums = {name: sum(getattr(path, f"{name}_s") for path in paths) for name in get_args(PathClass)}
    largest_first = sorted(((name, length) for name, length in sums.items() if length), key=lambda one: -one[1])
    shares = [f"{name} {format_value(length / sum(sums.values()), '%')}" for name, length in largest_first]
    counted = {name: sum(path.largest == name for path in paths) for name in sums}
    most = [f"{name} in {format_count(number, summary.found.unit)}" for name, number in counted.items() if number]
    return PROSE["paths"](shares, most if len(paths) > 1 else [], summary.clock_skew)


def describe_explained_share(summary: Summary) -> str:
    """Return how much of the time without a kernel, in iterations that count if it is in these, has a cause that is known."""
    from speedproof.trace.causes import HOST, NO_RANGE, UNEXPLAINED  # which no table of a results folder needs

    counted = [(gap.cause, gap.seconds_per_epoch) for gap in summary.idle_gaps]
    if not any(seconds for _, seconds in counted):
        counted = [(gap.cause, gap.total_s) for gap in summary.idle_gaps]
    whole = sum(seconds for _, seconds in counted)
    unknown = sum(seconds for cause, seconds in counted if cause in (HOST, NO_RANGE))
    unexplained = sum(seconds for cause, seconds in counted if cause == UNEXPLAINED)
    return PROSE["explained_share"](*(part / whole for part in (whole - unknown - unexplained, unknown, unexplained)))
