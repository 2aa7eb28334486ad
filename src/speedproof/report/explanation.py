"""Why one variant is faster, in sentences: every number is a term of the exact difference, or of a trace's summary."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from speedproof.report.accounts import NOTHING_S
from speedproof.report.prose import Prose
from speedproof.results.summary import Epoch, IdleGap, Summary, name_one
from speedproof.results.trace_results import Difference
from speedproof.util.numbers import format_value

_PROSE = Prose("explanation.md.j2")
# Causes and phases are named until they make up this share of what there is to explain, but never more than this many.
_ENOUGH = 0.9
_MOST = 4


def describe_gpu_use(title: str, summary: Summary) -> str:
    """Return how busy a variant keeps its GPU, what it waits for, and which kernels run, in seconds per iteration."""
    epochs, unit = summary.steady_epochs, summary.found.unit
    training = [epoch for epoch in epochs if not epoch.validates]
    mixed = 0 < len(training) < len(epochs)
    sentences = [f"{_PROSE['busy'](title, _measure_busy(epochs), _measure_busy(training) if mixed else None)}."]
    if causes := _largest(_sum_causes(summary)):
        sentences.append(_PROSE["waits"](unit, causes))
    if summary.kernels:
        groups = _sum_by_name((kernel.group, kernel.seconds_per_epoch) for kernel in summary.kernels)
        groups = {name: seconds for name, seconds in groups.items() if seconds > NOTHING_S} or groups
        top = max(summary.kernels, key=lambda kernel: kernel.seconds_per_epoch)
        sentences.append(_PROSE["kernels"](unit, sorted(groups.items(), key=lambda group: -group[1])[:2], top))
    return " ".join(sentences)


def describe_idleness(title: str, summary: Summary) -> str:
    """Return in one sentence how busy a trace's GPU is, and why it mostly waits."""
    busy = _PROSE["busy"](title, _measure_busy(summary.steady_epochs), None)
    causes = _sum_causes(summary)
    if not causes:
        return f"{busy}."
    cause, seconds = max(causes.items(), key=lambda one: one[1])
    return f"{busy}; its largest idle time per {summary.found.unit} is {format_value(seconds, 's')} {cause}."


def explain_difference(difference: Difference, title_a: str, title_b: str) -> str:
    """Return a paragraph that says why an epoch of the second variant takes longer or shorter; both used a GPU."""
    idle, kernels = (
        _sum_by_name((term.name, term.seconds_per_epoch) for term in difference.terms if term.kind == kind)
        for kind in ("idle", "gpu")
    )
    parts = [part for changes in (idle, kernels) for part in (sum(changes.values()), _largest(changes))]
    unknown = abs(difference.residual_s) > NOTHING_S
    return _PROSE["difference"](difference, name_one(difference.unit).capitalize(), (title_a, title_b), *parts, unknown)


def measure_training_phases(summary: Summary) -> dict[str, float]:
    """Return the seconds that an epoch's training spends in each phase on the CPU, and between phases."""
    seconds = {phase.name: 0.0 for phase in summary.phases if phase.part == "training"}
    for phase in summary.phases:
        if phase.part == "training":
            seconds[phase.name] += phase.wall_s / len(summary.epochs)
    mean_s = sum(epoch.training_s for epoch in summary.epochs) / len(summary.epochs)
    seconds["between phases"] = max(0.0, mean_s - sum(seconds.values()))
    return seconds


def _measure_busy(epochs: Sequence[Epoch]) -> float:
    length_s = sum(epoch.duration_s for epoch in epochs)
    return sum(epoch.gpu_busy_fraction * epoch.duration_s for epoch in epochs) / length_s


def _sum_causes(summary: Summary) -> dict[str, float]:
    return _sum_by_name((_name_cause(idle_gap), idle_gap.seconds_per_epoch) for idle_gap in summary.idle_gaps)


def _name_cause(idle_gap: IdleGap) -> str:
    return f"{idle_gap.cause} ({idle_gap.detail})" if idle_gap.detail else idle_gap.cause


def _sum_by_name(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in parts:
        sums[name] += seconds
    return sums


def _largest(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the parts of greatest size, until they make up most of the sum of sizes."""
    whole, named, chosen = sum(map(abs, parts.values())), 0.0, []
    for name, seconds in islice(sorted(parts.items(), key=lambda part: -abs(part[1])), _MOST):
        if named >= _ENOUGH * whole:
            break
        chosen.append((name, seconds))
        named += abs(seconds)
    return chosen
