"""What speaks against a ratio, in words."""

from collections.abc import Mapping, Sequence

from speedproof.results.objections import Objection
from speedproof.util.numbers import format_value


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
        case "carried over":
            first = "first timed run" if objection.values["timed"] else "warm-up"
            times = f"{_describe_drop(objection, first)}, and changed {_list_names(objection.names)}, which later runs see"
            return f"{whose}: {times}; remove that before each run, or try --isolate"
        case "warm caches":
            return (
                f"{whose}: {_describe_drop(objection, 'warm-up')}, which found compile caches as it left them (--caches cold)"
            )
        case "changed packages":
            return f"{whose} changed packages of the interpreter: {_list_names(objection.names)}; use an environment for each"


def _describe_drop(objection: Objection, first: str) -> str:
    first_s, later_s = (format_value(objection.values[name], "s") for name in ("first_s", "later_s"))
    return f"its {first} took {first_s}, later runs {later_s}"


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
