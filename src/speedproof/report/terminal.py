"""A trace's summary, and the difference of two, as tables on a terminal. The files hold all of it, and every digit."""

import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import compress
from statistics import median
from typing import TYPE_CHECKING, get_args

from rich import box
from rich.console import Console
from rich.table import Table

from speedproof.report.document import VariantName
from speedproof.results.difference import Difference
from speedproof.results.kernels import summarize_kernels
from speedproof.results.summary import (
    ClockSkew,
    Communication,
    Kernel,
    Launches,
    PathClass,
    SampledMetric,
    Stream,
    Summary,
    name_one,
)
from speedproof.util.line_width import find_width, fold, plain
from speedproof.util.numbers import NO_NUMBER, format_count, format_value
from speedproof.util.text import printable
from speedproof.util.units import MIB, NS_PER_S

if TYPE_CHECKING:
    from speedproof.results.comparison import Comparison

_MOST = 12  # rows of a table
_FEW = 5  # rows of the extremes
_NAME = 24  # characters of a kernel's name beside others, and of a number that is never broken
_WIDTH = 120  # where the output is no terminal
_UNEVEN = 0.1  # of the mean: where the median differs by more, it is said, too


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


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print where the time of a trace went: the answer, what to know, tables."""
    console = console or _make_console()
    _print_line(console, describe_epochs(summary))
    if summary.idle_gaps:
        _print_line(console, describe_main_cause(summary))
    for warning in summary.warnings:
        _print_line(console, f"Note: {warning}")
    for listing in list_summary(summary):
        _print_listing(console, listing)
    if summary.ideal_epoch_s is not None:
        _print_line(console, describe_ideal(summary))
        _print_line(console, describe_unattributed(summary))
    if summary.idle_gaps:
        _print_line(console, describe_explained_share(summary))
    if summary.launches is not None:
        _print_line(console, describe_launches(summary.launches))
    for text in describe_counters(summary):
        _print_line(console, text)
    if summary.critical_paths:
        _print_line(console, describe_paths(summary))
    if summary.communication is not None:
        _print_line(console, describe_communication(summary.communication))
    if summary.candidates:
        _print_line(console, describe_candidates(summary))


def print_difference(difference: Difference, console: Console | None = None) -> None:
    """Print why an epoch, or a sample where their number is known, of one trace takes longer or shorter than of another."""
    console = console or _make_console()
    _print_line(console, "".join(describe_epoch_change(difference.a, difference.b, difference)))
    for note in difference.notes:
        _print_line(console, f"Note: {note}")
    for listing in list_difference(difference):
        _print_listing(console, listing)


def lay_out(listing: Listing) -> list[str]:
    """Return a table's lines, as wide as standard output takes them."""
    file = StringIO()
    _print_listing(Console(file=file, highlight=False, markup=False, width=find_width(sys.stdout) or _WIDTH), listing)
    return [line.rstrip() for line in file.getvalue().splitlines() if line.strip()]


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


def print_metrics(comparison: "Comparison", console: Console | None = None) -> None:
    """Print every metric of the timed runs."""
    from speedproof.report.report_tables import list_further, list_levels  # of a results folder, which no trace's tables need

    console = console or _make_console()
    for title, columns, rows in (
        ("Timed runs", ["variant", "metric", ">mean", ">95 % interval", ">runs"], list_levels(comparison)),
        (
            "Besides; a ratio above 1: better than the first variant",
            ["metric", "variant", ">mean", ">95 % interval", ">runs", ">ratio"],
            list_further(comparison),
        ),
    ):
        _print_listing(console, Listing(title, columns, rows, most=len(rows)))


def _changes(seconds_per_epoch: float, seconds_per_sample: float | None) -> list[str]:
    per_sample = format_value(None) if seconds_per_sample is None else f"{1e3 * seconds_per_sample:+.6f}"
    return [f"{seconds_per_epoch:+.6f}", per_sample]


def _make_console() -> Console:
    return Console(highlight=False, markup=False, width=find_width(sys.stdout) or _WIDTH)  # names of kernels hold brackets


def _print_line(console: Console, text: str) -> None:
    console.print(fold(printable(text), console.width), soft_wrap=True)


