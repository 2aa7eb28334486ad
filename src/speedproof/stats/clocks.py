"""Whether our own clock supports what programs report of their epochs: two checks of a ratio of reported times or rates."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, cast

import numpy as np

from speedproof.results.comparison_rows import Objection
from speedproof.results.folder import MeasuredRun
from speedproof.results.observations import Arrivals, name_unseen
from speedproof.results.run_record import OBSERVED
from speedproof.stats.comparability import RunPair
from speedproof.stats.estimates import LEAST_PAIRS, LowerBound
from speedproof.stats.metrics import METRICS
from speedproof.stats.run_values import epoch_totals, read_column

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined


# Of a gain. Of honest programs with four pairs, whose processes vary by a quarter of the gain, 0.2 % of 200,000 simulated
# proofs have half of it elsewhere by chance; by half of the gain, 8 %; with six pairs 0.03 and 4 %.
EATEN = 0.5
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
        needed_s = EATEN * next(iter(gain.values()))
        if "covered" in gain:
            excesses = _subtract([(_split_observed(one), _split_observed(other)) for one, other in pairs])
    elif examined.outcome == "equivalent":
        gain = {}
        needed_s = EATEN * fmean(_find_span(one) if one.rates else one.total_s / count_ranks(pairs) for one, _ in pairs)
        excesses = {name: values for name, values in excesses.items() if name.startswith("after_")}
    else:
        return None
    return _object(variant, excesses, needed_s, gain, pairs) if excesses and needed_s > 0 else None


def _object(
    variant: str, excesses: Excesses, needed_s: float, gain: Mapping[str, float], pairs: Sequence["ClockPair"]
) -> Objection | None:
    """Object if parts that are significant come to what is needed, or all parts together do, whether significant or not.

    A program may choose by chance in which part it works: then none of them is significant, and their sum is.

    It is `outside` only if it is beyond chance (99.9 %), since each part is a test. Honest programs were simulated, whose
    start-up varies by half of the gain to twice the gain. 99 % accused 0.6 to 3.7 % of them, 99.9 % at most 0.4 %. What is
    less certain supports nothing.
    """
    whole = {"process": math.exp(fmean(math.log(other.process_s / one.process_s) for one, other in pairs))}
    means = {name: LowerBound.of(values) for name, values in excesses.items()}
    together = sum_excesses(excesses)
    named = {name: mean.centre for name, mean in means.items() if mean.least > 0}
    if sum(named.values()) < needed_s:
        if together.centre < needed_s:
            return None
        named = {name: mean.centre for name, mean in means.items() if mean.centre >= _NAMED * needed_s}
    certain_s = max(
        sum(mean.centre for mean in means.values() if mean.beyond_chance > 0),
        together.centre if together.beyond_chance > 0 else 0.0,
    )
    kind = "outside" if certain_s >= needed_s else "unsupported"
    return Objection(kind=kind, variant=variant, blocks=True, values={**named, **gain, **whole})


def sum_excesses(excesses: Mapping[str, Sequence[float]]) -> LowerBound:
    """Return what a variant takes longer in all parts but those in which it is significantly faster.

    What the other one takes longer to start, for example, would hide what this one does elsewhere.
    """
    slower = [values for values in excesses.values() if LowerBound.of([-value for value in values]).least <= 0]
    return LowerBound.of([sum(parts) for parts in zip(*slower, strict=True)]) if slower else LowerBound(0.0, 0.0, 0.0)


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
    gain_s = fmean(one.epochs for one, _ in pairs) * _find_saved(pairs) / ranks
    return _extrapolate(gain_s, pairs) if ranks == 1 else {"gain_s": gain_s}


def _find_saved(pairs: Sequence["ClockPair"]) -> float:
    """Return how many seconds an epoch of the first variant saves by its reports, averaged as their ratio is.

    By other means, a single slow run would hide what all others gain.
    """
    return _average(other.reported_s for _, other in pairs) - _average(one.reported_s for one, _ in pairs)


def _average(times_s: Iterable[float]) -> float:
    """Return the geometric mean; 0 if a time is."""
    known = list(times_s)
    return math.exp(fmean(map(math.log, known))) if min(known) > 0 else 0.0


def _extrapolate(gain_s: float, pairs: Sequence["ClockPair"]) -> dict[str, float]:
    """Return what epochs save if their reports are samples of them, and the share that these cover.

    If both variants report one iteration of ten, their reports save a tenth of what the epochs save. Measured against that
    tenth, the start-up of an honest program is too noisy on any busy machine. The share is the larger one of both variants: one
    that leaves more out than the other has no sample. Nor do the epochs save more than our clock saw.
    """
    seen = [(one, other, one.observed_s, other.observed_s) for one, other in pairs if one.epochs == other.epochs]
    known = [(one, other, own, others) for one, other, own, others in seen if own and others]
    if len(known) < len(pairs):
        return {"gain_s": gain_s}
    covered = max(
        fmean(one.reported_s / own for one, _, own, _ in known), fmean(two.reported_s / its for _, two, _, its in known)
    )
    extrapolated_s = min(gain_s / covered, fmean(one.epochs * (others - own) for one, _, own, others in known))
    # Less than a tenth more does not matter beside a tolerance of a half.
    return {"gain_s": gain_s} if extrapolated_s <= 1.1 * gain_s else {"gain_s": extrapolated_s, "covered": covered}


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


def _split_observed(clocks: "Clocks") -> dict[str, float]:
    """Return what a run takes besides epochs that are as long as our clock saw, for a gain that is extrapolated to these.

    What each leaves unreported is in that gain already. If it counted here, too, work that is moved out of it at random would
    cancel itself.
    """
    between_s = (clocks.observed_s or 0.0) - clocks.reported_s
    unreported_s = (clocks.unreported_s or 0.0) - clocks.epochs * between_s if clocks.first_seen else 0.0
    start_up_s = (clocks.start_up_s or 0.0) - (0.0 if clocks.first_seen else between_s)  # else the first epoch's is in it
    return {**_split_epochs(clocks), "start_up_s": start_up_s, "unreported_s": unreported_s}


def _split_process(clocks: "Clocks", ranks: int) -> dict[str, float]:
    return {
        "elsewhere_s": clocks.process_s - clocks.total_s / ranks,
        "first_epoch_s": (clocks.total_s - clocks.epochs * clocks.reported_s) / ranks,
    }


def _subtract(parts: Sequence[tuple[dict[str, float], dict[str, float]]]) -> Excesses:
    return {name: [own[name] - others[name] for own, others in parts] for name in parts[0][0]}


# By how much unreported time may change a log ratio: as much as two variants may differ that are called equivalent, or a tenth
# of it. In records/2026-11-25-h200-tutorial-pair 2 ms per epoch turn 354× into 315× (2 % of the log ratio), of two
# programs that are honest.
TOLERANCE, _SHARE = 0.02, 0.1
# If it is not significant, it is too noisy to support a report from here on, and if it is half of what that claims. Between
# honest programs of the records such changes reach 0.07 (2026-11-25-h100-tumour-published, with start-up and end in them).
_NOISY = 0.1
LEAST_SEEN = 3  # pairs: on a busy machine a line may come late, and its run's epochs are not seen


@dataclass(frozen=True)
class Clocks:
    """One run's time by both clocks. Seconds; those of epochs are means, without the first epoch if there are others."""

    epochs: int
    reported_s: float  # an epoch, of rates one over the rate
    total_s: float  # all epochs, as reported
    observed_s: float | None  # an epoch; None: our clock did not see them all
    unreported_s: float | None  # of all epochs together
    resolution_s: float  # half a unit of the last digit
    start_up_s: float | None
    after_s: float | None
    process_s: float
    rates: bool
    arrivals: Arrivals
    ranks: int = 1  # of which each may report an epoch
    first_seen: bool = False  # whether our clock saw the begin of the first epoch


