"""Whether a variant spends elsewhere what its epochs save: before, between or after them, or in its first one."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from speedproof.results.objections import Objection
from speedproof.stats.estimates import LowerBound

if TYPE_CHECKING:
    from speedproof.stats.clocks import ClockPair, Clocks
    from speedproof.stats.ratio_checks import Examined

# Of a gain. Of honest programs with four pairs, whose processes vary by a quarter of the gain, 0.2 % of 200,000 simulated
# proofs have half of it elsewhere by chance; by half of the gain, 8 %; with six pairs 0.03 and 4 %.
_EATEN = 0.5
_NAMED = 0.1  # of what is needed: a smaller part is not worth a clause
Excesses = dict[str, list[float]]  # by part: by pair, how many seconds longer the first variant takes there


def check_outside(examined: "Examined", variant: str, pairs: Sequence["ClockPair"]) -> Objection | None:
    """Object if what the variant takes longer outside of its epochs is at least half of what these save by their reports.

    Of rates, which do not say how long an epoch takes, it is what the intervals between their lines save. Of a variant that is
    called equivalent, which saves nothing, it is half of all its epochs, after the last one.
    """
    excesses = list_excesses(pairs)
    if not excesses:
        return None
    if variant == examined.favoured:
        gain = _find_gain(pairs)
        needed_s = _EATEN * next(iter(gain.values()))
    elif examined.outcome == "equivalent":
        gain = {}
        needed_s = _EATEN * fmean(_find_span(one) if one.rates else one.total_s / count_ranks(pairs) for one, _ in pairs)
        excesses = {name: values for name, values in excesses.items() if name.startswith("after_")}
    else:
        return None
    return _object(variant, excesses, needed_s, gain, pairs) if excesses and needed_s > 0 else None


def _object(
    variant: str, excesses: Excesses, needed_s: float, gain: Mapping[str, float], pairs: Sequence["ClockPair"]
) -> Objection | None:
    """Object if parts that are significant come to what is needed, or all parts together do, whether significant or not.

    A program may choose by chance in which part it works: then none of them is significant, and their sum is.
    """
    whole = {"process": math.exp(fmean(math.log(other.process_s / one.process_s) for one, other in pairs))}
    means = {name: LowerBound.of(values) for name, values in excesses.items()}
    significant = {name: mean.centre for name, mean in means.items() if mean.least > 0}
    if sum(significant.values()) >= needed_s:
        return Objection(kind="outside", variant=variant, blocks=True, values={**significant, **gain, **whole})
    together = sum_excesses(excesses)
    if together.centre < needed_s:
        return None
    named = {name: mean.centre for name, mean in means.items() if mean.centre >= _NAMED * needed_s}
    kind = "outside" if together.least > 0 else "unsupported"  # the process supports nothing
    return Objection(kind=kind, variant=variant, blocks=True, values={**named, **gain, **whole})


def sum_excesses(excesses: Mapping[str, Sequence[float]]) -> LowerBound:
    """Return what a variant takes longer in all parts but those in which it is significantly faster.

    What the other one takes longer to start, for example, would hide what this one does elsewhere.
    """
    slower = [values for values in excesses.values() if LowerBound.of([-value for value in values]).least <= 0]
    return LowerBound.of([sum(parts) for parts in zip(*slower, strict=True)]) if slower else LowerBound(0.0, 0.0)


def list_excesses(pairs: Sequence["ClockPair"]) -> Excesses:
    """Return by pairs how much longer the first variant takes outside of its epochs, by parts, if our clock saw both.

    Of rates there are none if it did not, or if the variants do not report as often.
    """
    if pairs[0][0].rates:
        known = all(clocks.observed_s and clocks.after_s is not None for pair in pairs for clocks in pair)
        if not known or any(one.epochs != other.epochs for one, other in pairs):
            return {}
        return _subtract([(_split_rates(one), _split_rates(other)) for one, other in pairs])
    seen = all(None not in (run.start_up_s, run.unreported_s, run.after_s) for pair in pairs for run in pair)
    ranks = count_ranks(pairs)
    if seen and ranks == 1:
        return _subtract([(_split_epochs(one), _split_epochs(other)) for one, other in pairs])
    return _subtract([(_split_process(one, ranks), _split_process(other, ranks)) for one, other in pairs])


def count_ranks(pairs: Sequence["ClockPair"]) -> int:
    """Return how many ranks report each epoch: those that a program starts, if its epochs are longer than its process."""
    several = any(run.total_s > run.process_s for pair in pairs for run in pair)
    return max(run.ranks for pair in pairs for run in pair) if several else 1


def _find_gain(pairs: Sequence["ClockPair"]) -> dict[str, float]:
    """Return how many seconds all epochs save by their reports; of rates, the intervals between their lines."""
    if pairs[0][0].rates:
        return {"interval_gain_s": fmean(_find_span(other) - _find_span(one) for one, other in pairs)}
    ranks = count_ranks(pairs)
    return {"gain_s": fmean(one.epochs * (other.reported_s - one.reported_s) / ranks for one, other in pairs)}


def _find_span(clocks: "Clocks") -> float:
    """Return how long it is from the first report to the last one, by our clock."""
    return (clocks.epochs - 1) * (clocks.observed_s or 0.0)


def _split_rates(clocks: "Clocks") -> dict[str, float]:
    after_s = clocks.after_s or 0.0
    return {"before_reports_s": clocks.process_s - _find_span(clocks) - after_s, "after_reports_s": after_s}


def _split_epochs(clocks: "Clocks") -> dict[str, float]:
    return {
        "start_up_s": clocks.start_up_s or 0.0,
        # What a first epoch takes more counts in no average: it may compile, or do the others' work.
        "first_epoch_s": clocks.total_s - clocks.epochs * clocks.reported_s,
        "unreported_s": clocks.unreported_s or 0.0,
        "after_s": clocks.after_s or 0.0,
    }


def _split_process(clocks: "Clocks", ranks: int) -> dict[str, float]:
    return {
        "elsewhere_s": clocks.process_s - clocks.total_s / ranks,
        "first_epoch_s": (clocks.total_s - clocks.epochs * clocks.reported_s) / ranks,
    }


def _subtract(parts: Sequence[tuple[dict[str, float], dict[str, float]]]) -> Excesses:
    return {name: [own[name] - others[name] for own, others in parts] for name in parts[0][0]}
