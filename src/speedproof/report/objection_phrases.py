"""What speaks against a ratio, in words."""

from collections.abc import Callable, Mapping, Sequence

from speedproof.results.objections import Objection, ObjectionKind
from speedproof.util.numbers import Unit, format_count, format_duration, format_range, format_ratio, format_value
from speedproof.util.text import capitalize
from speedproof.util.units import MIB

# Where a process spends time outside of its epochs.
_PLACES = {
    "start_up_s": "before its first epoch",
    "first_epoch_s": "in its first epoch",
    "unreported_s": "between its epochs",
    "after_s": "after its last epoch",
    "elsewhere_s": "outside of its epochs",
    "before_reports_s": "until its first report",
    "after_reports_s": "after its last report",
}
# Why our clock did not see epochs: of one variant, of both, and what to do about it.
_UNSEEN = {
    "together": ("its reports arrive together", "their reports arrive together", "print with flush"),
    "file": ("its file is written at once", "their files are written at once", "append each row as its epoch ends"),
    "replaced": (
        "it writes a marks file of its own",
        "they write marks files of their own",
        "append to $SPEEDPROOF_RUN/marks.jsonl",
    ),
    "none": ("it has too few", "they have too few", "run more epochs"),
}
# By what a variant is faster, and what contradicts that.
_AVERAGES = {"epoch": "average epoch", "rate": "rate"}
_WHOLES = {"all_epochs": "over all epochs", "process": "as a whole process"}


class Named(str):
    """A clause that begins with a variant's name."""

    __slots__ = ()


def describe_objection(objection: Objection, titles: Mapping[str, str]) -> str:
    """Return an objection as a clause; `titles` are the variants' names for readers."""
    return _PHRASES[objection.kind](objection, titles.get(objection.variant or "", "both"))


def describe_condition(objection: Objection, titles: Mapping[str, str]) -> str:
    """Return an objection as the beginning of a sentence, in which a variant's name stands as it was typed."""
    said = describe_objection(objection, titles)
    return said if isinstance(said, Named) and objection.variant else capitalize(said)


def describe_remedy(objections: Sequence[Objection]) -> str:
    """Return what to do about noise that hides a difference, as a sentence; nothing if it does not."""
    kinds = {one.kind for one in objections}
    if "noise" not in kinds:
        return ""
    return "Longer runs differ less" + ("; --wait-for-quiet 10 waits for other programs." if "busy machine" in kinds else ".")


def _left_processes(one: Objection, whose: str) -> str:
    number = int(one.values["processes"])
    count = f"{number} process{'' if number == 1 else 'es'}"
    used = ""
    if "cpu_s" in one.values:
        used = ": they had used {} of CPU time (the other's: {})".format(*_format_values(one, "s", "cpu_s", "other_cpu_s"))
    return Named(f"{whose} left {count} running when it ended, and what they would still have done is not timed{used}")


def _clocks(one: Objection, whose: str) -> str:
    return _describe_ratios(one, whose, "")


def _unsupported(one: Objection, whose: str) -> str:
    if any(name in _PLACES for name in one.values):
        return f"{_outside(one, whose)}, too noisy to check"
    return _describe_ratios(one, whose, ", too noisy to check")


def _describe_ratios(one: Objection, whose: str, doubt: str) -> str:
    """Return what a variant reports and what our clock saw: how many times as fast as the other one it is."""
    reported, observed = _format_values(one, "×", "reported", "observed")
    outside = ""
    if "unreported_s" in one.values:
        own, other = (format_value(max(0.0, one.values[name]), "s") for name in ("unreported_s", "unreported_by_other_s"))
        outside = f": {own} of each of its epochs lie outside the times it reports (the other: {other})"
    return Named(f"{whose} reports {reported} but our clock saw {observed}{doubt}{outside}")


def _outside(one: Objection, whose: str) -> str:
    """Return where a variant's process spends what its epochs save."""
    spent = _describe_places(one)
    whole = (
        f", so that its whole process is {format_value(one.values['process'], '×')} as fast" if "process" in one.values else ""
    )
    if "gain_s" in one.values:
        saves = f"the epochs of {whose} take {format_value(one.values['gain_s'], 's')} less by its reports"
    elif "interval_gain_s" in one.values:
        saves = f"from its first report to its last {whose} takes {format_value(one.values['interval_gain_s'], 's')} less"
    else:
        return f"the process of {whose} takes longer than the other's: {spent}{whole}"
    return f"{saves}, but its process takes longer elsewhere: {spent}{whole}"


