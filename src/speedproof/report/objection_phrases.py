"""The objections to a ratio, in words."""

from collections.abc import Callable, Mapping, Sequence

from speedproof.results.comparison_rows import Objection, ObjectionKind
from speedproof.util.numbers import Unit, format_count, format_duration, format_range, format_ratio, format_value
from speedproof.util.text import capitalize
from speedproof.util.units import MIB

# Where a process spends time outside its epochs.
_PLACES = {
    "start_up_s": "before its first epoch",
    "first_epoch_s": "in its first epoch",
    "unreported_s": "between its epochs",
    "after_s": "after its last epoch",
    "elsewhere_s": "outside its epochs",
    "before_reports_s": "until its first report",
    "after_reports_s": "after its last report",
}
# Why our clock did not see epochs: words for one variant, for both, and the remedy.
_UNSEEN = {
    "together": ("its reports arrive together", "their reports arrive together", "print with flush"),
    "file": ("its file is written all at once", "their files are written all at once", "append each row as its epoch ends"),
    "replaced": (
        "it writes a marks file of its own",
        "they write marks files of their own",
        "append to $SPEEDPROOF_RUN/marks.jsonl",
    ),
    "none": ("it has too few", "they have too few", "run more epochs"),
}
# By which metric a variant is faster, and which metric contradicts that.
_AVERAGES = {"epoch": "average epoch", "rate": "rate"}
_WHOLES = {"all_epochs": "over all epochs", "process": "as a whole process"}


_TEMPLATES: dict[ObjectionKind, str] = {
    "works when judged": "the quality command takes at least {judging_s:s} for {whose} and {other_judging_s:s} for the other, "
    "but {whose} saves {gain_s:s} per run",
    "watched run": "no sign that {whose} behaves differently when watched: it took {watched_s:s}, and its blind runs predict "
    "{between}",
    "noise": "runs of one variant differ by {spread:%}, more than the {effect:%} between the variants",
    "busy machine": "other programs used {others_cores:.2g} of {cores:#core} during the runs",
    "stolen time": "the hypervisor took away {stolen_cores:.2g} of {cores:#core} during the runs",
    "cpu quota": "a CPU quota throttled the runs for {held_s:~s} of core time in {watched_s:~s}",
    "heat": "heat throttled the processor {events:#time} during the runs",
    "gpu clocks": "the GPU was throttled in {held:%} of the samples of {whose} and {other_held:%} of the other's; the "
    "other's mean clock is {clock_ratio:.3g}× as high",
    "gpu still busy": "when {whose} reports the end of an epoch, the GPU works on it for another {overhang_s:s} (the other's: "
    "{other_overhang_s:s}); synchronize before you read the clock",
}
# What follows a variant's name.
_OF_NAMED: dict[ObjectionKind, str] = {
    "may be slowed": " only ran with {names} as another command left it; --isolate discards such changes",
    "spoilt": " may be slow because {names} vanished or changed while another command ran; restore it, then prove "
    "again with --isolate",
    "watched run differs": " behaves differently when watched: it took {watched_s:s}, but its blind runs predict {between}",
    "warm caches": ": its warm-up took {first_s:s}; later runs, with the compile caches that it left, took {later_s:s} "
    "(--caches cold)",
    "changed packages": " changed installed packages: {names}; use a separate environment for each command",
    "changed links": " changed linked files, which all runs see: {names}",
    "changed test data": " changed {names}, which the quality command reads; put it where programs cannot write",
    "cores": " uses {own:.1f} cores, the other {other:.1f}",
    "bytes read": " reads {own:MiB}, the other {other:MiB}",
    "gpus": " computes on {own:g} GPUs, the other on {other:g}",
}


class Named(str):
    """A clause that begins with a variant's name."""

    __slots__ = ()


class _Number(float):
    """A number that a template formats in a unit, as a count (`#core`), or as a duration (`~s`)."""

    def __format__(self, how: str) -> str:
        match how[:1]:
            case "#":
                return format_count(int(self), how[1:])
            case "~":
                return format_duration(self)
            case "M":
                return format_value(self / MIB, how)
            case "s" | "×" | "%":
                return format_value(self, how)
            case _:
                return super().__format__(how)


