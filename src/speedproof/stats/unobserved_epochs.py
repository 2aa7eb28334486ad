"""Whether a ratio rests on epochs that our own clock did not see, and whether these may hide what a variant gains."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from speedproof.results.objections import Objection
from speedproof.stats.clocks import LEAST_SEEN, ClockPair, Clocks, pair_clocks

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

# The share of its runs in which our clock sees the epochs of a variant that counts as observed. On a busy machine it misses
# single runs (`arrivals._LATE_S`); a program that knows the round may be honest in the first ones alone.
_SEEN = 0.5
_EATEN = 0.5  # of a gain, as by time outside of epochs that both are seen


def check_unobserved(examined: "Examined") -> list[Objection]:
    """State whose epochs our clock did not see; object if it saw the other's alone, and what it did not see may be the gain.

    If both are unseen, their processes are compared; a long start-up of the one would hide the other's work there.
    """
    pairs = pair_clocks(examined)
    if not pairs:
        return []
    sides = examined.variants
    causes = [_name_cause([pair[side] for pair in pairs]) for side in (0, 1)]
    if causes[0] and causes[0] == causes[1]:
        return [Objection(kind="unobserved", blocks=False, names=[causes[0]])]
    found = []
    for side, cause in enumerate(causes):
        if not cause:
            continue
        ordered = [(pair[side], pair[1 - side]) for pair in pairs]
        hidden = {} if causes[1 - side] else _find_hidden(examined, sides[side], ordered)
        found.append(Objection(kind="unobserved", variant=sides[side], blocks=bool(hidden), values=hidden, names=[cause]))
    return found


def _name_cause(runs: Sequence[Clocks]) -> str | None:
    """Return why our clock did not see a variant's epochs in most runs; None if it did."""
    unseen = [run.arrivals for run in runs if run.observed_s is None]
    seen = len(runs) - len(unseen)
    return Counter(unseen).most_common(1)[0][0] if seen < max(LEAST_SEEN, _SEEN * len(runs)) else None


def _find_hidden(examined: "Examined", variant: str, pairs: Sequence[ClockPair]) -> dict[str, float]:
    """Return what the unseen variant's process takes besides its reports, if half of what these gain may lie there.

    Of a variant that is called equivalent, which gains nothing, it is half of all its epochs. Nothing if it is less.
    """
    reported = [(one, *_find_reported(one, other)) for one, other in pairs if other.observed_s]
    outside_s = fmean(one.process_s - total_s for one, total_s, _ in reported)
    if variant == examined.favoured:
        gain_s = fmean(gain_s for *_, gain_s in reported)
        return {"outside_s": outside_s, "gain_s": gain_s} if outside_s >= _EATEN * gain_s else {}
    if examined.outcome != "equivalent":
        return {}
    return {"outside_s": outside_s} if outside_s >= _EATEN * fmean(total_s for _, total_s, _ in reported) else {}


def _find_reported(one: Clocks, other: Clocks) -> tuple[float, float]:
    """Return how long all epochs of an unseen run take by its reports, and how much less that is than by the other's.

    What a first epoch takes more than others counts in no average, so it is left out. Rates do not tell what all epochs take:
    then it is the time between the other's reports, for the same work.
    """
    if not one.rates:
        return one.epochs * one.reported_s, one.epochs * (other.reported_s - one.reported_s)
    others_s = (other.observed_s or 0.0) * other.epochs
    own_s = others_s * one.reported_s / other.reported_s
    return own_s, others_s - own_s
