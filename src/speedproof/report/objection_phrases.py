"""What speaks against a ratio, in words."""

from collections.abc import Mapping

from speedproof.results.comparison import Ratio
from speedproof.results.objections import Objection
from speedproof.util.numbers import format_count, format_range, format_value
from speedproof.util.units import MIB

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
    own, other = (objection.values.get(name, 0.0) for name in ("own", "other"))
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
        case "cores":
            return f"{whose} uses {own:.1f} cores, the other {other:.1f}"
        case "bytes read":
            return f"{whose} reads {format_value(own / MIB, 'MiB')}, the other {format_value(other / MIB, 'MiB')}"
        case "gpus":
            return f"{whose} computes on {own:g} GPUs, the other on {other:g}"
        case "warm-up differs":
            what = "epoch" if "warm_up_epoch_s" in objection.values else "process"
            before, timed = (format_value(objection.values[f"{when}_{what}_s"], "s") for when in ("warm_up", "timed"))
            ran = f"an epoch of {whose} took" if what == "epoch" else f"{whose} ran"
            return f"{ran} {before} in the warm-up and {timed} when timed"
        case "watched run differs":
            watched, between = _read_watched(objection.values)
            return f"{whose} ran {watched} when it could see that it is measured, outside of the {between} of its blind runs"
        case "watched run":
            watched, between = _read_watched(objection.values)
            return (
                f"{whose} ran {watched} when it could see that it is measured; a run outside {between} would have been noticed"
            )


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


def _read_watched(values: Mapping[str, float]) -> tuple[str, str]:
    """Return how long a watched run took, and between which lengths one like the blind runs lies."""
    return format_value(values["watched_s"], "s"), format_range(values["low_s"], values["high_s"], "s")


def describe_unequal_epochs(ratio: Ratio, subject: str) -> str:
    """Return that the variants of a ratio ran different numbers of epochs, that of `subject` first; nothing if they did not."""
    if ratio.work is None or not ratio.work.epochs:
        return ""
    own, other = ratio.work.epochs if subject == ratio.reference else reversed(ratio.work.epochs)
    return f", of unequal work ({format_count(own, 'epoch')} against {other:g})"