def describe_objection(objection: Objection, titles: Mapping[str, str]) -> str:
    """Return an objection as a clause; `titles` are the variants' names for readers."""
    whose = titles.get(objection.variant or "", "both")
    if objection.kind in _PHRASES:
        return _PHRASES[objection.kind](objection, whose)
    if objection.kind in _TEMPLATES:
        return _fill(_TEMPLATES[objection.kind], objection, whose)
    return Named(f"{whose}{_fill(_OF_NAMED[objection.kind], objection, whose)}")


def describe_condition(objection: Objection, titles: Mapping[str, str]) -> str:
    """Return an objection as the beginning of a sentence; a variant's name keeps its case."""
    said = describe_objection(objection, titles)
    return said if isinstance(said, Named) and objection.variant else capitalize(said)


def _fill(template: str, one: Objection, whose: str) -> str:
    numbers = {name: _Number(value) for name, value in one.values.items()}
    between = format_range(one.values.get("low_s"), one.values.get("high_s"), "s")
    return template.format(whose=whose, names=_list_names(one.names), between=between, **numbers)


def describe_remedy(objections: Sequence[Objection]) -> str:
    """Return a sentence on what to do about noise that hides a difference; nothing without such noise."""
    kinds = {one.kind for one in objections}
    if "noise" not in kinds:
        return ""
    return "Longer runs differ less" + ("; --wait-for-quiet 10 waits for other programs." if "busy machine" in kinds else ".")


def _left_processes(one: Objection, whose: str) -> str:
    number = int(one.values["processes"])
    count = f"{number} process{'' if number == 1 else 'es'}"
    used = ""
    if "cpu_s" in one.values:
        used = " (CPU time so far: {}; the other's: {})".format(*_format_values(one, "s", "cpu_s", "other_cpu_s"))
    return Named(f"{whose} left {count} running when it ended; their further work is not timed{used}")


def _clocks(one: Objection, whose: str) -> str:
    return _describe_ratios(one, whose, "")


def _unsupported(one: Objection, whose: str) -> str:
    if any(name in _PLACES for name in one.values):
        return f"{_outside(one, whose)}, too noisy to check"
    return _describe_ratios(one, whose, ", too noisy to check")


def _describe_ratios(one: Objection, whose: str, doubt: str) -> str:
    """Return the ratio that a variant reports and the one that our clock saw."""
    reported, observed = _format_values(one, "×", "reported", "observed")
    outside = ""
    if "unreported_s" in one.values:
        own, other = (format_value(max(0.0, one.values[name]), "s") for name in ("unreported_s", "unreported_by_other_s"))
        outside = f": {own} of each of its epochs is outside the times it reports (the other: {other})"
    return Named(f"{whose} reports {reported} but our clock saw {observed}{doubt}{outside}")


def _outside(one: Objection, whose: str) -> str:
    """Return where a variant's process spends what its epochs save."""
    spent = _describe_places(one)
    whole = f", so its whole process is {format_value(one.values['process'], '×')} as fast" if "process" in one.values else ""
    if "gain_s" in one.values:
        saves = f"by its own reports, the epochs of {whose} take {format_value(one.values['gain_s'], 's')} less"
    elif "interval_gain_s" in one.values:
        saves = f"from its first to its last report, {whose} takes {format_value(one.values['interval_gain_s'], 's')} less"
    else:
        return f"the process of {whose} takes longer than the other's: {spent}{whole}"
    return f"{saves}, but its process takes longer elsewhere: {spent}{whole}"


def _describe_places(one: Objection) -> str:
    parts = [f"{format_value(one.values[name], 's')} {place}" for name, place in _PLACES.items() if name in one.values]
    return " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), *parts[-1:]])


def _claimed_ratio(one: Objection, whose: str) -> str:
    """Return what remains of a ratio that is below its claim, and why."""
    reported, corrected, claimed = _format_values(one, "×", "reported", "corrected", "claimed")
    reasons = [f"our clock saw {format_value(one.values['observed'], '×')}"] if "observed" in one.values else []
    if places := _describe_places(one):
        reasons.append(f"it takes longer elsewhere ({places})")
    why = " and ".join(reasons)
    return Named(f"{whose} is {reported} as fast by its reports, but {why}: that leaves {corrected}; the claim is {claimed}")