def _describe_places(one: Objection) -> str:
    parts = [f"{format_value(one.values[name], 's')} {place}" for name, place in _PLACES.items() if name in one.values]
    return " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), *parts[-1:]])


def _claimed_ratio(one: Objection, whose: str) -> str:
    """Return what is left of a ratio of which more is claimed, and why."""
    reported, corrected, claimed = _format_values(one, "×", "reported", "corrected", "claimed")
    reasons = [f"our clock saw {format_value(one.values['observed'], '×')}"] if "observed" in one.values else []
    if places := _describe_places(one):
        reasons.append(f"it takes longer elsewhere ({places})")
    why = " and ".join(reasons)
    return Named(f"{whose} is {reported} as fast by its reports, but {why}: that leaves {corrected}, and {claimed} is claimed")


def _unobserved(one: Objection, whose: str) -> str:
    """Return whose epochs our clock did not see, and why; if a gain may be hidden there, how much, and what to do."""
    (cause,) = one.names
    its, their, remedy = _UNSEEN[cause]
    unseen = f"the epochs of {whose} were not observed, because {its if one.variant else their}"
    if "outside_s" not in one.values:
        return unseen
    outside = format_value(one.values["outside_s"], "s")
    if "gain_s" in one.values:
        (saved,) = _format_values(one, "s", "gain_s")
        hidden = f"what they save by its reports, {saved}, may lie in the {outside} that its process takes besides"
    else:
        hidden = f"its process takes {outside} besides"
    return f"{unseen}, and {hidden}; {remedy}, or compare whole processes (--metric process_s)"


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


def _cores(one: Objection, whose: str) -> str:
    return Named(f"{whose} uses {one.values['own']:.1f} cores, the other {one.values['other']:.1f}")


def _bytes_read(one: Objection, whose: str) -> str:
    own, other = (format_value(one.values[name] / MIB, "MiB") for name in ("own", "other"))
    return Named(f"{whose} reads {own}, the other {other}")


def _gpus(one: Objection, whose: str) -> str:
    return Named(f"{whose} computes on {one.values['own']:g} GPUs, the other on {one.values['other']:g}")


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
    """Return how long a variant takes with what a run left, and without it."""
    what = "epoch" if "timed_epoch_s" in one.values else "process"
    with_s, without_s = _format_values(one, "s", f"timed_{what}_s", f"without_{what}_s")
    left = f"{with_s} with {_list_names(one.names)}, which appeared {when}, and {without_s} without"
    said = f"{whose} takes {left}; delete that first, then prove again with --isolate"
    return f"an epoch of {said}" if what == "epoch" else Named(said)


def _may_be_slowed(one: Objection, whose: str) -> str:
    names = _list_names(one.names)
    return Named(f"{whose} was only run with {names} as it was after another command ran; --isolate drops such changes")


def _spoilt(one: Objection, whose: str) -> str:
    changed = f"{_list_names(one.names)} vanished or changed while another command ran"
    return Named(f"{whose} may be slow because {changed}; restore that first, then prove again with --isolate")


def _watched_run_differs(one: Objection, whose: str) -> str:
    watched, between = _read_watched(one)
    return Named(f"{whose} behaves differently when it is watched: it ran {watched}, where its blind runs predict {between}")


def _watched_run(one: Objection, whose: str) -> str:
    watched, between = _read_watched(one)
    return f"no sign that {whose} behaves differently when it is watched: it ran {watched}, its blind runs predict {between}"


def _read_watched(one: Objection) -> tuple[str, str]:
    """Return how long a watched run took, and between which lengths one like the blind runs lies."""
    return format_value(one.values["watched_s"], "s"), format_range(one.values["low_s"], one.values["high_s"], "s")


def _carried_over(one: Objection, whose: str) -> str:
    first = "first timed run" if one.values["timed"] else "warm-up"
    changed = f"{_describe_drop(one, first)}, and changed {_list_names(one.names)}, which later runs see"
    return Named(f"{whose}: {changed}; delete that first, then prove again with --isolate")


