"""Whether two sides do the same work in an epoch: one that is shorter since less is computed is not just faster."""

from collections.abc import Sequence

from speedproof.common.numbers import format_value
from speedproof.records.comparison import Origin, WorkCheck
from speedproof.records.run import EPOCHS_FILE, RUN_FILE
from speedproof.verdicts.comparability import RunPair, count_samples

_ALIKE = 0.01  # of the larger: what is counted differs by less where the work is the same


def check_work(pairs: Sequence[RunPair]) -> WorkCheck:
    """Return whether both sides of a ratio do the same work in a training epoch, as far as their runs say; at least one pair.

    Compared are floating-point operations (FLOP), samples, and parameters where they are told; the work is equal only where the
    former two are known, and all are alike.
    """
    one, other = pairs[0]
    flop = [run.run.work.flop_per_epoch if run.run.work else run.run.flop_per_epoch for run in (one, other)]
    parameters = [run.run.parameters for run in (one, other)]
    samples = [count_samples(run) for run in (one, other)]
    differences = [
        f"{format_value(left / scale, unit)} {of} {one.title}, {format_value(right / scale)} of {other.title}"
        for (left, right), scale, unit, of in (
            (flop, 1e12, "TFLOP", "an epoch of"),
            (samples, 1, "samples", "an epoch of"),
            (parameters, 1, "parameters", "in"),
        )
        if left is not None and right is not None and abs(left - right) > _ALIKE * max(left, right)
    ]
    unknown = [name for name, values in (("FLOP", flop), ("samples", samples)) if None in values]
    if differences:
        outcome, reason = "unequal", f"unequal work: {'; '.join(differences)}"
    elif unknown:
        outcome, reason = "unknown", f"work unknown: not every run says how many {' and '.join(unknown)} an epoch takes"
    else:
        outcome, reason = "equal", "the same FLOP and samples an epoch"
    return WorkCheck.model_validate(
        {
            "outcome": outcome,
            "reason": reason,
            "origin": Origin(
                files=[run.file(name) for run in (one, other) for name in (RUN_FILE, EPOCHS_FILE)],
                expression="work.flop_per_epoch, and samples_per_s × train_s, of numerator and denominator; alike within 1 %",
            ),
        }
    )
