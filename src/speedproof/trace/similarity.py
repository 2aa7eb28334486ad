"""Whether two traces show the same thing, so that a difference of their iterations means something."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from speedproof.results.summary import Summary
from speedproof.trace.causes import HOST, NO_RANGE
from speedproof.trace.kernel_groups import OTHER
from speedproof.trace.roles import EPOCH, is_optimizer_step

_SHARED = 0.5  # of the kinds of time that one variant spends: with less in common, programs are others
_MOSTLY = 0.5
_AS_MANY = 1.8  # times as many launches: of micro-batches against steps it is two or more
_SAME = 0.05  # of an iteration: the same one, by its ranges and by its kernels
_CUT = 2  # iterations, the first and the last, that kernels may not show


def find_obstacle(a: Summary, b: Summary) -> str | None:
    """Return why these two cannot be compared; None if they can."""
    for summary, variant in ((a, "the first"), (b, "the second")):
        if not summary.recorded:
            return f"too little of {variant}'s GPU work was recorded; profile it again"
        if summary.found.by == "nothing":
            return (
                f"no iterations in {variant} (they repeat, and hold at least half of the GPU time); name the range of an "
                "iteration (--epoch), or compare whole traces (--whole)"
            )
    if a.has_gpu != b.has_gpu:
        return "only one was recorded with a GPU; compare two runs on the same device"
    if (a.found.by, a.found.unit) != (b.found.by, b.found.unit):
        return _describe_units(a, b)
    if a.found.name != b.found.name and a.has_gpu and not _share_kernels(a, b):
        return f"their iterations, `{a.found.name}` and `{b.found.name}`, share no kernels; give traces of the same program"
    return None


def find_shared_range(a: Summary, b: Summary) -> str | None:
    """Return which of two traces' iterations both have, by the name of their ranges; of two, those that cover more."""
    if {a.found.by, b.found.by} != {"ranges"} or a.found.name == b.found.name:
        return None
    covers = [{candidate.name: candidate.coverage for candidate in summary.candidates} for summary in (a, b)]
    shared = [summary.found.name for summary in (a, b) if all(summary.found.name in one for one in covers)]
    return max(shared, key=lambda name: min(one[name] for one in covers), default=None)


def find_other_kind(a: Summary, b: Summary) -> str | None:
    """Return why an optimizer's steps and a program's ranges cannot be compared: without kernels, nothing relates them."""
    if a.has_gpu or is_optimizer_step(a.found.name) == is_optimizer_step(b.found.name):
        return None
    return _describe_units(a, b)


def _describe_units(a: Summary, b: Summary) -> str:
    first, second = (f"{found.one} `{found.name}`" for found in (a.found, b.found))
    return f"an iteration of the first is {first}, of the second {second}; choose a range that both have (--epoch), or --whole"


def find_condition(a: Summary, b: Summary) -> str | None:
    """Return what must be true for a difference per iteration to mean something, if the traces give reason to doubt it."""
    if a.found.name == b.found.name and (a.found.name == EPOCH or a.found.by == "choice"):
        return None
    times, shared = _compare_launches(a, b), _share_kernels(a, b)
    why = []
    if _plain(a.found.name) != _plain(b.found.name):
        why.append(f"their ranges are `{a.found.name}` and `{b.found.name}`")
    if times is not None and not 1 / _AS_MANY < times < _AS_MANY:
        more, number = ("B", times) if times > 1 else ("A", 1 / times)
        why.append(f"{more} launches the same kernels {number:.3g} times as often in it")
    if a.has_gpu and shared < _SHARED:
        why.append(f"{shared:.0%} of their GPU time is in kinds of kernels that both have")
    return f"{a.found.one} is the same work in both ({'; '.join(why)})" if why else None


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _share_kernels(a: Summary, b: Summary) -> float:
    """Return the share of an iteration's GPU time in kinds of kernels of both, for the variant with the lower share."""
    times = [defaultdict[str, float](float), defaultdict[str, float](float)]
    for variant, summary in zip(times, (a, b), strict=True):
        for kernel in summary.kernels:
            if kernel.seconds_per_epoch:
                variant[kernel.name if kernel.group == OTHER else kernel.group] += kernel.seconds_per_epoch
    if not all(times):
        return 1.0
    common = set(times[0]) & set(times[1])
    return min(sum(variant[kind] for kind in common) / sum(variant.values()) for variant in times)


