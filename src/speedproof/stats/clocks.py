"""Whether our own clock supports what programs report of their epochs: two checks of a ratio of reported times or rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, cast

import numpy as np

from speedproof.results.folder import MeasuredRun
from speedproof.results.objections import Objection
from speedproof.results.observations import Arrivals
from speedproof.results.run_record import OBSERVED
from speedproof.stats.comparability import RunPair
from speedproof.stats.estimates import LEAST_PAIRS, LowerBound
from speedproof.stats.gpu_samples import epoch_totals, read_column
from speedproof.stats.metrics import METRICS
from speedproof.stats.time_outside import check_outside

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

# By how much unreported time may change a log ratio: as much as two variants may differ that are called equivalent, or a tenth
# of it. In records/2026-11-25-h200-tutorial-pair 2 ms per epoch turn 354× into 315× (2 % of the log ratio), of two
# programs that are honest.
TOLERANCE, _SHARE = 0.02, 0.1
# If it is not significant, it is too noisy to support a report from here on, and if it is half of what that claims. Between
# honest programs of the records such changes reach 0.07 (2026-11-25-h100-tumour-published, with start-up and end in them).
_NOISY = 0.1
LEAST_SEEN = 3  # pairs: on a busy machine a line may come late, and its run's epochs are not seen
_EATEN = 0.5  # of a gain


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
    sides = examined.variants
    for variant, ordered in ((sides[0], pairs), (sides[1], [pair[::-1] for pair in pairs])):
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
    admitted_s = max(0.0, fmean(one.reported_s - other.reported_s for one, other, *_ in known))
    digits_s = max(2 * clocks.resolution_s for one, other, *_ in known for clocks in (one, other))
    base_s = fmean(one.reported_s for one, *_ in known)
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
        return Objection(kind="clocks", variant=variant, blocks=True, values=left.values)
    # Noise does not flatter what is reported as slower.
    if left.reported > -TOLERANCE and left.hidden > max(_NOISY, _EATEN * left.reported):
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
    if missing.centre < max(_NOISY, _EATEN * abs(reported)) + digits:
        return None
    return Objection(
        kind="clocks" if missing.least > 0 else "unsupported",
        variant=variant,
        blocks=True,
        values={"reported": math.exp(reported), "observed": math.exp(fmean(logs))},
    )