def _print_listing(console: Console, listing: Listing) -> None:
    if not listing.rows:
        return
    listing = listing.filled()
    left_off = len(listing.rows) - listing.most
    title = plain(printable(listing.title)) or None
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.caption = f"and {left_off} more" if left_off > 0 else None
    rows = [[plain(printable(cell)) for cell in row] for row in listing.rows[: listing.most]]
    for column, cells in zip(listing.columns, zip(*rows, strict=True), strict=True):
        numbers, name = column.startswith(">"), column.lstrip(">")
        longest = max(len(word) for word in (*cells, *name.split()))
        if whole := numbers and longest <= _NAME:  # a number stays on one line; what it is of takes as many as it must
            name = textwrap.fill(name, longest)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def describe_epochs(summary: Summary) -> str:
    """Return how many iterations there are, how long they last, and how busy the GPU is."""
    if not summary.epochs:
        return "Nothing was traced."
    epochs, unit = summary.steady_epochs, summary.found.unit
    lengths_s = [epoch.duration_s for epoch in epochs]
    length_s = sum(lengths_s)
    mean_s, median_s = length_s / len(epochs), median(lengths_s)
    warm_up = "" if len(epochs) == len(summary.epochs) else ", without the first, which warms up"
    uneven = f", median {format_value(median_s, 's')}" if abs(mean_s - median_s) > _UNEVEN * mean_s else ""
    if unit == "stretch":
        text = f"One stretch of {format_value(length_s, 's')}"
    else:
        text = f"{format_count(len(summary.epochs), unit)}; mean {format_value(mean_s, 's')}{uneven}{warm_up}"
    if not summary.recorded:
        return f"{text}; of the GPU's work too little was recorded to say how busy it was."
    if not summary.has_gpu:
        return f"{text}; no GPU was used."
    kernel, gpu = (
        sum(getattr(epoch, f"{kind}_busy_fraction") * epoch.duration_s for epoch in epochs) / length_s
        for kind in ("kernel", "gpu")
    )
    return (
        f"{text}; {', '.join(summary.devices)} busy {format_value(gpu, '%')} of it, {format_value(kernel, '%')} with kernels."
    )


def describe_main_cause(summary: Summary) -> str:
    """Return the largest cause of time without a kernel, of which there must be some."""
    most = max(summary.idle_gaps, key=lambda idle_gap: idle_gap.seconds_per_epoch)
    cause = f"{most.cause} ({most.detail})" if most.detail else most.cause
    return f"Without a kernel it is mostly for {format_value(most.seconds_per_epoch, 's')} of {summary.found.one}: {cause}."


def describe_epoch_change(a: str, b: str, difference: Difference) -> list[str]:
    """Return in a sentence by how much the mean epoch of the trace `b` is longer or shorter than that of `a`."""
    lengths = f"{format_value(difference.epoch_b_s, 's')} against {format_value(difference.epoch_a_s, 's')}"
    unit = name_one(difference.unit)
    if not difference.total_s:
        return [VariantName(b), f" takes as long {unit} as ", VariantName(a), f": {lengths}."]
    change = f"{format_value(abs(difference.total_s), 's')} {'less' if difference.total_s < 0 else 'more'}"
    return [VariantName(b), f" takes {change} {unit} than ", VariantName(a), f": {lengths}."]


def describe_ideal(summary: Summary) -> str:
    """Return how long an iteration would be without idle time, and with data loaded beside it."""
    ideal, overlapped = (format_value(value, "s") for value in (summary.ideal_epoch_s, summary.overlapped_epoch_s))
    unit = f"a training {summary.found.unit}" if summary.validates else summary.found.one
    return f"{unit[0].upper()}{unit[1:]} without idle gaps would take {ideal}; max(GPU busy, data time) is {overlapped}."


def describe_communication(communication: Communication) -> str:
    """Return how long GPUs communicate in a mean iteration, and how much of that is hidden."""
    whole, exposed, hidden = (
        format_value(seconds, "s")
        for seconds in (communication.seconds_per_epoch, communication.exposed_s, communication.hidden_s)
    )
    return f"Communication takes {whole}, of which {hidden} are hidden behind other kernels and {exposed} exposed."


def describe_launches(launches: Launches) -> str:
    """Return how long kernels wait for their start, and how many do."""
    call, delay, most = map(_seconds, (launches.call_s, launches.delay_s, launches.delay_p99_s))
    return (
        f"A launch takes {call} on the CPU (median); its kernel starts {delay} later (median; 99 % within {most}). "
        f"{format_value(launches.queue_mean)} launched kernels wait at a time, {launches.queue_most} at most."
    )


def describe_counters(summary: Summary) -> Iterator[str]:
    """Yield what each GPU's sampled counters say of its use, and how much of its memory was in use."""
    words = {
        "sm_active": "SMs active",
        "tensor_active": "tensor cores active",
        "dram_read": "memory read",
        "dram_write": "written",
    }
    for device in sorted({metric.device for metric in summary.metrics}):
        metrics = [metric for metric in summary.metrics if metric.device == device]
        uses = {metric.role: metric for metric in metrics if metric.role}
        shown = ", ".join(f"{word} {_format_metric(uses[role])}" for role, word in words.items() if role in uses)
        rate = format_value(metrics[0].samples_per_s)
        yield f"GPU {device}, sampled {rate} times a second: {shown or format_count(len(metrics), 'metric')}."
    for memory in summary.memory:
        of = "of its own memory" if memory.kind == "device" else f"of {memory.kind} memory"
        peak, mean, most = (
            f"{format_value(size / MIB)} MiB" for size in (memory.peak_bytes, memory.mean_bytes, memory.trace_peak_bytes)
        )
        yield f"GPU {memory.device}: {of} at most {peak} in use, {mean} in the mean; {most} at most in the whole trace."


