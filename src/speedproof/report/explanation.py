"""Why one variant is faster, in sentences: every number is a term of the exact difference, or of a trace's summary."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from speedproof.results.summary import Epoch, IdleGap, Summary, name_one
from speedproof.results.trace_results import Difference
from speedproof.util.numbers import format_value

# Causes and phases are named until they make up this share of what there is to explain, but never more than this many.
_ENOUGH = 0.9
_MOST = 4


def describe_gpu_use(title: str, summary: Summary) -> str:
    """Return how busy a variant keeps its GPU, what it waits for, and which kernels run, in seconds per iteration."""
    causes = _sum_by_name((_name_cause(idle_gap), idle_gap.seconds_per_epoch) for idle_gap in summary.idle_gaps)
    reasons = ", ".join(f"{_seconds(seconds)} {cause}" for cause, seconds in _largest(causes))
    sentences = [f"{title} keeps its GPU busy {_measure_busy(summary.steady_epochs)} of the time{_describe_training(summary)}."]
    if reasons:
        sentences.append(f"Time without a kernel per {summary.found.unit}: {reasons}.")
    if summary.kernels:
        sentences.append(_describe_kernels(summary))
    return " ".join(sentences)


def describe_idleness(title: str, summary: Summary) -> str:
    """Return in one sentence how busy a trace's GPU is, and why it mostly waits."""
    busy = f"{title} keeps its GPU busy {_measure_busy(summary.steady_epochs)} of the time"
    causes = _sum_by_name((_name_cause(idle_gap), idle_gap.seconds_per_epoch) for idle_gap in summary.idle_gaps)
    if not causes:
        return f"{busy}."
    cause, seconds = max(causes.items(), key=lambda one: one[1])
    return f"{busy}; its largest idle time per {summary.found.unit} is {_seconds(seconds)} {cause}."


def explain_difference(difference: Difference, title_a: str, title_b: str) -> str:
    """Return a paragraph that says why an epoch of the second variant takes longer or shorter; both used a GPU."""
    lengths = f"{_seconds(difference.epoch_a_s)} in {title_a} and {_seconds(difference.epoch_b_s)} in {title_b}"
    idle, kernels = _changes(difference, "idle"), _changes(difference, "gpu")
    share = ", with its share of validation," if difference.unit == "epoch" else " of the trace"
    return " ".join(
        [
            f"{name_one(difference.unit).capitalize()}{share} takes {lengths}: {_less_or_more(difference.total_s)}.",
            f"The time without a kernel changes by {_signed(sum(idle.values()))}: {_list_changes(idle)}.",
            f"The kernels' time changes by {_signed(sum(kernels.values()))}: {_list_changes(kernels)}.",
            f"No rule explains {_seconds(abs(difference.residual_s))} of it.",
        ]
    )


def measure_training_phases(summary: Summary) -> dict[str, float]:
    """Return the seconds that an epoch's training spends in each phase on the CPU, and between phases."""
    seconds = {phase.name: 0.0 for phase in summary.phases if phase.part == "training"}
    for phase in summary.phases:
        if phase.part == "training":
            seconds[phase.name] += phase.wall_s / len(summary.epochs)
    mean_s = sum(epoch.training_s for epoch in summary.epochs) / len(summary.epochs)
    seconds["between phases"] = max(0.0, mean_s - sum(seconds.values()))
    return seconds


def _measure_busy(epochs: Sequence[Epoch]) -> str:
    length_s = sum(epoch.duration_s for epoch in epochs)
    return format_value(sum(epoch.gpu_busy_fraction * epoch.duration_s for epoch in epochs) / length_s, "%")


def _describe_training(summary: Summary) -> str:
    """Return how busy the GPU is in epochs that do not validate, if some do."""
    training = [epoch for epoch in summary.steady_epochs if not epoch.validates]
    mixed = 0 < len(training) < len(summary.steady_epochs)
    return f", {_measure_busy(training)} in epochs that do not validate" if mixed else ""


def _changes(difference: Difference, kind: str) -> dict[str, float]:
    return _sum_by_name((term.name, term.seconds_per_epoch) for term in difference.terms if term.kind == kind)


def _describe_kernels(summary: Summary) -> str:
    """Return one sentence on the largest group of kernels, and on its longest kernel."""
    groups = _sum_by_name((kernel.group, kernel.seconds_per_epoch) for kernel in summary.kernels)
    (first, first_s), *others = sorted(groups.items(), key=lambda group: -group[1])[:2]
    top = max(summary.kernels, key=lambda kernel: kernel.seconds_per_epoch)
    second = f" and {others[0][0]} ({_seconds(others[0][1])})" if others else ""
    longest = f"the longest kernel in total, a {top.group}, takes {format_value(top.total_s / top.calls, 's')} per call"
    return f"Its kernels are mostly {first} ({_seconds(first_s)} per {summary.found.unit}){second}; {longest}."


def _name_cause(idle_gap: IdleGap) -> str:
    return f"{idle_gap.cause} ({idle_gap.detail})" if idle_gap.detail else idle_gap.cause


def _sum_by_name(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in parts:
        sums[name] += seconds
    return sums


def _list_changes(changes: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_signed(seconds)}" for name, seconds in _largest(changes)) or "nothing"


def _largest(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the parts of greatest size, until they make up most of the sum of sizes."""
    whole, named, chosen = sum(map(abs, parts.values())), 0.0, []
    for name, seconds in islice(sorted(parts.items(), key=lambda part: -abs(part[1])), _MOST):
        if named >= _ENOUGH * whole:
            break
        chosen.append((name, seconds))
        named += abs(seconds)
    return chosen


def _less_or_more(seconds: float) -> str:
    return f"{_seconds(abs(seconds))} {'less' if seconds < 0 else 'more'}"


def _signed(seconds: float) -> str:
    return f"{'−' if seconds < 0 else '+'}{_seconds(abs(seconds))}"


def _seconds(seconds: float) -> str:
    return format_value(seconds, "s")
