"""Whether two variants do the same work, as they report it and as it was observed."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from speedproof.results.comparison import WorkCheck
from speedproof.results.comparison_rows import Objection, ObjectionKind, Origin
from speedproof.results.folder import MeasuredRun
from speedproof.results.run_record import EPOCHS_FILE, RUN_FILE, Run
from speedproof.stats.comparability import RunPair, count_samples
from speedproof.stats.metrics import METRICS
from speedproof.util.numbers import format_value

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

# Measured on two cores that other work kept busy (load 6), six pairs of one program each time: five programs of one process,
# two threads of BLAS, a pool of two processes. The cores of two runs in a row differed by up to 2.1 times, since a busy machine
# gives less, and never in one direction over all pairs. No run of one thread had more than one core; of torch on one H200 a run
# had 1.3, on two 1.6, and of eight processes 6.5 against 0.98 of one.
_MORE_CORES, _LEAST_CORES = 1.5, 1.5
# In the same pairs the bytes differed by less than 0.2 %. What programs import differs by tens of MiB.
_FEWER_BYTES, _LEAST_BYTES = 2.0, 64 * 2**20
# A run is judged by its best quality. By chance, the best of 5 normal values lies 1.16 deviations above their mean, of 10 1.54,
# and of 1000 3.24.
_MORE_QUALITIES = 2.0


def check_same_work(examined: "Examined") -> list[Objection]:
    """State in what the faster variant had more of the machine, read less or was judged more often, in every pair."""
    better = (examined.centre >= 1) == METRICS[examined.metric].lower_is_better
    variant = examined.variants[better]
    faster_first = [(pair[better], pair[not better]) for pair in examined.pairs]
    runs = [(one.run, another.run) for one, another in faster_first]
    qualities = [(_count_qualities(one), _count_qualities(another)) for one, another in faster_first]
    return [
        *_object("cores", variant, _read(runs, _count_cores), _has_more_cores),
        *_object("bytes read", variant, _read(runs, _count_bytes), _has_read_less),
        *_object("gpus", variant, _read(runs, _count_gpus), _has_more_gpus),
        *_object("qualities", variant, qualities, _has_more_qualities),
        *_note_ended_early([run for pair in runs for run in pair]),
    ]


def _note_ended_early(runs: Sequence[Run]) -> list[Objection]:
    """State after how many epochs all runs were ended: work that a program puts off until later is in none of its times."""
    epochs = max((run.techniques.get("stop_after") or 0 for run in runs), default=0)
    return [Objection(kind="ended early", blocks=False, values={"epochs": epochs})] if epochs else []


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


def _count_qualities(run: MeasuredRun) -> float:
    """Return of how many qualities a run's best one is taken; none if it is not judged."""
    rule, best = run.quality, run.run.best_quality
    if rule.margin is None or best is None or (rule.judged_above is not None and rule.reaches(rule.judged_above, best)):
        return 0.0
    reported = run.run.observed.qualities if run.run.observed else None
    return float(run.epochs["quality"].count() if reported is None else reported)


def _has_more_cores(own: float, other: float) -> bool:
    return own >= _LEAST_CORES and own >= _MORE_CORES * other


def _has_read_less(own: float, other: float) -> bool:
    return other >= _FEWER_BYTES * own and other - own >= _LEAST_BYTES


def _has_more_gpus(own: float, other: float) -> bool:
    return own > other


def _has_more_qualities(own: float, other: float) -> bool:
    return other > 0 and own >= _MORE_QUALITIES * other


_ALIKE = 0.01  # of the larger: what is counted differs by less where the work is the same
_TERA = 1e12


def check_work(pairs: Sequence[RunPair], spreads: bool = False) -> WorkCheck:
    """Return whether both variants of a ratio do the same work in a training epoch, as far as their runs report it.

    There is at least one pair. Floating-point operations (FLOP), samples and reported parameters are compared, and how often a
    variant validates if the metric `spreads` that over its epochs; of programs
    that were observed, the epochs of a run, too. Work is equal only if the first two are known and all agree.
    """
    compared = [(pair, *_compare(pair, spreads)) for pair in pairs]
    shown, differences, _ = max(compared, key=lambda row: bool(row[1]))  # the first pair that differs, if any does
    unknown = dict.fromkeys(name for _, _, names in compared for name in names)
    if differences:
        outcome, reason = "unequal", f"unequal work: {'; '.join(differences)}"
    elif unknown:
        outcome, reason = "unknown", f"work unknown: not every run reports its {' and '.join(unknown)} per epoch"
    else:
        outcome, reason = "equal", "the same FLOP and samples per epoch"
    epochs = _count_epochs(shown)
    return WorkCheck.model_validate(
        {
            "outcome": outcome,
            "reason": reason,
            "epochs": epochs if None not in epochs and len(set(epochs)) > 1 else [],
            "origin": Origin(
                files=[run.file(name) for run in shown for name in (RUN_FILE, EPOCHS_FILE)],
                expression="work.flop_per_epoch, and the mean of samples_per_s × train_s over the epochs that "
                "training_epoch_s counts, of the first pair that differs, else of the first; alike within 1 %",
            ),
        }
    )


def _count_epochs(pair: RunPair) -> list[int | None]:
    """Return how many epochs each run of a pair took; None of runs that their own programs recorded, or that print rates."""
    return [run.run.epochs if run.run.observed and not run.run.observed.rates else None for run in pair]


def _compare(pair: RunPair, spreads: bool) -> tuple[list[str], list[str]]:
    """Return how the work of two runs differs, and which parts of it one of them does not report."""
    one, other = pair
    flop = [run.run.work.flop_per_epoch if run.run.work else run.run.flop_per_epoch for run in pair]
    samples = [count_samples(run) for run in pair]
    differences = []
    scale: float | None  # by which a number is divided; None of a count, which is shown whole
    for (left, right), scale, first, second in (
        (flop, _TERA, "an epoch of {} computes {} TFLOP", "one of {} {}"),
        (samples, 1, "an epoch of {} has {} samples", "one of {} {}"),
        ([run.run.parameters for run in pair], 1, "{} has {} parameters", "{} {}"),
        (_count_epochs(pair), None, "{} runs {} epochs", "{} {}"),
        (
            [run.run.validate_every for run in pair] if spreads else [None, None],
            None,
            "{} validates every {} epochs",
            "{} every {}",
        ),
    ):
        if left is not None and right is not None and abs(left - right) > _ALIKE * max(left, right):
            shown = [str(value) if scale is None else format_value(value / scale) for value in (left, right)]
            times = f" ({format_value(right / left, '×')})" if scale == _TERA else ""
            differences.append(f"{first.format(one.title, shown[0])}, {second.format(other.title, shown[1])}{times}")
    return differences, [name for name, values in (("FLOP", flop), ("samples", samples)) if None in values]
