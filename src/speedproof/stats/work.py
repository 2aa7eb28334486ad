"""Whether two sides do the same work in an epoch: one that is shorter since less is computed is not just faster."""

from collections.abc import Sequence

from speedproof.results.comparison import Origin, WorkCheck
from speedproof.results.run_record import EPOCHS_FILE, RUN_FILE
from speedproof.stats.comparability import RunPair, count_samples
from speedproof.util.numbers import format_value
from speedproof.util.text import SPACES

_ALIKE = 0.01  # of the larger: what is counted differs by less where the work is the same


def check_work(pairs: Sequence[RunPair], spreads: bool = False) -> WorkCheck:
    """Return whether both sides of a ratio do the same work in a training epoch, as far as their runs say; at least one pair.

    Compared are floating-point operations (FLOP), samples, and parameters where they are told, and how often a side validates
    where the metric `spreads` that over its epochs; the work is equal only where the former two are known, and all are alike.
    """
    compared = [(pair, *_compare(pair, spreads)) for pair in pairs]
    told, differences, _ = max(compared, key=lambda row: bool(row[1]))  # the first pair that differs, if any does
    unknown = dict.fromkeys(name for _, _, names in compared for name in names)
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
                files=[run.file(name) for run in told for name in (RUN_FILE, EPOCHS_FILE)],
                expression="work.flop_per_epoch, and the median of samples_per_s × train_s over the epochs that "
                "training_epoch_s counts, of the first pair that differs, else of the first; alike within 1 %",
            ),
        }
    )


def _compare(pair: RunPair, spreads: bool) -> tuple[list[str], list[str]]:
    """Return in what the work of two runs differs, and what of it one of them does not tell."""
    one, other = pair
    flop = [run.run.work.flop_per_epoch if run.run.work else run.run.flop_per_epoch for run in pair]
    samples = [count_samples(run) for run in pair]
    differences = []
    for (left, right), scale, unit, of in (
        (flop, 1e12, "TFLOP", "an epoch of"),
        (samples, 1, "samples", "an epoch of"),
        ([run.run.parameters for run in pair], 1, "parameters", "in"),
        ([run.run.validate_every for run in pair] if spreads else [None, None], 1, "epochs", "a validation of"),
    ):
        if left is not None and right is not None and abs(left - right) > _ALIKE * max(left, right):
            first, second = format_value(left / scale, unit), format_value(right / scale, unit).split(SPACES[0])[0]
            differences.append(f"{first} {of} {one.title}, {second} of {other.title}")
    return differences, [name for name, values in (("FLOP", flop), ("samples", samples)) if None in values]
