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

SHARED_MACHINE = "shared machine"  # in a table: another experiment measured there at the same time

ComparisonRow = ContainerCost | AblationWhole | Measured | NoiseFloor | Overhead | Ratio | Stage | Scaling


def describe_place(row: ComparisonRow, comparison: Comparison) -> str:
    """Return where a number holds, for a sentence: on one machine, which has such a device, or on a model of GPU."""
    device = comparison.conditions.device_name()
    if row.scope == "model":
        return f"on {device} ({row.hosts} machines{', some shared with another experiment' if row.runs_beside else ''})"
    company = ", shared with another experiment" if row.runs_beside else ""
    return f"on one machine, {device}{_name_experiment(row, comparison)}{company}"


# Of two machines of one model, public logs of the same source are 1.84 % apart, where the gain that they show is 1.31 %
# (docs/statistics.md); a margin of half as much again is for machines that nobody compared.
_MACHINES_DIFFER_BY = 0.03


def name_here(row: ComparisonRow) -> str:
    """Return that a number is of one machine, for the end of a clause; nothing if it is of several."""
    if row.scope == "model":
        return ""
    return " on this machine, which another experiment shared" if row.runs_beside else " on this machine"


def warn_of_machines(row: ComparisonRow, ratio: float, bound: float = 1.0) -> str:
    """Return that another machine may decide otherwise, if a ratio of one machine is as near to a bound as machines differ."""
    near = row.scope == "here" and abs(ratio / bound - 1) <= _MACHINES_DIFFER_BY
    return "; machines of one model differ by as much" if near else ""


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def describe_attempt(number: int) -> list[str]:
    """Return, as one sentence, that a proof repeats others of the same commands; none of the first."""
    if number == 1:
        return []
    proof = f"{_ORDINALS[number - 1].capitalize()} proof" if number <= len(_ORDINALS) else f"Proof number {number}"
    return [f"{proof} of these commands here. Each proof has its own chance of a false claim."]


def name_place(title: str, row: ComparisonRow, comparison: Comparison) -> str:
    """Return a title for a table's row, with the experiment if there are several, with how many machines, or a shared one."""
    places = [format_count(row.hosts, "machine") if row.scope == "model" else _name_experiment(row, comparison)[2:]]
    places += [SHARED_MACHINE] if row.runs_beside else []
    said = ", ".join(place for place in places if place)
    return f"{title} ({said})" if said else title


def _name_experiment(row: ComparisonRow, comparison: Comparison) -> str:
    return f", {row.experiment}" if row.experiment and len(comparison.experiments) > 1 else ""
