"""Whether the slower variant may be slow because other commands removed or changed what it had before the proof."""

from statistics import median
from typing import TYPE_CHECKING

from speedproof.results.objections import Objection
from speedproof.stats.carried_over import list_kinds_of
from speedproof.stats.warm_up_check import find_warm_up, read_typical_times

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined


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