def read_clocks(run: MeasuredRun) -> Clocks | None:
    """Return a run's time by both clocks; None of a run without epochs, or of a version that did not observe."""
    if "clocks" not in run.derived:
        run.derived["clocks"] = _read_clocks(run)
    return cast(Clocks | None, run.derived["clocks"])


def _read_clocks(run: MeasuredRun) -> Clocks | None:
    seen = run.run.observed
    if seen is None or run.epochs.empty or run.run.continued:
        return None
    totals = epoch_totals(run.epochs)
    counted = slice(1, None) if len(totals) > 1 else slice(None)
    observed = read_column(run.epochs, OBSERVED) if seen.arrivals in ("seen", "none") and OBSERVED in run.epochs else None
    if observed is not None and np.isnan(observed[counted]).any():  # of a single epoch the begin may be seen, too
        observed = None
    return Clocks(
        epochs=len(totals),
        reported_s=float(totals[counted].mean()),
        total_s=float(totals.sum()),
        observed_s=None if observed is None else float(observed[counted].mean()),
        # Of the first epoch our clock saw the begin only if that is a mark or a range; else all before is start-up.
        unreported_s=None if observed is None else float(np.nansum(observed - totals)),
        resolution_s=run.run.resolution_s or 0.0,
        start_up_s=seen.start_up_s,
        after_s=seen.after_s,
        process_s=run.run.process_s,
        rates=seen.rates,
        arrivals=seen.arrivals,
        ranks=seen.ranks,
        first_seen=observed is not None and not math.isnan(observed[0]),
    )


