"""What speaks against a ratio, in words."""

from collections.abc import Mapping, Sequence

from speedproof.results.objections import Objection
from speedproof.util.numbers import format_count, format_duration, format_value


def format_processes(number: int) -> str:
    """Write how many processes there are."""
    return f"{number} process{'' if number == 1 else 'es'}"


def describe_objection(objection: Objection, titles: Mapping[str, str]) -> str:
    """Return an objection as a clause; `titles` are the variants' names for readers."""
    whose, values = titles.get(objection.variant or "", "") or "both", objection.values
    match objection.kind:
        case "left processes":
            count = format_processes(int(objection.values["processes"]))
            return f"{whose} left {count} running when it ended, and what they would still have done is not timed"
        case "noise":
            spread, effect = (format_value(values[name], "%") for name in ("spread", "effect"))
            return f"runs of one variant differ by {spread}, more than the {effect} between the variants"
        case "busy machine":
            cores = format_count(int(values["cores"]), "core")
            return f"other programs took {values['others_cores']:.2g} of {cores} during the runs"
        case "stolen time":
            cores = format_count(int(values["cores"]), "core")
            return f"the hypervisor took {values['stolen_cores']:.2g} of {cores} away during the runs"
        case "cpu quota":
            held, watched = (format_duration(values[name]) for name in ("held_s", "watched_s"))
            return f"a CPU quota held the runs back for {held} of core time in {watched}"
        case "heat":
            return f"heat held the processor's clock down {format_count(int(values['events']), 'time')} during the runs"
        case "shared gpu":
            more = int(values["processes"]) - len(objection.names)
            return f"others were on the GPU: {', '.join(objection.names)}{f' and {more} more' if more else ''}"
        case "gpu clocks":
            held, other = (format_value(values[name], "%") for name in ("held", "other_held"))
            return (
                f"the GPU held its clocks down in {held} of the samples of {whose}, {other} of the other's; "
                f"the other's mean clock is {values['clock_ratio']:.3g}× as high"
            )
        case "gpu still busy":
            seconds, other = (format_value(values[name], "s") for name in ("overhang_s", "other_overhang_s"))
            return (
                f"when {whose} says that an epoch is done, the GPU still works for {seconds} on it (the other's: {other}); "
                "synchronize before you read the clock"
            )


def describe_remedy(objections: Sequence[Objection]) -> str:
    """Return what to do about noise that hides a difference, as a sentence; nothing if it does not."""
    kinds = {one.kind for one in objections}
    if "noise" not in kinds:
        return ""
    return "Longer runs differ less" + ("; --wait-for-quiet 10 waits for other programs." if "busy machine" in kinds else ".")
