"""How far a number speaks: for the machine that it was measured on, or for a model of GPU."""

from speedproof.stats.finding import MeasuredPlace
from speedproof.util.numbers import format_count

SHARED_MACHINE = "shared machine"  # in a table: another experiment measured there at the same time
# Public logs of the same source on two machines of one model are 1.84 % apart, while the gain that they show is 1.31 %
# (docs/statistics.md). Half as much again is added for machines that nobody compared.
_MACHINES_DIFFER_BY = 0.03
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def describe_place(place: MeasuredPlace) -> str:
    """Return where a number holds, for a sentence: on one machine and its device, or on a model of GPU."""
    if place.scope == "model":
        return f"on {place.device} ({place.hosts} machines{', some shared with another experiment' if place.shared else ''})"
    company = ", shared with another experiment" if place.shared else ""
    return f"on one machine, {place.device}{f', {place.experiment}' if place.experiment else ''}{company}"


def name_here(place: MeasuredPlace) -> str:
    """Return "on this machine", for the end of a clause; nothing for a number of several machines."""
    if place.scope == "model":
        return ""
    return " on this machine, which another experiment shared" if place.shared else " on this machine"


def warn_of_machines(place: MeasuredPlace, ratio: float, bound: float = 1.0) -> str:
    """Return that another machine may decide otherwise, if the distance from a bound is within what machines differ by."""
    near = place.scope == "here" and abs(ratio / bound - 1) <= _MACHINES_DIFFER_BY
    return "; machines of one model differ this much" if near else ""


def describe_attempt(number: int) -> list[str]:
    """Return that a proof repeats others of the same commands; nothing for the first."""
    if number == 1:
        return []
    proof = f"{_ORDINALS[number - 1].capitalize()} proof" if number <= len(_ORDINALS) else f"Proof number {number}"
    return [f"{proof} of these commands here. Repeated proofs raise the chance of a false claim."]


def name_found_place(title: str, place: MeasuredPlace) -> str:
    """Return a title for a table's row, with the experiment if there are several, with how many machines, or a shared one."""
    places = [format_count(place.hosts, "machine") if place.scope == "model" else place.experiment or ""]
    places += [SHARED_MACHINE] if place.shared else []
    said = ", ".join(part for part in places if part)
    return f"{title} ({said})" if said else title
