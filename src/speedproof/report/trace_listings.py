"""Tables of a trace, and of the difference of two, as a terminal and a page show them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from speedproof.report.trace_phrases import format_seconds
from speedproof.results.difference import Difference
from speedproof.results.kernels import summarize_kernels
from speedproof.results.summary import Kernel, SampledFunction, Stream, Summary, name_one
from speedproof.util.numbers import NO_NUMBER, format_value
from speedproof.util.units import NS_PER_S

_MOST = 12  # rows of a table
_FEW = 5  # rows of the extremes
_AT = ">begins at, s"
LONGEST_NAME = 24  # characters of a kernel's name beside others, and of a number that is never broken


@dataclass(frozen=True)
class Listing:
    """A table: columns that begin with `>` are of numbers. No more than `most` of the rows are shown."""

    title: str
    columns: Sequence[str]
    rows: list[list[str]]
    most: int = _MOST
    anchor: str = ""  # its name on a page

    def filled(self) -> "Listing":
        """Return it without columns in which nothing stands."""
        kept = [any(row[place] not in ("", NO_NUMBER) for row in self.rows) for place in range(len(self.columns))]
        return replace(self, columns=list(compress(self.columns, kept)), rows=[list(compress(row, kept)) for row in self.rows])


def list_difference(difference: Difference) -> Iterator[Listing]:
    """Yield the terms of a difference, all of them, and its kernels by group."""
    terms = difference.terms
    parts = any(term.part != "training" for term in terms)
    rows = [
        *(
            [term.kind, term.part if parts else "", term.name, *_changes(term.seconds_per_epoch, term.seconds_per_sample)]
            for term in terms
        ),
        ["residual", "", "no rule tells", *_changes(difference.residual_s, difference.residual_per_sample_s)],
        ["total", "", "", *_changes(difference.total_s, difference.total_per_sample_s)],
    ]
    per_unit = f">s {name_one(difference.unit)}"
    columns = ["kind", "part", "name", per_unit, ">ms a sample"]
    yield Listing("Terms of the difference", columns, rows, most=len(rows))
    kernels = [
        [one.group, *map(format_value, (one.a_s, one.b_s)), f"{one.seconds_per_epoch:+.6f}"] for one in difference.kernels
    ]
    title = "Kernels by group, on all GPUs; calls at the same time count each"
    yield Listing(title, ["group", ">first, s", ">second, s", per_unit], kernels)


def _changes(seconds_per_epoch: float, seconds_per_sample: float | None) -> list[str]:
    per_sample = format_value(None) if seconds_per_sample is None else f"{1e3 * seconds_per_sample:+.6f}"
    return [f"{seconds_per_epoch:+.6f}", per_sample]


def list_summary(summary: Summary) -> Iterator[Listing]:
    """Yield the tables of a trace, the empty ones among them."""
    if len(summary.processes) > 1:
        yield _processes(summary)
    yield _phases(summary)
    yield _idle_gaps(summary)
    if summary.gaps:
        yield _longest_gaps(summary)
    yield _slowest(summary)
    per_unit = f">time {summary.found.one}"
    title = f"Account of {summary.found.one}"
    yield Listing(title, ["kind", "part", "name", per_unit], _list_account(summary), anchor="account")
    columns = ["group", ">calls", ">GPU", ">launching", ">on tensor cores, by name"]
    yield Listing("Kernels, of the whole trace", columns, _list_groups(summary.kernels), anchor="kernels")
    yield _sampled("What ran", summary.sampled_functions, "functions")
    yield _sampled("Which Python ran", summary.sampled_python, "python")
    yield _counters(summary)
    columns = [">device", ">stream", per_unit, ">kernels", ">copies", ">both at once"]
    yield Listing("GPU busy by device and stream", columns, _list_streams(summary), anchor="streams")
    yield _transforms(summary)
    rows = [[advice.rule, advice.text, format_seconds(advice.seconds_per_epoch)] for advice in summary.advice]
    yield Listing("Advice: what could be gained at most", ["found", "what to do", per_unit], rows, anchor="advice")


def _processes(summary: Summary) -> Listing:
    rows = [
        [
            str(process.process),
            "yes" if process.summarized else "",
            ", ".join(map(str, process.devices)),
            format_seconds(process.gpu_busy_s),
            format_value(process.gpu_share, "%"),
        ]
        for process in summary.processes
    ]
    return Listing("Processes", [">process", "summarised", "GPUs", ">GPU busy", ">share"], rows, anchor="processes")


def _phases(summary: Summary) -> Listing:
    columns = ["part", "phase", ">calls", ">CPU", ">GPU", ">kernels", ">copies", ">projected", "attributed by"]
    rows = []
    for phase in summary.phases:
        lengths_s = (phase.wall_s, phase.gpu_busy_s, phase.kernel_busy_s, phase.copy_busy_s, phase.projected_s)
        named = [_name_part(summary, phase.part), phase.name, str(phase.calls)]
        rows.append([*named, *map(format_seconds, lengths_s), phase.method.replace("_", " ")])
    return Listing("Phases, of the whole trace: time on the CPU, and of the GPU for it", columns, rows, anchor="phases")


def _idle_gaps(summary: Summary) -> Listing:
    longest_first = sorted(summary.idle_gaps, key=lambda idle_gap: -idle_gap.seconds_per_epoch)
    rows = [[one.cause, one.detail, str(one.count), format_seconds(one.seconds_per_epoch)] for one in longest_first]
    columns = ["cause", "detail", ">stretches", f">time {summary.found.one}"]
    return Listing("Idle gaps: stretches without a kernel", columns, rows, anchor="idle_gaps")


def _longest_gaps(summary: Summary) -> Listing:
    where = "in the profiler's window" if summary.zero_ns is not None else "from the trace's first event on"
    columns = [_AT, ">lasts", f">{summary.found.unit}", "cause of most", "detail", ">of it", "before", "after"]
    rows = [
        [
            _format_moment(gap.start_s),
            format_value(gap.duration_s, "s"),
            str(gap.epoch),
            gap.cause,
            gap.detail,
            format_value(gap.share, "%"),
            _shorten(gap.before),
            _shorten(gap.after),
        ]
        for gap in summary.gaps
    ]
    return Listing(f"The longest gaps, by the time {where}", columns, rows, most=_FEW, anchor="gaps")


def _slowest(summary: Summary) -> Listing:
    title = f"The slowest {summary.found.plural}, and what is longer in them than in a typical one"
    columns = [_AT, ">lasts", f">{summary.found.unit}", ">longer", "kind", "part", "name", ">longer"]
    rows = [
        [
            _format_moment(slow.start_s),
            format_value(slow.duration_s, "s"),
            str(slow.epoch),
            format_value(slow.longer_s, "s"),
            slow.kind,
            _name_part(summary, slow.part),
            slow.name,
            format_value(slow.term_longer_s, "s"),
        ]
        for slow in summary.slowest
    ]
    return Listing(title, columns, rows, most=_FEW, anchor="slowest")


def _sampled(what: str, sampled: Sequence[SampledFunction], anchor: str) -> Listing:
    title = f"{what} on the loop's thread in unknown host time, sampled"
    rows = [[one.name, str(one.samples), format_value(one.share, "%")] for one in sampled]
    return Listing(title, ["function", ">samples", ">share"], rows, anchor=anchor)


def _counters(summary: Summary) -> Listing:
    title = f"Counters of the GPUs, sampled: means over the {summary.found.plural} that count"
    columns = ["metric", ">GPU", ">mean", "unit", ">samples", f">{summary.found.plural}"]
    rows = [
        [one.name, str(one.device), format_value(one.mean), one.unit, str(one.samples), str(one.epochs)]
        for one in summary.metrics
    ]
    return Listing(title, columns, rows, most=len(rows), anchor="counters")


def _transforms(summary: Summary) -> Listing:
    rows = [
        [one.name, str(one.calls), *map(format_seconds, (one.wall_s, one.in_epochs_s, one.on_main_thread_s))]
        for one in summary.transforms
    ]
    columns = ["transform", ">calls", ">time", ">in epochs", ">on the main thread"]
    return Listing("Transforms, of the whole trace", columns, rows, anchor="transforms")


def _list_account(summary: Summary) -> list[list[str]]:
    """Return the mean of each term over the epochs that count."""
    counted = {epoch.index for epoch in summary.steady_epochs}
    sums: dict[tuple[str, str, str], int] = defaultdict(int)
    for share in summary.account:
        if share.epoch in counted:
            sums[share.kind, share.part, share.name] += share.total_ns
    ordered = sorted(sums.items(), key=lambda term: -term[1])
    return [
        [kind, _name_part(summary, part), name, format_seconds(total_ns / len(counted) / NS_PER_S)]
        for (kind, part, name), total_ns in ordered
    ]


def _format_moment(seconds: float) -> str:
    """Return a time as a profiler's window shows it, to the microsecond."""
    return f"{seconds:.6f}"


