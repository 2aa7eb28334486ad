"""Whether two sides do the same work in an epoch: one that is shorter since less is computed is not just faster."""

from collections.abc import Sequence

from speedproof.common.numbers import format_value
from speedproof.common.text import SPACES
from speedproof.records.comparison import Origin, WorkCheck
from speedproof.records.results import MeasuredRun
from speedproof.records.run import EPOCHS_FILE, RUN_FILE
from speedproof.verdicts.comparability import RunPair, count_samples

_ALIKE = 0.01  # of the larger: what is counted differs by less where the work is the same


def check_work(pairs: Sequence[RunPair], spreads: bool = False) -> WorkCheck:
    """Return whether both sides of a ratio do the same work in a training epoch, as far as their runs say; at least one pair.

    Compared are floating-point operations (FLOP), samples, and parameters where they are told, and how often a side validates
    where the metric `spreads` that over its epochs; the work is equal only where the former two are known, and all are alike.
    """
    one, other = pairs[0]
    told = [[_list_work(run, spreads) for run in pair] for pair in pairs]
    differences = {
        what: f"{format_value(left, unit)} {of} {one.title}, {format_value(right, unit).split(SPACES[0])[0]} of {other.title}"
        for sides in told
        for (what, unit, of, left), (*_, right) in zip(*sides, strict=True)
        if left is not None and right is not None and abs(left - right) > _ALIKE * max(left, right)
    }
    unknown = [
        name
        for name in ("FLOP", "samples")
        if any((name, None) == row[::3] for sides in told for side in sides for row in side)
    ]
    if differences:
        outcome, reason = "unequal", f"unequal work: {'; '.join(differences.values())}"
    elif unknown:
        outcome, reason = "unknown", f"work unknown: not every run says how many {' and '.join(unknown)} an epoch takes"
    else:
        outcome, reason = "equal", "the same FLOP and samples an epoch"
    return WorkCheck.model_validate(
        {
            "outcome": outcome,
            "reason": reason,
            "origin": Origin(
                files=[run.file(name) for pair in pairs for run in pair for name in (RUN_FILE, EPOCHS_FILE)],
                expression="work.flop_per_epoch, and the median of samples_per_s × train_s over the epochs that "
                "training_epoch_s counts, of numerator and denominator; alike within 1 %",
            ),
        }
    )


def _list_work(run: MeasuredRun, spreads: bool) -> list[tuple[str, str, str, float | None]]:
    """Return what a run's work is told by: a name, its unit, what it is of, and how much."""
    flop = run.run.work.flop_per_epoch if run.run.work else run.run.flop_per_epoch
    return [
        ("FLOP", "TFLOP", "an epoch of", None if flop is None else flop / 1e12),
        ("samples", "samples", "an epoch of", count_samples(run)),
        ("parameters", "parameters", "in", run.run.parameters),
        ("validation", "epochs", "a validation of", run.run.validate_every if spreads else None),
    ]