def _compare_launches(a: Summary, b: Summary) -> float | None:
    """Return how often `b` launches in an iteration what `a` launches once: the median of their shared kernels, by time."""
    calls = [
        {
            kernel.name: (kernel.calls / (len(summary.epochs) + summary.found.left_out), kernel.seconds_per_epoch)
            for kernel in summary.kernels
            if kernel.seconds_per_epoch
        }
        for summary in (a, b)
    ]
    ratios = sorted((calls[1][name][0] / one, calls[1][name][1] + s) for name, (one, s) in calls[0].items() if name in calls[1])
    if not ratios:
        return None
    times, weights = np.array(ratios).T
    return float(times[np.searchsorted(np.cumsum(weights), weights.sum() / 2)])


def list_doubts(a: Summary, b: Summary) -> Iterator[str]:
    """Yield reasons to doubt that two traces' iterations are comparable."""
    for what, one, other in (
        ("GPUs", len(a.devices), len(b.devices)),
        ("processes with a GPU", _count_users(a), _count_users(b)),
    ):
        if one != other:
            yield f"they used {one} and {other} {what}: an iteration may not be the same work"
    if a.devices and b.devices and set(a.devices) != set(b.devices):
        yield f"they ran on different GPUs ({', '.join(dict.fromkeys(a.devices))}; {', '.join(dict.fromkeys(b.devices))})"
    if (shared := _share_phases(a, b)) < _SHARED:
        yield f"their programs share few ranges ({shared:.0%} of the time in ranges is in those that both have)"
    for summary, variant in ((a, "first"), (b, "second")):
        seen = len(summary.epochs) + summary.found.left_out
        if summary.found.left_out > _MOSTLY * seen:
            yield f"{summary.found.left_out} of {seen} {summary.found.unit}s of the {variant} are not counted"


def describe_unexplained(terms: dict[str, float], residual_s: float, total_s: float) -> str | None:
    """Return a note if most of a difference has no explanation, else None.

    Args:
        terms: seconds of the difference by the name of its terms
        residual_s: what no term holds
        total_s: their sum

    """
    unknown_s = sum(seconds for name, seconds in terms.items() if name in (HOST, NO_RANGE))
    if abs(residual_s) > _MOSTLY * abs(total_s):
        return (
            f"most of the difference cannot be explained: {1e3 * residual_s:+.3f} of {1e3 * total_s:+.3f} ms belong to no phase"
        )
    if abs(unknown_s + residual_s) > _MOSTLY * abs(total_s):
        return f"most of the difference is host time that the traces do not explain: {1e3 * unknown_s:+.3f} ms"
    return None


def match_process(a: Summary, b: Summary) -> int | None:
    """Return the process of `b` on the same GPUs as the summarised one of `a`; None if `b` summarises it already."""
    (mine,) = (process for process in a.processes if process.summarized) if a.processes else (None,)
    if mine is None or len(b.processes) < 2:
        return None
    alike = [process for process in b.processes if process.devices == mine.devices]
    return alike[0].process if len(alike) == 1 and not alike[0].summarized else None


def marks_differ(a: Summary, b: Summary) -> bool:
    """Return whether ranges mark the iterations of one, and kernels show those of the other."""
    return {a.found.by, b.found.by} == {"ranges", "repetition"}


def repeats_alike(found: Summary, by_kernels: Summary) -> bool:
    """Return whether a trace's kernels repeat as often, and as fast, as its iterations come."""
    if by_kernels.found.by != "repetition" or not by_kernels.recorded:
        return False
    lengths = [np.median([epoch.duration_s for epoch in one.steady_epochs]) for one in (found, by_kernels)]
    counts = [len(one.epochs) + one.found.left_out for one in (found, by_kernels)]
    return bool(abs(lengths[1] - lengths[0]) <= _SAME * lengths[0]) and abs(counts[1] - counts[0]) <= _CUT


def _count_users(summary: Summary) -> int:
    return sum(process.gpu_busy_s > 0 for process in summary.processes)


def _share_phases(a: Summary, b: Summary) -> float:
    """Return the share of the phases' time that lies in phases of both, for the variant with the lower share."""
    lengths = [{phase.name: phase.wall_s for phase in summary.phases if phase.part != "outside"} for summary in (a, b)]
    if not all(lengths):
        return 1.0
    common = set(lengths[0]) & set(lengths[1])
    return min(sum(variant[name] for name in common) / max(sum(variant.values()), 1e-12) for variant in lengths)