def observe_ratio(metric: str, pairs: Sequence[RunPair]) -> float | None:
    """Return the ratio of two variants' epochs by our own clock, above 1 as the reported one is; None if it saw few."""
    if not METRICS[metric].printed:
        return None
    clocks = [(read_clocks(one), read_clocks(other)) for one, other in pairs]
    seen = [(one.observed_s, other.observed_s) for one, other in clocks if one and other]
    known = [math.log(one / other) for one, other in seen if one and other]
    if not known or len(known) < min(LEAST_SEEN, len(clocks)):
        return None
    return math.exp(fmean(known) * (1 if METRICS[metric].lower_is_better else -1))


ClockPair = tuple[Clocks, Clocks]  # of the variant that is checked, and of the other


def pair_clocks(examined: "Examined") -> list[ClockPair]:
    """Return pairs' times by both clocks, the reference's first; none if the metric is not reported, or they are too few."""
    if not METRICS[examined.metric].printed:
        return []
    pairs = [(one, other) for one, other in ((read_clocks(a), read_clocks(b)) for a, b in examined.pairs) if one and other]
    return pairs if len(pairs) >= LEAST_PAIRS else []


def check_reported_times(examined: "Examined") -> list[Objection]:
    """Object if a variant gains by what it does not report: parts of its epochs, or time outside of them."""
    pairs = pair_clocks(examined)
    if not pairs:
        return []
    found = []
    first, second = examined.variants
    for variant, ordered in ((first, pairs), (second, [pair[::-1] for pair in pairs])):
        check = _check_rates if pairs[0][0].rates else _check_epochs
        objection = check(variant, ordered) or check_outside(examined, variant, ordered)
        found += [objection] if objection else []
    return found


@dataclass(frozen=True)
class Unreported:
    """What a variant leaves out of its reports more than the other does."""

    reported: float  # how many times as fast it is by its reports, as a logarithm
    hidden: float  # by how much what it leaves out changes that
    significant: bool
    beyond_chance: bool  # what one of a hundred honest programs shows by chance accuses none
    values: dict[str, float]


def find_unreported(pairs: Sequence[ClockPair]) -> Unreported | None:
    """Return what the first variant leaves unreported of its epochs, in seconds and as a share, whichever is less.

    A program that reports only its training leaves out the same seconds when that gets faster, hence a larger share; one that
    reports one iteration of ten leaves out more seconds when it is slower, at the same share. Both are honest. What a slower
    variant leaves out besides does not flatter it as long as it is less than what its report admits. None if our clock saw few.
    """
    seen = [(one, other, one.observed_s, other.observed_s) for one, other in pairs]
    known = [(one, other, own, others) for one, other, own, others in seen if own and others]
    if len(known) < LEAST_SEEN:
        return None
    admitted_s = max(0.0, -_find_saved([(one, other) for one, other, *_ in known]))
    digits_s = max(2 * clocks.resolution_s for one, other, *_ in known for clocks in (one, other))
    base_s = _average(one.reported_s for one, *_ in known)
    seconds = LowerBound.of(
        [(own - one.reported_s) - (others - other.reported_s) - admitted_s - digits_s for one, other, own, others in known]
    )
    shares = LowerBound.of(
        [math.log(own / others) - math.log(one.reported_s / other.reported_s) for one, other, own, others in known]
    )
    reported = fmean(math.log(other.reported_s / one.reported_s) for one, other, *_ in known)
    return Unreported(
        reported=reported,
        hidden=min(shares.centre, math.log1p(seconds.centre / base_s) if seconds.centre > 0 else 0.0),
        significant=seconds.least > 0 and shares.least > 0,
        beyond_chance=seconds.beyond_chance > 0 and shares.beyond_chance > 0,
        values={
            "reported": math.exp(reported),
            "observed": math.exp(fmean(math.log(others / own) for _, _, own, others in known)),
            "unreported_s": fmean(own - one.reported_s for one, _, own, _ in known),
            "unreported_by_other_s": fmean(others - other.reported_s for _, other, _, others in known),
        },
    )


