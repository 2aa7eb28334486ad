"""What a ratio and its quality say of what a proof claims: for its verdict and its report alike."""

from typing import Literal

from speedproof.records.asked import Claim
from speedproof.records.comparison import Ratio

Proof = Literal["shown", "refuted", "undecided", "worse quality", "quality not shown"]


def judge_ratio(ratio: Ratio, claim: Claim | None, margin: float | None) -> Proof:
    """Return what a ratio and its quality say of the claim; without one, of whether there is a difference."""
    if ratio.low is None or ratio.high is None or ratio.outcome == "no verdict":
        return "undecided"
    if claim is not None:
        found: Proof = claim.judge(ratio.low, ratio.high)
    elif ratio.outcome == "same":
        found = "refuted"
    else:
        found = "shown" if ratio.outcome in ("faster", "slower") else "undecided"
    if found != "shown" or margin is None or ratio.quality is None:
        return found
    match ratio.quality.outcome:
        case "worse":
            return "worse quality"
        case "no worse":
            return "shown"
        case _:
            return "quality not shown"
