"""Whether a variant's processes outlive its program: they are killed, and what they would still have done is in no time."""

from statistics import fmean
from typing import TYPE_CHECKING

from speedproof.results.objections import Objection

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
    sides = [[run.observed for run in runs] for runs in zip(*examined.pairs, strict=True)]
    names = examined.variants
    found = []
    for variant, own, other in zip(names, sides, reversed(sides), strict=True):
        left, others_left = (max(run.left_processes for run in runs) for runs in (own, other))
        if not left:
            continue
        cpu_s, others_cpu_s = (fmean(run.left_cpu_s or 0.0 for run in runs) for runs in (own, other))
        worked = examined.favoured in (variant, None) and cpu_s >= max(_LEAST_S, _MORE * others_cpu_s)
        values = {"processes": float(left)} | ({"cpu_s": cpu_s, "other_cpu_s": others_cpu_s} if worked else {})
        found.append(Objection(kind="left processes", variant=variant, blocks=left > others_left or worked, values=values))
    return found
