"""Whether a claim still holds of a ratio once it is corrected for what its reports leave out.

Other checks ask whether there is a gain, so they leave half of it to what programs do besides. A claim asks for all of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from speedproof.results.objections import Objection
from speedproof.stats.clocks import TOLERANCE, ClockPair, find_unreported, pair_clocks
from speedproof.stats.metrics import METRICS
from speedproof.stats.time_outside import count_ranks, list_excesses, sum_excesses

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

_NAMED = 0.1  # of what is lost: a smaller part is not worth a clause


@dataclass(frozen=True)
class _Claimed:
    """A ratio as it favours the variant that the claim does, and the least that is claimed of it; both as logarithms."""

    variant: str
    ratio: float
    least: float
    pairs: Sequence[ClockPair]  # that variant first


def check_claimed_ratio(examined: "Examined") -> list[Objection]:
    """Object if a claim that the ratio shows does not hold of it as it is corrected."""
    claimed = _read_claim(examined)
    if claimed is None:
        return []
    observed, values = _find_observed(claimed)
    lost, parts = _find_lost(claimed)
    corrected = observed - lost
    if corrected >= claimed.least or claimed.ratio - corrected <= TOLERANCE:  # two equivalent ratios are alike
        return []
    values |= {"reported": math.exp(claimed.ratio), "corrected": math.exp(corrected), "claimed": math.exp(claimed.least)}
    return [Objection(kind="claimed ratio", variant=claimed.variant, blocks=True, values=values | parts)]


def _read_claim(examined: "Examined") -> _Claimed | None:
    """Return what is claimed, if the ratio shows it and there are reports to be checked."""
    claim, interval, pairs = examined.claim, examined.interval, pair_clocks(examined)
    if claim is None or interval is None or not pairs or claim.judge(interval.low, interval.high) != "claim holds":
        return None
    is_least = claim.low is not None  # a ratio of at most 1.1 favours the other variant
    candidate = METRICS[examined.metric].lower_is_better == is_least
    return _Claimed(
        variant=examined.candidate if candidate else examined.reference,
        ratio=math.log(examined.centre) * (1 if is_least else -1),
        least=math.log(claim.value) * (1 if is_least else -1),
        pairs=[pair[::-1] for pair in pairs] if candidate else pairs,
    )


def _find_observed(claimed: _Claimed) -> tuple[float, dict[str, float]]:
    """Return the ratio as far as our clock supports it, and the numbers that say so."""
    if claimed.pairs[0][0].rates:
        known = [(one, other) for one, other in claimed.pairs if one.observed_s and other.observed_s]
        if len(known) < len(claimed.pairs) or any(one.epochs != other.epochs for one, other in known):
            return claimed.ratio, {}
        observed = fmean(math.log((other.observed_s or 1.0) / (one.observed_s or 1.0)) for one, other in known)
        return min(claimed.ratio, observed), {"observed": math.exp(observed)} if observed < claimed.ratio else {}
    left = find_unreported(claimed.pairs)
    if left is None or not left.significant or left.hidden <= 0:
        return claimed.ratio, {}
    return claimed.ratio - left.hidden, {"observed": left.values["observed"]}


def _find_lost(claimed: _Claimed) -> tuple[float, dict[str, float]]:
    """Return by how much the logarithm is lower with what the variant takes longer elsewhere, and that in seconds by parts."""
    pairs, ranks = claimed.pairs, count_ranks(claimed.pairs)
    excesses = {name: values for name, values in list_excesses(pairs).items() if name != "unreported_s"}
    together = sum_excesses(excesses)
    # If our clock did not see the epochs, a part of them may be unreported, which is longer if they are. The process has all.
    whole = fmean(math.log(other.process_s / one.process_s) for one, other in pairs)
    if together.least <= 0 or ("elsewhere_s" in excesses and whole >= claimed.least):
        return 0.0, {}
    base_s = fmean(one.epochs * (one.observed_s or one.reported_s) / ranks for one, _ in pairs)
    digits_s = 0.0 if pairs[0][0].rates else max(one.epochs * (one.resolution_s + other.resolution_s) for one, other in pairs)
    means = {name: fmean(values) for name, values in excesses.items()}
    parts = {name: mean for name, mean in means.items() if mean >= _NAMED * together.centre}
    return math.log1p(max(0.0, together.centre - digits_s) / base_s), parts
