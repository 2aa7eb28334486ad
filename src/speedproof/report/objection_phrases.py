"""What speaks against a ratio, in words."""

from collections.abc import Mapping

from speedproof.results.objections import Objection
from speedproof.util.numbers import format_value

# Where a process spends time outside of its epochs.
_PLACES = {
    "start_up_s": "before its first epoch",
    "unreported_s": "between its epochs",
    "after_s": "after its last epoch",
    "elsewhere_s": "outside of its epochs",
}


def format_processes(number: int) -> str:
    """Write how many processes there are."""
    return f"{number} process{'' if number == 1 else 'es'}"


def describe_objection(objection: Objection, titles: Mapping[str, str]) -> str:
    """Return an objection as a clause; `titles` are the variants' names for readers."""
    whose = titles.get(objection.variant or "", "") or "both"
    match objection.kind:
        case "left processes":
            count = format_processes(int(objection.values["processes"]))
            return f"{whose} left {count} running when it ended, and what they would still have done is not timed"
        case "clocks":
            return f"{_describe_ratios(objection, whose)}{_describe_unreported(objection)}"
        case "unsupported":
            if "elsewhere_s" in objection.values:
                return f"{_describe_outside(objection, whose)}, too noisy to check"
            return f"{_describe_ratios(objection, whose)}, too noisy to check{_describe_unreported(objection)}"
        case "outside":
            return _describe_outside(objection, whose)


def _describe_ratios(objection: Objection, whose: str) -> str:
    """Return what a variant reports and what our clock saw: how many times as fast as the other one it is."""
    reported, observed = (format_value(objection.values[name], "×") for name in ("reported", "observed"))
    return f"{whose} reports {reported} but our clock saw {observed}"


def _describe_unreported(objection: Objection) -> str:
    if "unreported_s" not in objection.values:
        return ""
    own, other = (format_value(max(0.0, objection.values[name]), "s") for name in ("unreported_s", "unreported_by_other_s"))
    return f": {own} of each of its epochs lie outside the times it reports (the other: {other})"


def _describe_outside(objection: Objection, whose: str) -> str:
    """Return where a variant's process spends what its epochs save."""
    spent = " and ".join(
        f"{format_value(objection.values[name], 's')} {place}" for name, place in _PLACES.items() if name in objection.values
    )
    if "gain_s" not in objection.values:
        return f"{whose}'s process takes longer than the other: {spent}"
    saved = format_value(objection.values["gain_s"], "s")
    return f"{whose} reports {saved} less for all its epochs, but its process takes longer than the other elsewhere: {spent}"
