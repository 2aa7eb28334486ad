"""What a run leaves behind: processes, work on the GPU, files that later runs find spoilt."""

from collections.abc import Sequence
from statistics import fmean, geometric_mean, median
from typing import TYPE_CHECKING

from speedproof.results.comparison_rows import Objection
from speedproof.results.folder import MeasuredRun
from speedproof.stats.carried_over import list_kinds_of
from speedproof.stats.metrics import METRICS
from speedproof.stats.warm_up_check import find_warm_up, read_typical_times

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined


# By how much left processes have to differ in CPU time, which the system counts in hundredths of a second. On two cores under a
# load of three, a helper that both leave had 0.01 s in each of 12 runs, and `sleep` none. A worker that begins when its program
# ends had 0.05 to 0.07 s when it was killed.
_LEAST_S, _MORE = 0.03, 1.5


def check_left_processes(examined: "Examined") -> list[Objection]:
    """Object if a variant leaves more processes than the other; or, unless that is the faster one, some that worked more.

    What both leave, such as a logger, favours neither.
    """
    observed = [[run.observed for run in runs] for runs in zip(*examined.pairs, strict=True)]
    names = examined.variants
    found = []
    for variant, own, other in zip(names, observed, reversed(observed), strict=True):
        left, others_left = (max(run.left_processes for run in runs) for runs in (own, other))
        if not left:
            continue
        cpu_s, others_cpu_s = (fmean(run.left_cpu_s or 0.0 for run in runs) for runs in (own, other))
        worked = examined.favoured in (variant, None) and cpu_s >= max(_LEAST_S, _MORE * others_cpu_s)
        values = {"processes": float(left)} | ({"cpu_s": cpu_s, "other_cpu_s": others_cpu_s} if worked else {})
        found.append(Objection(kind="left processes", variant=variant, blocks=left > others_left or worked, values=values))
    return found


# Of fewer epochs the median may be of a line that arrived late.
_LEAST_EPOCHS = 3
# Of the epoch. On an H200 (torch.profiler, epochs of 0.1 and 1 s, arrival of lines up to 0.3 ms late) programs that synchronize
# or read a loss have none at all in 28 epochs; one that does not has 76 to 97 % of what its epochs really take.
_OVERHANG_FROM = 0.01
_EATS_FROM = 0.1  # of the gain: what is left is nine tenths of it or more


def check_late_gpu_work(examined: "Examined") -> list[Objection]:
    """Object if the GPU works on after the faster variant's epochs for longer than after the other's.

    It blocks if that is more than a tenth of what an epoch gains.
    """
    metric = METRICS[examined.metric]
    if metric.printed != "epoch":
        return []
    overhangs = [_find_overhang(runs) for runs in examined.profiled]
    fast = examined.faster
    own, other = overhangs[fast], overhangs[1 - fast]
    if own is None or other is None:
        return []
    epochs_s = [geometric_mean(values) for values in zip(*examined.values, strict=True)]
    excess_s = own - other
    if excess_s <= _OVERHANG_FROM * epochs_s[fast]:
        return []
    blocks = excess_s > _EATS_FROM * (epochs_s[1 - fast] - epochs_s[fast])
    whose = examined.variants[fast]
    values = {"overhang_s": own, "other_overhang_s": other}
    return [Objection(kind="gpu still busy", variant=whose, blocks=blocks, values=values)]


def _find_overhang(runs: Sequence[MeasuredRun]) -> float | None:
    """Return for how long the GPU works on after a variant's epochs, the median; None if too few are known."""
    found = [seconds for run in runs if run.summary for seconds in run.summary.gpu_overhang_s]
    return median(found) if len(found) >= _LEAST_EPOCHS else None


def check_spoilt(examined: "Examined") -> list[Objection]:
    """Object if the slower variant never ran with a file as it was before the proof, and writes none of its kind itself."""
    _, _, times_s = read_typical_times(examined)
    if not all(times_s):
        return []
    slower = 0 if median(times_s[0]) > median(times_s[1]) else 1
    warm_up = find_warm_up(examined.pairs, slower)
    if warm_up is None or not warm_up.spoilt:
        return []
    runs = [pair[slower].run.observed for pair in examined.pairs]
    written = [*warm_up.changed, *(name for seen in runs if seen is not None for name in seen.changed)]
    kinds = {kind for name in written for kind in list_kinds_of(name)}
    names = [name for name in warm_up.spoilt if kinds.isdisjoint(list_kinds_of(name))]
    variant = examined.variants[slower]
    return [Objection(kind="spoilt", variant=variant, blocks=True, names=names)] if names else []
