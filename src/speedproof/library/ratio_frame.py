"""A comparison as a table: a row for each variant and metric."""

import pandas as pd

from speedproof.results.comparison import Comparison, Measured, Ratio
from speedproof.results.run_record import Mode
from speedproof.util.numbers import Unit

_COLUMNS = (
    "variant", "metric", "unit", "target", "experiment", "runs", "centre", "low", "high",
    "ratio", "ratio_low", "ratio_high", "pairs", "outcome",
)  # fmt: skip


def tabulate_levels(comparison: Comparison, mode: Mode) -> pd.DataFrame:
    """Return what was measured of each variant in a mode, and its ratio to the first variant: above 1 it is better."""
    first = next(iter(comparison.variants), "")
    ratios = {_key(_find_subject(ratio, comparison, first), ratio): ratio for ratio in comparison.ratios}
    rows = [
        _write_level(level, _name_unit(comparison.metrics[level.metric].unit), ratios.get(_key(level.variant, level)))
        for level in comparison.measured
        if level.mode == mode
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _write_level(level: Measured, unit: str, ratio: Ratio | None) -> dict[str, object]:
    """Return a row; what a variant was not compared by is missing in it."""
    row: dict[str, object] = {
        "variant": level.title,
        "metric": level.metric,
        "unit": unit,
        "target": level.target,
        "experiment": level.experiment,
        "runs": len(level.values),
        "centre": level.centre,
        "low": level.low,
        "high": level.high,
    }
    if ratio is not None:
        outcome = "inconclusive" if ratio.contested else ratio.outcome
        row |= {
            "ratio": ratio.centre,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "pairs": ratio.pairs,
            "outcome": outcome,
        }
    return row


def _name_unit(unit: Unit) -> str:
    """Return a unit as a number is held, not as it is shown: a share of 0.5 is shown as 50 %."""
    return "fraction" if unit == "%" else unit


def _find_subject(ratio: Ratio, comparison: Comparison, first: str) -> str | None:
    """Return the variant that is better where a ratio is above 1, if the other one is the first."""
    times = comparison.metrics[ratio.metric].better == "lower"
    subject, other = (ratio.candidate, ratio.reference) if times else (ratio.reference, ratio.candidate)
    return subject if other == first else None


def _key(variant: str | None, row: Ratio | Measured) -> tuple[object, ...]:
    return variant, row.metric, row.mode, row.target, row.experiment
