"""The objections to a ratio, in words."""

from collections.abc import Mapping, Sequence

from speedproof.report.prose import Prose
from speedproof.results.comparison_rows import Objection, ObjectionKind
from speedproof.util.numbers import format_count, format_range, format_ratio, format_value
from speedproof.util.text import capitalize

_PROSE = Prose("objections.md.j2")
# Where a process spends time outside its (training) epochs.
_PLACES = {
    "start_up_s": "before its first epoch",
    "first_epoch_s": "in its first epoch",
    "unreported_s": "between its epochs",
    "validation_s": "in its validations",
    "after_s": "after its last epoch",
    "elsewhere_s": "outside its epochs",
    "before_reports_s": "until its first report",
    "after_reports_s": "after its last report",
}
# Clauses that do not begin with a variant's name; those of some kinds only if they have a certain number.
_IMPERSONAL: frozenset[ObjectionKind] = frozenset({
    "works when judged", "watched run", "noise", "busy machine", "stolen time", "cpu quota", "heat", "gpu clocks",
    "gpu still busy", "outside", "unobserved", "trend", "shared gpu", "ended early",
})  # fmt: skip
_OF_EPOCHS = {"warm_up_epoch_s", "timed_epoch_s"}


def describe_objection(objection: Objection, titles: Mapping[str, str]) -> str:
    """Return an objection as a clause; `titles` are the variants' names for readers."""
    values = objection.values
    facts = {
        "whose": titles.get(objection.variant or "", "both"),
        "variant": objection.variant,
        "blocks": objection.blocks,
        "v": values,
        "causes": objection.names,
        "names": _list_names(objection.names),
        "places": _describe_places(objection),
        "between": format_range(values.get("low_s"), values.get("high_s"), "s"),
        "wholes": {name: _describe_whole(values, name) for name in ("all_epochs", "process") if name in values},
    }
    return _PROSE[objection.kind.replace(" ", "_").replace("-", "_")](facts)


def describe_condition(objection: Objection, titles: Mapping[str, str]) -> str:
    """Return an objection as the beginning of a sentence; a variant's name keeps its case."""
    said = describe_objection(objection, titles)
    return said if objection.variant and _begins_with_name(objection) else capitalize(said)


def _begins_with_name(one: Objection) -> bool:
    if one.kind in _IMPERSONAL or _OF_EPOCHS & one.values.keys():
        return False
    return one.kind != "unsupported" or "observed" in one.values


def describe_remedy(objections: Sequence[Objection]) -> str:
    """Return a sentence on what to do about noise that hides a difference, or hinders a check; nothing without such noise."""
    found = {one.kind: one for one in objections}
    if "noise" in found:
        remedies = ["Longer runs differ less"]
    elif "unsupported" in found:
        remedies = ["Longer runs with more epochs, or more rounds (--rounds), are easier to check"]
    else:
        return ""
    if "busy machine" in found:
        remedies.append("--wait-for-quiet 10 waits up to 10 minutes for other programs")
    if "noise" in found and "used_cores" in (values := found["noise"].values):
        used, cores = format_value(values["used_cores"]), format_count(int(values["cores"]), "core")
        remedies.append(
            f"the programs use {used} of {cores}: fix their number of threads, equal for both (OMP_NUM_THREADS=1 for NumPy)"
        )
    return f"{'; '.join(remedies)}."


def _describe_places(one: Objection) -> str:
    parts = [f"{format_value(one.values[name], 's')} {place}" for name, place in _PLACES.items() if name in one.values]
    return " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), *parts[-1:]])


def _describe_whole(values: Mapping[str, float], name: str) -> str:
    """Return a ratio, and its interval if it has one."""
    low, high = values.get(f"{name}_low"), values.get(f"{name}_high")
    value, interval = format_ratio(values[name], low, high)
    return value if low is None else f"{value} ({interval})"


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
