"""Whether two traces show the same thing, so that a difference of their iterations means something."""

from collections.abc import Iterator

import numpy as np

from speedproof.results.summary import Summary
from speedproof.trace.causes import HOST, NO_RANGE

_SHARED = 0.5  # of the kinds of time that one variant spends: with less in common, programs are others
_MOSTLY = 0.5
_SAME = 0.05  # of an iteration: the same one, by its ranges and by its kernels
_CUT = 2  # iterations, the first and the last, that kernels may not show


def find_obstacle(a: Summary, b: Summary) -> str | None:
    """Return why these two cannot be compared; None if they can."""
    for summary, variant in ((a, "the first"), (b, "the second")):
        if not summary.recorded:
            return f"too little of {variant}'s GPU work was recorded; profile it again"
        if summary.found.by == "nothing":
            return f"no iterations in {variant}; name the range of an iteration (--epoch), or compare whole traces (--whole)"
    if a.has_gpu != b.has_gpu:
        return "only one was recorded with a GPU; compare two runs on the same device"
    if (a.found.by, a.found.unit) != (b.found.by, b.found.unit):
        first, second = (f"{found.one} `{found.name}`" for found in (a.found, b.found))
        return (
            f"an iteration of the first is {first}, of the second {second}; choose a range that both have (--epoch), or --whole"
        )
    return None


def list_doubts(a: Summary, b: Summary) -> Iterator[str]:
    """Yield reasons to doubt that two traces' iterations are comparable."""
    for what, one, other in (
        ("GPUs", len(a.devices), len(b.devices)),
        ("processes with a GPU", _count_users(a), _count_users(b)),
    ):
        if one != other:
            yield f"they used {one} and {other} {what}: an iteration may not be the same work"
    if (shared := _share_phases(a, b)) < _SHARED:
        yield f"their programs share few ranges ({shared:.0%} of the time in ranges is in shared ones)"
    for summary, variant in ((a, "first"), (b, "second")):
        seen = len(summary.epochs) + summary.found.left_out
        if summary.found.left_out > _MOSTLY * seen:
            yield f"{summary.found.left_out} of {seen} {summary.found.unit}s of the {variant} are left out"


def describe_unexplained(terms: dict[str, float], residual_s: float, total_s: float) -> str | None:
    """Return a note if most of a difference has no explanation, else None.

    Args:
        terms: seconds of the difference by the name of its terms
        residual_s: what no term holds
        total_s: their sum

    """
    unknown_s = sum(seconds for name, seconds in terms.items() if name in (HOST, NO_RANGE))
    if abs(residual_s) > _MOSTLY * abs(total_s):
        return f"most of the difference cannot be explained: {residual_s:+.6f} of {total_s:+.6f} s are kernels of no phase"
    if abs(unknown_s + residual_s) > _MOSTLY * abs(total_s):
        return f"most of the difference is host time that the traces do not explain: {unknown_s:+.6f} s"
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
