"""Sentences about a trace, and about the difference of two."""

from collections.abc import Iterator
from statistics import median
from typing import get_args

from speedproof.report.document import VariantName
from speedproof.results.difference import Difference
from speedproof.results.summary import ClockSkew, Communication, Launches, PathClass, SampledMetric, Summary, name_one
from speedproof.util.numbers import format_count, format_value
from speedproof.util.units import MIB

_UNEVEN = 0.1  # of the mean: where the median differs by more, it is said, too


def describe_epochs(summary: Summary) -> str:
    """Return how many iterations there are, how long they last, and how busy the GPU is."""
    if not summary.epochs:
        return "Nothing was traced."
    epochs, unit = summary.steady_epochs, summary.found.unit
    lengths_s = [epoch.duration_s for epoch in epochs]
    length_s = sum(lengths_s)
    mean_s, median_s = length_s / len(epochs), median(lengths_s)
    warm_up = "" if len(epochs) == len(summary.epochs) else ", without the first, which warms up"
    uneven = f", median {format_value(median_s, 's')}" if abs(mean_s - median_s) > _UNEVEN * mean_s else ""
    if unit == "stretch":
        text = f"One stretch of {format_value(length_s, 's')}"
    else:
        text = f"{format_count(len(summary.epochs), unit)}; mean {format_value(mean_s, 's')}{uneven}{warm_up}"
    if not summary.recorded:
        return f"{text}; of the GPU's work too little was recorded to say how busy it was."
    if not summary.has_gpu:
        return f"{text}; no GPU was used."
    kernel, gpu = (
        sum(getattr(epoch, f"{kind}_busy_fraction") * epoch.duration_s for epoch in epochs) / length_s
        for kind in ("kernel", "gpu")
    )
    return (
        f"{text}; {', '.join(summary.devices)} busy {format_value(gpu, '%')} of it, {format_value(kernel, '%')} with kernels."
    )


def describe_main_cause(summary: Summary) -> str:
    """Return the largest cause of time without a kernel, of which there must be some."""
    most = max(summary.idle_gaps, key=lambda idle_gap: idle_gap.seconds_per_epoch)
    cause = f"{most.cause} ({most.detail})" if most.detail else most.cause
    return f"Without a kernel it is mostly for {format_value(most.seconds_per_epoch, 's')} of {summary.found.one}: {cause}."


def describe_epoch_change(a: str, b: str, difference: Difference) -> list[str]:
    """Return in a sentence by how much the mean epoch of the trace `b` is longer or shorter than that of `a`."""
    lengths = f"{format_value(difference.epoch_b_s, 's')} against {format_value(difference.epoch_a_s, 's')}"
    unit = name_one(difference.unit)
    if not difference.total_s:
        return [VariantName(b), f" takes as long {unit} as ", VariantName(a), f": {lengths}."]
    change = f"{format_value(abs(difference.total_s), 's')} {'less' if difference.total_s < 0 else 'more'}"
    return [VariantName(b), f" takes {change} {unit} than ", VariantName(a), f": {lengths}."]


def describe_ideal(summary: Summary) -> str:
    """Return how long an iteration would be without idle time, and with data loaded beside it."""
    ideal, overlapped = (format_value(value, "s") for value in (summary.ideal_epoch_s, summary.overlapped_epoch_s))
    unit = f"a training {summary.found.unit}" if summary.validates else summary.found.one
    return f"{unit[0].upper()}{unit[1:]} without idle gaps would take {ideal}; max(GPU busy, data time) is {overlapped}."


def describe_communication(communication: Communication) -> str:
    """Return how long GPUs communicate in a mean iteration, and how much of that is hidden."""
    whole, exposed, hidden = (
        format_value(seconds, "s")
        for seconds in (communication.seconds_per_epoch, communication.exposed_s, communication.hidden_s)
    )
    return f"Communication takes {whole}, of which {hidden} are hidden behind other kernels and {exposed} exposed."


def describe_launches(launches: Launches) -> str:
    """Return how long kernels wait for their start, and how many do."""
    call, delay, most = map(format_seconds, (launches.call_s, launches.delay_s, launches.delay_p99_s))
    return (
        f"A launch takes {call} on the CPU (median); its kernel starts {delay} later (median; 99 % within {most}). "
        f"{format_value(launches.queue_mean)} launched kernels wait at a time, {launches.queue_most} at most."
    )