def _format_metric(metric: SampledMetric) -> str:
    return f"{format_value(metric.mean)} {metric.unit.replace('Throughput %', '%')}".rstrip()


def describe_paths(summary: Summary) -> str:
    """Return what the critical path of the epochs that count consists of, the largest class first."""
    paths = summary.critical_paths[len(summary.epochs) - len(summary.steady_epochs) :]
    classes = get_args(PathClass)
    sums = {name: sum(getattr(path, f"{name}_s") for path in paths) for name in classes}
    whole = sum(sums.values())
    largest_first = sorted(((name, length) for name, length in sums.items() if length), key=lambda one: -one[1])
    shares = [f"{name} {format_value(length / whole, '%')}" for name, length in largest_first]
    count = {name: sum(path.largest == name for path in paths) for name in classes}
    text = f"The critical path is {', '.join(shares)}"
    if len(paths) > 1:
        unit = summary.found.unit
        most = ", ".join(f"{name} in {format_count(number, unit)}" for name, number in count.items() if number)
        text = f"{text}; the largest part is {most}"
    return f"{text}.{_describe_skew(summary.clock_skew)}"


def _describe_skew(skew: ClockSkew | None) -> str:
    """Return by how much the clocks of host and GPU differ at least, as a further sentence; nothing if no work shows it."""
    if skew is None:
        return ""
    return (
        f" Clock skew: {format_count(skew.events, 'GPU event')} began before the launch, by up to "
        f"{format_value(skew.most_s, 's')}; the path uses the launch as the start."
    )


def describe_explained_share(summary: Summary) -> str:
    """Return how much of the time without a kernel has a cause that is known."""
    from speedproof.trace.idle_gaps import HOST, NO_RANGE, UNEXPLAINED  # which no table of a results folder needs

    whole = sum(idle_gap.total_s for idle_gap in summary.idle_gaps)
    unknown = sum(idle_gap.total_s for idle_gap in summary.idle_gaps if idle_gap.cause in (HOST, NO_RANGE))
    unexplained = sum(idle_gap.total_s for idle_gap in summary.idle_gaps if idle_gap.cause == UNEXPLAINED)
    shares = [format_value(part / whole, "%") for part in (whole - unknown - unexplained, unknown, unexplained)]
    return (
        f"Of the time without a kernel {shares[0]} has a known cause; {shares[1]} is unknown host time, and of {shares[2]} "
        "nothing is known."
    )


def describe_candidates(summary: Summary) -> str:
    """Return which ranges repeat on the loop's thread: what --epoch could choose."""
    ranges = ", ".join(
        f"`{one.name}` ({one.count} of {format_value(one.mean_s, 's')}, {format_value(one.coverage, '%')} of their span)"
        for one in summary.candidates
    )
    return f"Ranges that repeat, for --epoch: {ranges}."


def describe_unattributed(summary: Summary) -> str:
    """Return how much of the GPU's time no phase claims, and why."""
    share = f"No phase claims {format_value(summary.unattributed_fraction, '%')} of the GPU's busy time"
    reasons = ", ".join(f"{format_value(part.fraction, '%')} {part.reason}" for part in summary.unattributed)
    return f"{share}: {reasons}." if reasons else f"{share}."


