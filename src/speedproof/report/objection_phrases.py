"""What speaks against a ratio, in words."""

from collections.abc import Mapping

from speedproof.results.objections import Objection
from speedproof.util.numbers import format_range, format_value


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


def _read_watched(values: Mapping[str, float]) -> tuple[str, str]:
    """Return how long a watched run took, and between which lengths one like the blind runs lies."""
    return format_value(values["watched_s"], "s"), format_range(values["low_s"], values["high_s"], "s")