def _check_epochs(variant: str, pairs: Sequence[ClockPair]) -> Objection | None:
    """Object if the variant leaves more of its epochs unreported than the other, in seconds and as a share."""
    left = find_unreported(pairs)
    if left is None:
        return None
    if left.hidden > max(TOLERANCE, _SHARE * abs(left.reported)) and left.significant:
        kind = "clocks" if left.beyond_chance else "unsupported"
        return Objection(kind=kind, variant=variant, blocks=True, values=left.values)
    # Noise does not flatter what is reported as slower.
    if left.reported > -TOLERANCE and left.hidden > max(_NOISY, EATEN * left.reported):
        return Objection(kind="unsupported", variant=variant, blocks=True, values=left.values)
    return None


def _check_rates(variant: str, pairs: Sequence[ClockPair]) -> Objection | None:
    """Object if the variant's reports follow each other by less than half as much faster than its rates say.

    How much work lies between two reports is not known. It is taken to be the same if both variants report as often, and half
    of the gain is left for what both do besides. If they do not, or our clock did not see the reports, it is their processes.
    """
    known = [(one, other) for one, other in pairs if one.observed_s and other.observed_s and one.epochs == other.epochs]
    if len(known) >= LEAST_SEEN:
        logs = [math.log((other.observed_s or 1.0) / (one.observed_s or 1.0)) for one, other in known]
    else:  # the process is the only check
        known = list(pairs)
        logs = [math.log(other.process_s / one.process_s) for one, other in known]
    reported = fmean(math.log(other.reported_s / one.reported_s) for one, other in known)
    missing = LowerBound.of(
        [math.log(other.reported_s / one.reported_s) - log for (one, other), log in zip(known, logs, strict=True)]
    )
    digits = max(one.resolution_s / one.reported_s + other.resolution_s / other.reported_s for one, other in known)
    if missing.centre < max(_NOISY, EATEN * abs(reported)) + digits:
        return None
    return Objection(
        kind="clocks" if missing.beyond_chance > 0 else "unsupported",
        variant=variant,
        blocks=True,
        values={"reported": math.exp(reported), "observed": math.exp(fmean(logs))},
    )


# The share of its runs in which our clock sees the epochs of a variant that counts as observed. On a busy machine it misses
# single runs (`arrivals._LATE_S`); a program that knows the round may be honest in the first ones alone.
_SEEN = 0.5


def check_unobserved(examined: "Examined") -> list[Objection]:
    """State whose epochs our clock did not see; object if it saw the other's alone, and what it did not see may be the gain.

    If both are unseen, their processes are compared; a long start-up of the one would hide the other's work there.
    """
    pairs = pair_clocks(examined)
    if not pairs:
        return []
    causes = [_name_cause([pair[number] for pair in pairs]) for number in (0, 1)]
    if causes[0] and causes[0] == causes[1]:
        return [Objection(kind="unobserved", blocks=False, names=[causes[0]])]
    found = []
    for number, (variant, cause) in enumerate(zip(examined.variants, causes, strict=True)):
        if not cause:
            continue
        ordered = [(pair[number], pair[1 - number]) for pair in pairs]
        hidden = {} if causes[1 - number] else _find_hidden(examined, variant, ordered)
        found.append(Objection(kind="unobserved", variant=variant, blocks=bool(hidden), values=hidden, names=[cause]))
    return found


def _name_cause(runs: Sequence[Clocks]) -> str | None:
    """Return why our clock did not see a variant's epochs in most runs; None if it did."""
    unseen = [name_unseen(run.arrivals, run.epochs) for run in runs if run.observed_s is None]
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
        return {"outside_s": outside_s, "gain_s": gain_s} if outside_s >= EATEN * gain_s else {}
    if examined.outcome != "equivalent":
        return {}
    return {"outside_s": outside_s} if outside_s >= EATEN * fmean(total_s for _, total_s, _ in reported) else {}


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