def list_summary(summary: Summary) -> Iterator[Listing]:
    """Yield the tables of a trace, the empty ones among them."""
    per_unit = f">time {summary.found.one}"
    if len(summary.processes) > 1:
        yield Listing(
            "Processes",
            [">process", "summarised", "GPUs", ">GPU busy", ">share"],
            [
                [
                    str(process.process),
                    "yes" if process.summarized else "",
                    ", ".join(map(str, process.devices)),
                    _seconds(process.gpu_busy_s),
                    format_value(process.gpu_share, "%"),
                ]
                for process in summary.processes
            ],
            anchor="processes",
        )
    yield Listing(
        "Phases, of the whole trace: time on the CPU, and of the GPU for it",
        [
            "part",
            "phase",
            ">calls",
            ">CPU",
            ">GPU",
            ">kernels",
            ">copies",
            ">projected",
            "attributed by",
        ],
        [
            [
                _name_part(summary, phase.part),
                phase.name,
                str(phase.calls),
                *map(_seconds, (phase.wall_s, phase.gpu_busy_s, phase.kernel_busy_s, phase.copy_busy_s, phase.projected_s)),
                phase.method.replace("_", " "),
            ]
            for phase in summary.phases
        ],
        anchor="phases",
    )
    yield Listing(
        "Idle gaps: stretches without a kernel",
        ["cause", "detail", ">stretches", per_unit],
        [
            [
                idle_gap.cause,
                idle_gap.detail,
                str(idle_gap.count),
                _seconds(idle_gap.seconds_per_epoch),
            ]
            for idle_gap in sorted(summary.idle_gaps, key=lambda idle_gap: -idle_gap.seconds_per_epoch)
        ],
        anchor="idle_gaps",
    )
    at = ">begins at, s"
    if summary.gaps:
        where = "in the profiler's window" if summary.zero_ns is not None else "from the trace's first event on"
        yield Listing(
            f"The longest gaps, by the time {where}",
            [at, ">lasts", f">{summary.found.unit}", "cause of most", "detail", ">of it", "before", "after"],
            [
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
            ],
            most=_FEW,
            anchor="gaps",
        )
    yield Listing(
        f"The slowest {summary.found.plural}, and what is longer in them than in a typical one",
        [at, ">lasts", f">{summary.found.unit}", ">longer", "kind", "part", "name", ">longer"],
        [
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
        ],
        most=_FEW,
        anchor="slowest",
    )
    yield Listing(
        f"Account of {summary.found.one}",
        ["kind", "part", "name", per_unit],
        _list_account(summary),
        anchor="account",
    )
    yield Listing(
        "Kernels, of the whole trace",
        ["group", ">calls", ">GPU", ">launching", ">on tensor cores, by name"],
        _list_groups(summary.kernels),
        anchor="kernels",
    )
    for what, sampled, anchor in (
        ("What ran", summary.sampled_functions, "functions"),
        ("Which Python ran", summary.sampled_python, "python"),
    ):
        yield Listing(
            f"{what} on the loop's thread in unknown host time, sampled",
            ["function", ">samples", ">share"],
            [[one.name, str(one.samples), format_value(one.share, "%")] for one in sampled],
            anchor=anchor,
        )
    yield Listing(
        f"Counters of the GPUs, sampled: means over the {summary.found.plural} that count",
        ["metric", ">GPU", ">mean", "unit", ">samples", f">{summary.found.plural}"],
        [
            [one.name, str(one.device), format_value(one.mean), one.unit, str(one.samples), str(one.epochs)]
            for one in summary.metrics
        ],
        most=len(summary.metrics),
        anchor="counters",
    )
    yield Listing(
        "GPU busy by device and stream",
        [">device", ">stream", per_unit, ">kernels", ">copies", ">both at once"],
        _list_streams(summary),
        anchor="streams",
    )
    yield Listing(
        "Transforms, of the whole trace",
        ["transform", ">calls", ">time", ">in epochs", ">on the main thread"],
        [
            [one.name, str(one.calls), *map(_seconds, (one.wall_s, one.in_epochs_s, one.on_main_thread_s))]
            for one in summary.transforms
        ],
        anchor="transforms",
    )
    yield Listing(
        "Advice: what could be gained at most",
        ["found", "what to do", per_unit],
        [[advice.rule, advice.text, _seconds(advice.seconds_per_epoch)] for advice in summary.advice],
        anchor="advice",
    )


def _list_account(summary: Summary) -> list[list[str]]:
    """Return the mean of each term over the epochs that count."""
    counted = {epoch.index for epoch in summary.steady_epochs}
    sums: dict[tuple[str, str, str], int] = defaultdict(int)
    for share in summary.account:
        if share.epoch in counted:
            sums[share.kind, share.part, share.name] += share.total_ns
    ordered = sorted(sums.items(), key=lambda term: -term[1])
    return [
        [kind, _name_part(summary, part), name, _seconds(total_ns / len(counted) / NS_PER_S)]
        for (kind, part, name), total_ns in ordered
    ]


def _seconds(value: float | None) -> str:
    return format_value(value, "s")


def _format_moment(seconds: float) -> str:
    """Return a time as a profiler's window shows it, to the microsecond."""
    return f"{seconds:.6f}"


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _name_part(summary: Summary, part: str) -> str:
    """Return a part's name; a loop that has but one is not said to train."""
    return part if part != "training" or summary.validates else ""


def _list_groups(kernels: list[Kernel]) -> list[list[str]]:
    """Return the groups of kernels, the costliest first."""
    return [
        [use.group, str(use.calls), *map(_seconds, (use.gpu_s, use.cpu_s)), format_value(use.tensor_core_share, "%")]
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
                _seconds(sum(getattr(stream, name) for stream in streams) / len(counted))
                for name in ("gpu_busy_s", "kernel_busy_s", "copy_busy_s", "overlap_s")
            ),
        ]
        for (device, number), streams in ordered
    ]
