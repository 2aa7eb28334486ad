"""What a gate asks of a ratio, and the smallest slowdown that it can decide. The intervals are those of any proof."""

import math
from dataclasses import dataclass

from speedproof.results.gate_result import GateOutcome
from speedproof.stats.estimates import student_quantile
from speedproof.stats.proof_claim import Proof
from speedproof.stats.sequential import POWER, Noise, critical_values


@dataclass(frozen=True)
class GateLimits:
    """The slowdown that must be excluded and, if one is asked for, the speedup that must be shown, as fractions."""

    regression: float
    improvement: float | None = None

    @property
    def slowest(self) -> float:
        """Return the ratio base / head of a head that takes longer by the whole `regression`."""
        return 1 / (1 + self.regression)

    @property
    def claimed(self) -> float:
        """Return the ratio that the gate claims at least."""
        return self.slowest if self.improvement is None else 1 + self.improvement


def decide_gate(found: Proof, high: float | None, limits: GateLimits) -> GateOutcome:
    """Return the outcome of a gate whose claim was judged; `high` is the upper end of the ratio's interval."""
    match found:
        case "claim holds":
            return "passed"
        case "claim fails":
            slower = limits.improvement is None or (high is not None and high < limits.slowest)
            return "regression" if slower else "no improvement"
        case "worse quality":
            return "worse quality"
        case _:
            return "inconclusive"


def detect_effect(noise: Noise, pairs: int, repeated: bool = True) -> float:
    """Return the smallest slowdown that a gate of so many pairs excludes nine times in ten if nothing changed.

    A slowdown twice as large is shown as often. By the noncentral t distribution, at the upper limit of the noise; looks before
    the last one only make it likelier. `repeated`: the rounds may end at any look.
    """
    from scipy import special

    edge = critical_values(1)[pairs] if repeated else student_quantile(pairs - 1)
    shift = float(special.nctdtrinc(pairs - 1, 1 - POWER, edge))
    return _round_up(math.expm1(shift * noise.limit / math.sqrt(pairs)))


def _round_up(value: float) -> float:
    """Return a positive number with two digits that is not below it, as people write it."""
    if value <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(value))
    return round(math.ceil(value * 10**digits - 1e-9) / 10**digits, digits)


def read_deviation(low: float, high: float, pairs: int) -> float:
    """Return the deviation of the log ratios of pairs whose Student interval, of a fixed number, is [low, high]."""
    return math.log(high / low) / 2 * math.sqrt(pairs) / student_quantile(pairs - 1)
