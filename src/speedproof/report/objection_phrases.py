"""What speaks against a ratio, in words."""

from collections.abc import Mapping

from speedproof.results.comparison import Ratio
from speedproof.results.objections import Objection
from speedproof.util.numbers import format_count, format_value
from speedproof.util.units import MIB


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
        case "cores":
            return f"{whose} uses {own:.1f} cores, the other {other:.1f}"
        case "bytes read":
            return f"{whose} reads {format_value(own / MIB, 'MiB')}, the other {format_value(other / MIB, 'MiB')}"
        case "gpus":
            return f"{whose} computes on {own:g} GPUs, the other on {other:g}"


def describe_unequal_epochs(ratio: Ratio, subject: str) -> str:
    """Return that the variants of a ratio ran different numbers of epochs, that of `subject` first; nothing if they did not."""
    if ratio.work is None or not ratio.work.epochs:
        return ""
    own, other = ratio.work.epochs if subject == ratio.reference else reversed(ratio.work.epochs)
    return f", of unequal work ({format_count(own, 'epoch')} against {other:g})"
