"""What a ratio and its quality say of what a proof claims: for its verdict and its report alike."""

from typing import Literal

from speedproof.results.claim import Claim
from speedproof.results.comparison import QualityCheck, Ratio
from speedproof.results.quality import Quality
from speedproof.stats.metrics import METRICS
from speedproof.stats.non_inferiority import check_variant

# Without a claim, how the second variant compares with the first.
Proof = Literal[
    "faster", "slower", "equivalent", "claim holds", "claim fails", "inconclusive", "worse quality", "quality not established"
]


def check_claimed(ratio: Ratio, claim: Claim | None, rule: Quality) -> QualityCheck | None:
    """Return whether the variant of :func:`name_judged` learns as well as the other."""
    if ratio.quality is None:
        return None
    return check_variant(ratio.quality, rule, "candidate" if name_judged(ratio, claim) == ratio.candidate else "reference")


def name_judged(ratio: Ratio, claim: Claim | None) -> str:
    """Return the variant whose quality is judged: the one that the claim names, if it claims a least speedup; else the faster.

    A claim such as '>= 0.9' may hold for a variant that is slower, and learns less. A claim is about the variant that a ratio
    above 1 favours: for a time, the candidate.
    """
    first, second = ratio.reference, ratio.candidate
    if not METRICS[ratio.metric].lower_is_better:
        first, second = second, first
    return second if ratio.centre >= 1 or (claim is not None and claim.low is not None) else first


def judge_ratio(ratio: Ratio, claim: Claim | None, rule: Quality) -> Proof:
    """Return what a ratio and its quality say of the claim; without one, how the two variants compare."""
    if ratio.low is None or ratio.high is None or ratio.outcome == "no verdict" or ratio.contested:
        return "inconclusive"
    found: Proof = ratio.outcome if claim is None else claim.judge(ratio.low, ratio.high)
    quality = check_claimed(ratio, claim, rule)
    if found not in ("faster", "slower", "claim holds") or rule.margin is None or quality is None:
        return found
    match quality.outcome:
        case "worse":
            return "worse quality"
        case "no worse":
            return found
        case _:
            return found if is_better(ratio, quality, claim, rule) else "quality not established"


def is_better(ratio: Ratio, quality: QualityCheck, claim: Claim | None, rule: Quality) -> bool:
    """Return whether the quality of the variant of :func:`name_judged` is better than the other's by more than the margin.

    That may not be established across seeds, but a better quality does not put a speedup in doubt.
    """
    own, other = quality.candidate_quality, quality.reference_quality
    if own is None or other is None or quality.diverged:
        return False
    if name_judged(ratio, claim) == ratio.reference:
        own, other = other, own
    return rule.is_worse(other, own)


def is_hidden_by_digits(ratio: Ratio, claim: Claim | None, rule: Quality) -> bool:
    """Return whether a ratio is inconclusive only because its times were printed with too few digits."""
    if ratio.printed is None or ratio.contested or judge_ratio(ratio, claim, rule) != "inconclusive":
        return False
    exact = ratio.model_copy(update=ratio.printed.model_dump(include={"low", "high", "outcome"}))
    return judge_ratio(exact, claim, rule) != "inconclusive"