def _unobserved(one: Objection, whose: str) -> str:
    """Return whose epochs our clock did not see, and why; if a gain may be hidden there, its size and the remedy."""
    (cause,) = one.names
    its, their, remedy = _UNSEEN[cause]
    unseen = f"the epochs of {whose} were not observed, because {its if one.variant else their}"
    if "outside_s" not in one.values:
        return unseen
    outside = format_value(one.values["outside_s"], "s")
    if "gain_s" in one.values:
        (saved,) = _format_values(one, "s", "gain_s")
        hidden = f"the {saved} that they save by its reports may be spent in the {outside} outside them"
    else:
        hidden = f"its process takes {outside} outside them"
    return f"{unseen}; {hidden}; {remedy}, or compare whole processes (--metric process_s)"


def _direction(one: Objection, whose: str) -> str:
    gain, what = next((one.values[name], what) for name, what in _AVERAGES.items() if name in one.values)
    wholes = [f"{_describe_whole(one, name)} {whole}" for name, whole in _WHOLES.items() if name in one.values]
    said = f"is {format_value(gain, '×')} as fast by its {what}, but {' and '.join(wholes)}"
    if "epochs" not in one.values:
        return Named(f"{whose} {said}")
    ran = format_count(int(one.values["epochs"]), "epoch")
    return Named(f"{whose} ran {ran} and the other {one.values['other_epochs']:g}: it {said}")


def _describe_whole(one: Objection, name: str) -> str:
    """Return a ratio, and its interval if it has one."""
    low, high = one.values.get(f"{name}_low"), one.values.get(f"{name}_high")
    value, interval = format_ratio(one.values[name], low, high)
    return value if low is None else f"{value} ({interval})"


def _warm_up_differs(one: Objection, whose: str) -> str:
    if "warm_up_epoch_s" in one.values:
        before, timed = _format_values(one, "s", "warm_up_epoch_s", "timed_epoch_s")
        return f"an epoch of {whose} took {before} in the warm-up and {timed} when timed"
    before, timed = _format_values(one, "s", "warm_up_process_s", "timed_process_s")
    return Named(f"{whose} ran {before} in the warm-up and {timed} when timed")


def _slowed(one: Objection, whose: str) -> str:
    return _describe_left(one, whose, "while another command ran")


def _helped(one: Objection, whose: str) -> str:
    return _describe_left(one, whose, "during earlier runs")


def _describe_left(one: Objection, whose: str, when: str) -> str:
    """Return how long a variant takes with and without what a run left."""
    what = "epoch" if "timed_epoch_s" in one.values else "process"
    with_s, without_s = _format_values(one, "s", f"timed_{what}_s", f"without_{what}_s")
    left = f"{with_s} with {_list_names(one.names)}, which appeared {when}, and {without_s} without"
    said = f"{whose} takes {left}; delete it, then prove again with --isolate"
    return f"an epoch of {said}" if what == "epoch" else Named(said)


def _carried_over(one: Objection, whose: str) -> str:
    first = "first timed run" if one.values["timed"] else "warm-up"
    took = _fill("took {first_s:s} and changed {names}; later runs, which see that, took {later_s:s}", one, whose)
    return Named(f"{whose}: its {first} {took}; delete it, then prove again with --isolate")


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _order(one: Objection, whose: str) -> str:
    after_other, after_own = _format_values(one, "×", "after_other", "after_own")
    only = " only" if one.blocks else ""
    return Named(
        f"{whose} is faster{only} after a run of the other: {after_other} as fast then, {after_own} after its own runs"
    )


def _trend(one: Objection, whose: str) -> str:
    change = one.values["change"]
    moved = f"{'rise' if change > 0 else 'fall'} by {format_value(abs(change), '%')}"
    return f"from the first round to the last, the values of {whose} {moved}; the order of the runs balances this"


def _shared_gpu(one: Objection, whose: str) -> str:
    more = int(one.values["processes"]) - len(one.names)
    return f"other processes used the GPU: {', '.join(one.names)}{f' and {more} more' if more else ''}"


def _format_values(one: Objection, unit: Unit, *names: str) -> tuple[str, ...]:
    return tuple(format_value(one.values[name], unit) for name in names)


_PHRASES: dict[ObjectionKind, Callable[[Objection, str], str]] = {
    "left processes": _left_processes,
    "clocks": _clocks,
    "unsupported": _unsupported,
    "outside": _outside,
    "unobserved": _unobserved,
    "direction": _direction,
    "claimed ratio": _claimed_ratio,
    "warm-up differs": _warm_up_differs,
    "slowed": _slowed,
    "helped": _helped,
    "carried over": _carried_over,
    "order": _order,
    "trend": _trend,
    "shared gpu": _shared_gpu,
}
