"""GPU work that an epoch's time leaves out, since the program does not wait for it: named from the traces of profiled runs."""

from collections.abc import Sequence
from statistics import geometric_mean, median
from typing import TYPE_CHECKING

from speedproof.results.folder import MeasuredRun
from speedproof.results.objections import Objection
from speedproof.stats.metrics import METRICS

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

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
