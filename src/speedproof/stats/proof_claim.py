"""What a ratio and its quality say of what a proof claims: for its verdict and its report alike."""

from typing import Literal

from speedproof.results.asked import Claim
from speedproof.results.comparison import QualityCheck, Ratio
from speedproof.results.quality import Quality
from speedproof.stats.metrics import METRICS
from speedproof.stats.non_inferiority import check_side

Proof = Literal["shown", "refuted", "undecided", "worse quality", "quality not shown"]


def check_claimed(ratio: Ratio, claim: Claim | None, rule: Quality) -> QualityCheck | None:
    """Return whether the side of :func:`name_judged` learns as well as the other."""
    if ratio.quality is None:
        return None
    return check_side(ratio.quality, rule, "denominator" if name_judged(ratio, claim) == ratio.denominator else "numerator")


def name_judged(ratio: Ratio, claim: Claim | None) -> str:
    """Return the side whose quality is judged: the second, if it is claimed to be so fast at least; else the faster.

    Who claims that it is no slower than by a tenth may be right of a side that is slower, and learns less. The second side is
    the one that is better where the ratio is above 1: of a time, the denominator.
    """
    first, second = ratio.numerator, ratio.denominator
    if not METRICS[ratio.metric].lower_is_better:
        first, second = second, first
    return second if ratio.centre >= 1 or (claim is not None and claim.low is not None) else first


def judge_ratio(ratio: Ratio, claim: Claim | None, rule: Quality) -> Proof:
    """Return what a ratio and its quality say of the claim; without one, of whether there is a difference."""
    if ratio.low is None or ratio.high is None or ratio.outcome == "no verdict":
        return "undecided"
    if claim is not None:
        found: Proof = claim.judge(ratio.low, ratio.high)
    elif ratio.outcome == "same":
        found = "refuted"
    else:
        found = "shown" if ratio.outcome in ("faster", "slower") else "undecided"
    quality = check_claimed(ratio, claim, rule)
    if found != "shown" or rule.margin is None or quality is None:
        return found
    match quality.outcome:
        case "worse":
            return "worse quality"
        case "no worse":
            return "shown"
        case _:
            return "quality not shown"