def _shorten(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _name_part(summary: Summary, part: str) -> str:
    """Return a part's name; a loop that has but one is not said to train."""
    return part if part != "training" or summary.validates else ""


def _list_groups(kernels: list[Kernel]) -> list[list[str]]:
    """Return the groups of kernels, the costliest first."""
    return [
        [use.group, str(use.calls), *map(format_seconds, (use.gpu_s, use.cpu_s)), format_value(use.tensor_core_share, "%")]
        for use in summarize_kernels(kernels).groups
    ]


def _list_streams(summary: Summary) -> list[list[str]]:
    """Return each device, followed by its streams, with means over the epochs that count."""
    counted = {epoch.index for epoch in summary.steady_epochs}
    places: dict[tuple[int, int | None], list[Stream]] = defaultdict(list)
    for stream in summary.streams:
        if stream.epoch in counted:
            places[stream.device, stream.stream].append(stream)
    ordered = sorted(places.items(), key=lambda place: (place[0][0], -1 if place[0][1] is None else place[0][1]))
    return [
        [
            str(device),
            "all" if number is None else str(number),
            *(
                format_seconds(sum(getattr(stream, name) for stream in streams) / len(counted))
                for name in ("gpu_busy_s", "kernel_busy_s", "copy_busy_s", "overlap_s")
            ),
        ]
        for (device, number), streams in ordered
    ]
