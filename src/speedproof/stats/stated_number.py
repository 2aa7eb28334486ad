"""A number as its source states it: its digits, how exact they are, and which values reproduce it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from speedproof.results.comparison_rows import Objection
from speedproof.stats.clocks import TOLERANCE, ClockPair, count_ranks, find_unreported, list_excesses, pair_clocks, sum_excesses
from speedproof.stats.metrics import METRICS
from speedproof.util.numbers import Unit, format_printed

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined


# up to: what is possible ("could potentially give 10x"). similar: the source's word, and its own figures give the value.
Comparator = Literal["exactly", "about", "similar", "more than", "less than", "between", "up to"]
Printed = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?$")]

_MOST_VAGUE = 0.2  # of a number that its own digits leave open: about 3, but not about 2, nor about 10

_LEADS: dict[Comparator, str] = {
    "about": "about ",
    "similar": "similar, ",
    "more than": "more than ",
    "less than": "less than ",
    "up to": "up to ",
}


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Tolerance(_Row):
    """How far from a stated number a value may lie, if the printed digits do not show it."""

    share: float = Field(gt=0, lt=1, description="Share of the value, above and below")
    why: str


class StatedNumber(_Row):
    """A number in the digits that its source prints, in quotes; with `between` there are two."""

    comparator: Comparator
    value: Printed | None = None
    low: Printed | None = None
    high: Printed | None = None
    printed_in: Literal["min"] | None = Field(None, description="The source's unit, if it is not that of the metric")
    tolerance: str | None = Field(None, description="A key of the file's `tolerances`. Default: half of the last printed digit")

    @model_validator(mode="after")
    def _value_or_range(self) -> "StatedNumber":
        ends = (self.low is not None, self.high is not None)
        if self.comparator == "between":
            if self.value is not None or not all(ends):
                raise ValueError("`between` needs `low` and `high`, and no `value`")
        elif self.value is None or any(ends):
            raise ValueError(f"`{self.comparator}` needs a `value`, and no `low` or `high`")
        if self.low is not None and self.high is not None and float(self.low) > float(self.high):
            raise ValueError(f"`low` {self.low} is above `high` {self.high}; the other way round?")
        if self.comparator == "similar" and self.tolerance is None:
            raise ValueError("`similar` needs a `tolerance`: no digit says how similar")
        if self.comparator == "about" and self.tolerance is None and self._is_vague():
            raise ValueError(f"`about` {self.value} needs a `tolerance`: its digits allow more than {_MOST_VAGUE:.0%}")
        if self.tolerance is not None and self.comparator in ("between", "more than", "less than"):
            raise ValueError(f"`{self.comparator}` has no `tolerance`")
        return self

    def _is_vague(self) -> bool:
        value = self.value or ""
        return _half_digit(value, rounded=True) > _MOST_VAGUE * float(value) > 0


def list_bounds_of(stated: StatedNumber, unit: Unit, tolerance: Tolerance | None) -> tuple[float, float]:
    """Return the smallest and the largest value, in the metric's unit, that reproduce a number; an open end is infinite."""
    scale = 60.0 if stated.printed_in == "min" else 0.01 if unit == "%" else 1.0
    if stated.value is None:
        low, high = stated.low or "", stated.high or ""
        return scale * (float(low) - _half_digit(low)), scale * (float(high) + _half_digit(high))
    value = float(stated.value)
    if stated.comparator == "more than":
        return scale * value, math.inf
    if stated.comparator == "less than":
        return -math.inf, scale * value
    # Who says about 40 has rounded to tens.
    rounded = stated.comparator in ("about", "similar")
    off = tolerance.share * value if tolerance else _half_digit(stated.value, rounded)
    return scale * (value - off), scale * (value + off)


def describe_stated(stated: StatedNumber, unit: Unit, tolerance: Tolerance | None) -> str:
    """Return a number as a table shows it, in its source's digits."""
    unit = stated.printed_in or unit
    if stated.value is None:
        return format_printed(f"{stated.low}–{stated.high}", unit)
    allowed = f" ± {format_printed(f'{100 * tolerance.share:g}', '%')}" if tolerance else ""
    return f"{_LEADS.get(stated.comparator, '')}{format_printed(stated.value, unit)}{allowed}"


def _half_digit(printed: str, rounded: bool = False) -> float:
    """Return half a unit of a number's last digit; of a `rounded` whole number, of its last digit but zeros."""
    number = Decimal(printed)
    if rounded and "." not in printed and number:
        number = number.normalize()
    return 0.5 * 10.0 ** int(number.as_tuple().exponent)


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