def describe_counters(summary: Summary) -> Iterator[str]:
    """Yield what each GPU's sampled counters say of its use, and how much of its memory was in use."""
    words = {
        "sm_active": "SMs active",
        "tensor_active": "tensor cores active",
        "dram_read": "memory read",
        "dram_write": "written",
    }
    for device in sorted({metric.device for metric in summary.metrics}):
        metrics = [metric for metric in summary.metrics if metric.device == device]
        uses = {metric.role: metric for metric in metrics if metric.role}
        shown = ", ".join(f"{word} {_format_metric(uses[role])}" for role, word in words.items() if role in uses)
        rate = format_value(metrics[0].samples_per_s)
        yield f"GPU {device}, sampled {rate} times a second: {shown or format_count(len(metrics), 'metric')}."
    for memory in summary.memory:
        of = "of its own memory" if memory.kind == "device" else f"of {memory.kind} memory"
        peak, mean, most = (
            f"{format_value(size / MIB)} MiB" for size in (memory.peak_bytes, memory.mean_bytes, memory.trace_peak_bytes)
        )
        yield f"GPU {memory.device}: {of} at most {peak} in use, {mean} in the mean; {most} at most in the whole trace."


def _format_metric(metric: SampledMetric) -> str:
    return f"{format_value(metric.mean)} {metric.unit.replace('Throughput %', '%')}".rstrip()


def describe_paths(summary: Summary) -> str:
    """Return what the critical path of the epochs that count consists of, the largest class first."""
    paths = summary.critical_paths[len(summary.epochs) - len(summary.steady_epochs) :]
    classes = get_args(PathClass)
    sums = {name: sum(getattr(path, f"{name}_s") for path in paths) for name in classes}
    whole = sum(sums.values())
    largest_first = sorted(((name, length) for name, length in sums.items() if length), key=lambda one: -one[1])
    shares = [f"{name} {format_value(length / whole, '%')}" for name, length in largest_first]
    count = {name: sum(path.largest == name for path in paths) for name in classes}
    text = f"The critical path is {', '.join(shares)}"
    if len(paths) > 1:
        unit = summary.found.unit
        most = ", ".join(f"{name} in {format_count(number, unit)}" for name, number in count.items() if number)
        text = f"{text}; the largest part is {most}"
    return f"{text}.{_describe_skew(summary.clock_skew)}"


def _describe_skew(skew: ClockSkew | None) -> str:
    """Return by how much the clocks of host and GPU differ at least, as a further sentence; nothing if no work shows it."""
    if skew is None:
        return ""
    return (
        f" Clock skew: {format_count(skew.events, 'GPU event')} began before the launch, by up to "
        f"{format_value(skew.most_s, 's')}; the path uses the launch as the start."
    )


def describe_explained_share(summary: Summary) -> str:
    """Return how much of the time without a kernel has a cause that is known."""
    from speedproof.trace.idle_gaps import HOST, NO_RANGE, UNEXPLAINED  # which no table of a results folder needs

    whole = sum(idle_gap.total_s for idle_gap in summary.idle_gaps)
    unknown = sum(idle_gap.total_s for idle_gap in summary.idle_gaps if idle_gap.cause in (HOST, NO_RANGE))
    unexplained = sum(idle_gap.total_s for idle_gap in summary.idle_gaps if idle_gap.cause == UNEXPLAINED)
    shares = [format_value(part / whole, "%") for part in (whole - unknown - unexplained, unknown, unexplained)]
    return (
        f"Of the time without a kernel {shares[0]} has a known cause; {shares[1]} is unknown host time, and of {shares[2]} "
        "nothing is known."
    )


def describe_candidates(summary: Summary) -> str:
    """Return which ranges repeat on the loop's thread: what --epoch could choose."""
    ranges = ", ".join(
        f"`{one.name}` ({one.count} of {format_value(one.mean_s, 's')}, {format_value(one.coverage, '%')} of their span)"
        for one in summary.candidates
    )
    return f"Ranges that repeat, for --epoch: {ranges}."


def describe_unattributed(summary: Summary) -> str:
    """Return how much of the GPU's time no phase claims, and why."""
    share = f"No phase claims {format_value(summary.unattributed_fraction, '%')} of the GPU's busy time"
    reasons = ", ".join(f"{format_value(part.fraction, '%')} {part.reason}" for part in summary.unattributed)
    return f"{share}: {reasons}." if reasons else f"{share}."


def format_seconds(value: float | None) -> str:
    """Return a time with its unit, as tables and sentences of traces show it."""
    return format_value(value, "s")
