"""Whether the reference is slow only because of files that other variants' warm-ups left: one run of it was without them."""

from statistics import median
from typing import TYPE_CHECKING

from speedproof.results.objections import Objection
from speedproof.stats.warm_up_check import explains_gain, find_warm_up, read_typical_times

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined


def check_slowed(examined: "Examined") -> list[Objection]:
    """Object if the reference is slower and was not without those files; name those that it never ran without."""
    warm_up = find_warm_up(examined.pairs, 0)
    of_epochs, before_s, times_s = read_typical_times(examined)
    if warm_up is None or not all(times_s) or median(times_s[0]) <= median(times_s[1]):
        return []
    without_s = warm_up.without_epoch_s if of_epochs else warm_up.without_s
    if explains_gain(without_s, times_s, 0, before_s[1]):
        what = "epoch" if of_epochs else "process"
        values = {f"timed_{what}_s": median(times_s[0]), f"without_{what}_s": without_s or 0.0}
        return [Objection(kind="slowed", variant=examined.reference, blocks=True, values=values, names=warm_up.hidden)]
    if warm_up.not_hidden:
        return [Objection(kind="may be slowed", variant=examined.reference, blocks=False, names=warm_up.not_hidden)]
    return []
