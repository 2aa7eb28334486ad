"""What is asked about a quality: whether it is a loss and all commands print one unit, and of two rounds, if seeds matter."""

from collections.abc import Iterable, Mapping

from speedproof.run.observer import EndedRun
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.variant_labels import call_variants
from speedproof.util.errors import ConfigError
from speedproof.util.numbers import format_count

# A percentage beside a share: 90 and 0.9. Below a tenth and 10 %, two qualities may differ as much as that by themselves.
_SHARES, _PERCENTAGES, _PERCENT, _WITHIN = (0.1, 1.0), (10.0, 100.0), 100, 2


def question_direction(request: ProofRequest) -> str | None:
    """Return the question whether higher is really better, if the quality's name suggests otherwise; else None."""
    word = request.loss_name
    if word is None or request.better == "lower":
        return None
    return f"quality: {word!r} sounds as if lower is better, but with --better higher the highest value counts as the best"


def question_units(qualities: Mapping[str, float | None], request: ProofRequest) -> str | None:
    """Return the question whether one command prints a percentage and another a fraction, if values suggest it; else None.

    Raises:
        ConfigError: values suggest it, and a margin judges the quality.
    """
    known = {name: value for name, value in qualities.items() if value is not None}
    low, high = (end(known, key=lambda name: known[name], default="") for end in (min, max))
    if not known or not _differ_by_percent(known[low], known[high]):
        return None
    called = call_variants(request)
    found = f"quality: {called[high]} reports {known[high]:.4g} and {called[low]} {known[low]:.3g}"
    remedy = "if one is a percentage and the other a fraction, print both the same way"
    if request.margin is not None:
        raise ConfigError(f"{found}; {remedy}, or leave --margin out")
    return f"{found}; {remedy}"


def question_seeds(runs: Iterable[EndedRun], called: Mapping[str, str]) -> list[str]:
    """Return a question for each variant whose timed runs of several seeds, controls apart, all have the same quality.

    `called` is what variants are called.
    """
    found: dict[str, dict[int, float | None]] = {}
    for one in runs:
        if one.planned.mode == "timed" and not one.planned.control:
            found.setdefault(one.planned.variant, {})[one.planned.seed] = one.run.best_quality
    constant = {name: own for name, own in found.items() if len(own) > 1 and len(set(own.values())) == 1}
    return [
        f"quality: {called[name]} has the same {value:.4g} with {format_count(len(own), 'seed')}; if it ignores "
        "SPEEDPROOF_SEED, --margin cannot be judged"
        for name, own in sorted(constant.items())
        if (value := next(iter(own.values()))) is not None
    ]


def _differ_by_percent(low: float, high: float) -> bool:
    if not (_SHARES[0] <= low <= _SHARES[1] and _PERCENTAGES[0] <= high <= _PERCENTAGES[1]):
        return False
    return _PERCENT / _WITHIN <= high / low <= _PERCENT * _WITHIN
