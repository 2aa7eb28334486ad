"""How far a number speaks: for the machine that it was measured on, or for a model of GPU."""

from speedproof.results.comparison import (
    AblationWhole,
    Comparison,
    ContainerCost,
    Measured,
    NoiseFloor,
    Overhead,
    Ratio,
    Scaling,
    Stage,
)
from speedproof.util.numbers import format_count

ComparisonRow = ContainerCost | AblationWhole | Measured | NoiseFloor | Overhead | Ratio | Stage | Scaling


def describe_place(row: ComparisonRow, comparison: Comparison) -> str:
    """Return where a number holds, for a sentence: on one machine, which has such a device, or on a model of GPU."""
    device = comparison.conditions.device_name()
    if row.scope == "model":
        return f"on {device} ({row.hosts} machines)"
    return f"on one machine, {device}{_name_experiment(row, comparison)}"


def name_place(title: str, row: ComparisonRow, comparison: Comparison) -> str:
    """Return a title for a table's row, with the experiment where there are several, or with how many machines it is of."""
    if row.scope == "model":
        return f"{title} ({format_count(row.hosts, 'machine')})"
    experiment = _name_experiment(row, comparison).removeprefix(", ")
    return f"{title} ({experiment})" if experiment else title


def _name_experiment(row: ComparisonRow, comparison: Comparison) -> str:
    return f", {row.experiment}" if row.experiment and len(comparison.experiments) > 1 else ""
