"""What speaks against a ratio, in words."""

from collections.abc import Mapping

from speedproof.results.objections import Objection


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
