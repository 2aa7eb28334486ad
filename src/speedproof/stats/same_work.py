"""Whether the faster variant of a ratio had more of the machine, or read less: conditions that its reader must know."""

from collections.abc import Callable, Sequence
from statistics import fmean

from speedproof.results.objections import Objection, ObjectionKind
from speedproof.results.run_record import Run
from speedproof.stats.comparability import RunPair
from speedproof.stats.metrics import METRICS

# Measured on two cores that other work kept busy (load 6), six pairs of one program each time: five programs of one process,
# two threads of BLAS, a pool of two processes. The cores of two runs in a row differed by up to 2.1 times, since a busy machine
# gives less, and never in one direction over all pairs. No run of one thread had more than one core; of torch on one H200 a run
# had 1.3, on two 1.6, and of eight processes 6.5 against 0.98 of one.
_MORE_CORES, _LEAST_CORES = 1.5, 1.5
# In the same pairs the bytes differed by less than 0.2 %. What programs import differs by tens of MiB.
_FEWER_BYTES, _LEAST_BYTES = 2.0, 64 * 2**20


def check_same_work(reference: str, candidate: str, metric: str, centre: float, pairs: Sequence[RunPair]) -> list[Objection]:
    """Return in what the faster variant of a ratio differs a lot from the other, in every pair."""
    candidate_is_faster = (centre >= 1) == (METRICS[metric].better == "lower")
    variant = candidate if candidate_is_faster else reference
    runs = [(pair[candidate_is_faster].run, pair[not candidate_is_faster].run) for pair in pairs]
    return [
        *_object("cores", variant, _read(runs, _count_cores), _has_more_cores),
        *_object("bytes read", variant, _read(runs, _count_bytes), _has_read_less),
        *_object("gpus", variant, _read(runs, _count_gpus), _has_more_gpus),
    ]


PairValues = list[tuple[float, float]]  # of the faster variant and of the other, by pair


def _object(kind: ObjectionKind, variant: str, values: PairValues, differs: Callable[[float, float], bool]) -> list[Objection]:
    if not values or not all(differs(own, other) for own, other in values):
        return []
    means = {"own": fmean(own for own, _ in values), "other": fmean(other for _, other in values)}
    return [Objection(kind=kind, variant=variant, blocks=False, values=means)]


def _read(runs: Sequence[tuple[Run, Run]], read: Callable[[Run], float | None]) -> PairValues:
    """Return what was observed of each pair's runs; nothing if it is not known of one."""
    found = [(read(one), read(another)) for one, another in runs]
    known = [(own, other) for own, other in found if own is not None and other is not None]
    return known if len(known) == len(found) else []


def _count_cores(run: Run) -> float | None:
    if run.observed is None or run.observed.cpu_s is None or not run.process_s:
        return None
    return run.observed.cpu_s / run.process_s


def _count_bytes(run: Run) -> float | None:
    return run.observed.read_bytes if run.observed else None


def _count_gpus(run: Run) -> float | None:
    return run.observed.gpus if run.observed else None


def _has_more_cores(own: float, other: float) -> bool:
    return own >= _LEAST_CORES and own >= _MORE_CORES * other


def _has_read_less(own: float, other: float) -> bool:
    return other >= _FEWER_BYTES * own and other - own >= _LEAST_BYTES


def _has_more_gpus(own: float, other: float) -> bool:
    return own > other
