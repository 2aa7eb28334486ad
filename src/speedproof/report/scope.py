"""How far a number speaks: for the machine that it was measured on, or for a model of GPU."""

from speedproof.results.comparison import Comparison
from speedproof.results.comparison_rows import SampledRow
from speedproof.stats.finding import MeasuredPlace, Reader
from speedproof.util.numbers import format_count

SHARED_MACHINE = "shared machine"  # in a table: another experiment measured there at the same time
# Of two machines of one model, public logs of the same source are 1.84 % apart, where the gain that they show is 1.31 %
# (docs/statistics.md); a margin of half as much again is for machines that nobody compared.
_MACHINES_DIFFER_BY = 0.03
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def describe_place(place: MeasuredPlace) -> str:
    """Return where a number holds, for a sentence: on one machine, which has such a device, or on a model of GPU."""
    if place.scope == "model":
        return f"on {place.device} ({place.hosts} machines{', some shared with another experiment' if place.shared else ''})"
    company = ", shared with another experiment" if place.shared else ""
    return f"on one machine, {place.device}{f', {place.experiment}' if place.experiment else ''}{company}"


def name_here(place: MeasuredPlace) -> str:
    """Return that a number is of one machine, for the end of a clause; nothing if it is of several."""
    if place.scope == "model":
        return ""
    return " on this machine, which another experiment shared" if place.shared else " on this machine"


def warn_of_machines(place: MeasuredPlace, ratio: float, bound: float = 1.0) -> str:
    """Return that another machine may decide otherwise, if a ratio of one machine is as near to a bound as machines differ."""
    near = place.scope == "here" and abs(ratio / bound - 1) <= _MACHINES_DIFFER_BY
    return "; machines of one model differ by as much" if near else ""


def describe_attempt(number: int) -> list[str]:
    """Return, as one sentence, that a proof repeats others of the same commands; none of the first."""
    if number == 1:
        return []
    proof = f"{_ORDINALS[number - 1].capitalize()} proof" if number <= len(_ORDINALS) else f"Proof number {number}"
    return [f"{proof} of these commands here. Each proof has its own chance of a false claim."]


def name_place(title: str, row: SampledRow, comparison: Comparison) -> str:
    """Return a title for a row of a table, as :func:`name_found_place` does."""
    return name_found_place(title, Reader(comparison).place(row))


def name_found_place(title: str, place: MeasuredPlace) -> str:
    """Return a title for a table's row, with the experiment if there are several, with how many machines, or a shared one."""
    places = [format_count(place.hosts, "machine") if place.scope == "model" else place.experiment or ""]
    places += [SHARED_MACHINE] if place.shared else []
    said = ", ".join(part for part in places if part)
    return f"{title} ({said})" if said else title