def _warm_caches(one: Objection, whose: str) -> str:
    return Named(f"{whose}: {_describe_drop(one, 'warm-up')}, which found compile caches as it left them (--caches cold)")


def _changed_packages(one: Objection, whose: str) -> str:
    return Named(f"{whose} changed packages of the interpreter: {_list_names(one.names)}; use an environment for each")


def _changed_links(one: Objection, whose: str) -> str:
    return Named(f"{whose} changed linked files, which all runs see: {_list_names(one.names)}")


def _changed_test_data(one: Objection, whose: str) -> str:
    return Named(
        f"{whose} changed {_list_names(one.names)}, which the quality command reads; put it where programs cannot write"
    )


def _works_when_judged(one: Objection, whose: str) -> str:
    own, other, gain = _format_values(one, "s", "judging_s", "other_judging_s", "gain_s")
    return f"the quality command takes at least {own} for {whose} and {other} for the other, but a run of {whose} saves {gain}"


def _describe_drop(one: Objection, first: str) -> str:
    first_s, later_s = _format_values(one, "s", "first_s", "later_s")
    return f"its {first} took {first_s}, later runs {later_s}"


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _order(one: Objection, whose: str) -> str:
    after_other, after_own = _format_values(one, "×", "after_other", "after_own")
    only = " only" if one.blocks else ""
    return Named(f"{whose} is faster{only} after the other: {after_other} as fast then, {after_own} after its own runs")


def _trend(one: Objection, whose: str) -> str:
    change = one.values["change"]
    moved = f"{'rise' if change > 0 else 'fall'} by {format_value(abs(change), '%')}"
    return f"from the first round to the last, the values of {whose} {moved}; the order balances that"


def _noise(one: Objection, whose: str) -> str:
    spread, effect = _format_values(one, "%", "spread", "effect")
    return f"runs of one variant differ by {spread}, more than the {effect} between the variants"


def _busy_machine(one: Objection, whose: str) -> str:
    cores = format_count(int(one.values["cores"]), "core")
    return f"other programs took {one.values['others_cores']:.2g} of {cores} during the runs"


def _stolen_time(one: Objection, whose: str) -> str:
    cores = format_count(int(one.values["cores"]), "core")
    return f"the hypervisor took {one.values['stolen_cores']:.2g} of {cores} away during the runs"


def _cpu_quota(one: Objection, whose: str) -> str:
    held, watched = (format_duration(one.values[name]) for name in ("held_s", "watched_s"))
    return f"a CPU quota held the runs back for {held} of core time in {watched}"


def _heat(one: Objection, whose: str) -> str:
    return f"heat held the processor's clock down {format_count(int(one.values['events']), 'time')} during the runs"


def _shared_gpu(one: Objection, whose: str) -> str:
    more = int(one.values["processes"]) - len(one.names)
    return f"others were on the GPU: {', '.join(one.names)}{f' and {more} more' if more else ''}"


def _gpu_clocks(one: Objection, whose: str) -> str:
    held, other = _format_values(one, "%", "held", "other_held")
    return (
        f"the GPU held its clocks down in {held} of the samples of {whose}, {other} of the other's; "
        f"the other's mean clock is {one.values['clock_ratio']:.3g}× as high"
    )


def _gpu_still_busy(one: Objection, whose: str) -> str:
    seconds, other = _format_values(one, "s", "overhang_s", "other_overhang_s")
    return (
        f"when {whose} says that an epoch is done, the GPU still works for {seconds} on it (the other's: {other}); "
        "synchronize before you read the clock"
    )


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
    "may be slowed": _may_be_slowed,
    "spoilt": _spoilt,
    "helped": _helped,
    "watched run differs": _watched_run_differs,
    "watched run": _watched_run,
    "carried over": _carried_over,
    "warm caches": _warm_caches,
    "changed packages": _changed_packages,
    "changed links": _changed_links,
    "changed test data": _changed_test_data,
    "works when judged": _works_when_judged,
    "cores": _cores,
    "bytes read": _bytes_read,
    "gpus": _gpus,
    "order": _order,
    "trend": _trend,
    "noise": _noise,
    "busy machine": _busy_machine,
    "stolen time": _stolen_time,
    "cpu quota": _cpu_quota,
    "heat": _heat,
    "shared gpu": _shared_gpu,
    "gpu clocks": _gpu_clocks,
    "gpu still busy": _gpu_still_busy,
}
