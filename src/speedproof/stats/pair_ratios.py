"""The ratio of each pair of runs that a finding rests on."""

from speedproof.results.folder import Results
from speedproof.stats.comparability import pair_runs
from speedproof.stats.finding import RatioFinding
from speedproof.stats.measurements import PairedMetric, measure_pairs
from speedproof.stats.metrics import METRICS
from speedproof.stats.scaling import pair_scaled


def list_pair_ratios(results: Results, found: RatioFinding) -> list[float]:
    """Return the ratio of each pair as the finding reads it, in the order of the rounds; none for what a container costs."""
    place = found.place
    of_place = (one for one in _measure(results, found) if one.sample.scope == place.scope)
    return next((one.ratios for one in of_place if place.experiment in (None, one.sample.experiment)), [])


def _measure(results: Results, found: RatioFinding) -> list[PairedMetric]:
    subject, against = found.subject.name, found.against.name
    match found.kind:
        case "container":  # its pairs are of two experiments
            return []
        case "scaling":
            return pair_scaled(results, against, subject)
        case "noise":
            pairs = pair_runs(results.select(subject, "timed"), results.select_controls(subject))
        case "ratio":
            above, below = (against, subject) if METRICS[found.metric].lower_is_better else (subject, against)
            pairs = pair_runs(results.select(above, found.mode), results.select(below, found.mode))
    return measure_pairs(pairs, found.metric, found.target)
