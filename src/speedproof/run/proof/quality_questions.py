"""What is asked about a quality before anything is timed: whether it is a loss, and whether all commands print one unit."""

from collections.abc import Mapping

from speedproof.run.proof.request import ProofRequest
from speedproof.util.errors import ConfigError

# A percentage beside a share: 90 and 0.9. Below a tenth and 10 %, two qualities may differ as much as that by themselves.
_SHARES, _PERCENTAGES, _PERCENT, _WITHIN = (0.1, 1.0), (10.0, 100.0), 100, 2


def question_direction(request: ProofRequest) -> str | None:
    """Return the question whether a higher quality is better, if its name reads otherwise; None if nothing looks like it."""
    word = request.loss_name
    if word is None or request.better == "lower":
        return None
    return f"quality: {word!r} reads as if lower were better, but by --better higher the highest counts as the best"


def question_units(qualities: Mapping[str, float | None], request: ProofRequest) -> str | None:
    """Return the question whether one command prints a percentage and another a share; None if nothing looks like it.

    Raises:
        ConfigError: it looks like it, and the margin judges the quality.
    """
    known = {name: value for name, value in qualities.items() if value is not None}
    low, high = (end(known, key=lambda name: known[name], default="") for end in (min, max))
    if not known or not _differ_by_percent(known[low], known[high]):
        return None
    found = f"quality: {high.upper()} reports {known[high]:.4g} and {low.upper()} {known[low]:.3g}"
    remedy = "if one is a percentage and the other a share, print both alike"
    if request.margin is not None:
        raise ConfigError(f"{found}; {remedy}, or leave --margin out")
    return f"{found}; {remedy}"


def _differ_by_percent(low: float, high: float) -> bool:
    if not (_SHARES[0] <= low <= _SHARES[1] and _PERCENTAGES[0] <= high <= _PERCENTAGES[1]):
        return False
    return _PERCENT / _WITHIN <= high / low <= _PERCENT * _WITHIN
