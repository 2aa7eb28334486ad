"""How far a number speaks: for the machine that it was measured on, or for a model of GPU."""

from speedproof.results.comparison import (
    Comparison,
    ContainerCost,
    LadderWhole,
    Measured,
    NoiseFloor,
    Overhead,
    Ratio,
    Rung,
    Scaling,
)
from speedproof.util.numbers import format_count

ComparisonRow = ContainerCost | LadderWhole | Measured | NoiseFloor | Overhead | Ratio | Rung | Scaling


def describe_place(row: ComparisonRow, comparison: Comparison) -> str:
    """Return where a number holds, for a sentence: on one machine, which has such a device, or on a model of GPU."""
    device = comparison.conditions.device_name()
    if row.scope == "model":
        return f"on {device} ({row.hosts} machines)"
    return f"on one machine, {device}{_name_block(row, comparison)}"


def name_place(title: str, row: ComparisonRow, comparison: Comparison) -> str:
    """Return a title for a table's row, with the block where there are several, or with how many machines it is of."""
    if row.scope == "model":
        return f"{title} ({format_count(row.hosts, 'machine')})"
    block = _name_block(row, comparison).removeprefix(", ")
    return f"{title} ({block})" if block else title


def _name_block(row: ComparisonRow, comparison: Comparison) -> str:
    return f", {row.block}" if row.block and len(comparison.blocks) > 1 else ""
