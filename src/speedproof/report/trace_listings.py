"""Tables of a trace, and of the difference of two, as a terminal and a page show them."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from speedproof.report.document import Row, write_row
from speedproof.results.summary import Arithmetic, SampledFunction, Stream, Summary
from speedproof.results.trace_results import Difference, summarize_kernels
from speedproof.util.numbers import NO_NUMBER, format_large, format_value
from speedproof.util.units import NS_PER_S

_MOST = 12  # rows of a table
_FEW = 5  # rows of the extremes
_WHERE = [">begins at, s", ">lasts"]
LONGEST_NAME = 24  # characters of a kernel's name beside others, and of a number that is never broken


@dataclass(frozen=True)
class Listing:
    """A table: columns that begin with `>` hold numbers, with `=` names that stay whole. At most `most` rows are shown."""

    title: str
    columns: Sequence[str]
    rows: list[Row]
    most: int = _MOST
    anchor: str = ""  # its anchor on a page

    def filled(self) -> "Listing":
        """Return it without empty columns."""
        kept = [any(row[place] not in ("", NO_NUMBER) for row in self.rows) for place in range(len(self.columns))]
        return replace(self, columns=list(compress(self.columns, kept)), rows=[list(compress(row, kept)) for row in self.rows])


def list_difference(difference: Difference, a: str = "A", b: str = "B") -> Iterator[Listing]:
    """Yield the terms of a difference, all of them, and its kernels by group; the traces are called `a` and `b`."""
    parts = any(term.part != "training" for term in difference.terms)
    rest_s = [
        difference.epoch_a_s - math.fsum(term.a_s for term in difference.terms),
        difference.epoch_b_s - math.fsum(term.b_s for term in difference.terms),
        difference.residual_s,
    ]
    totals_s = [difference.epoch_a_s, difference.epoch_b_s, difference.total_s]
    rows = []
    for term in difference.terms:
        numbers = _compare([term.a_s, term.b_s, term.seconds_per_epoch], term.seconds_per_sample)
        rows.append([term.kind, term.part if parts else "", term.name, *numbers])
    rows.append(["residual", "", "unexplained", *_compare(rest_s, difference.residual_per_sample_s)])
    rows.append(["total", "", "", *_compare(totals_s, difference.total_per_sample_s)])
    changes = [f">{a}, ms", f">{b}, ms", ">change, ms"]
    per_unit = f"per {difference.unit}"
    columns = ["kind", "part", "name", *changes, ">per sample, ms"]
    yield Listing(f"Terms of the difference, {per_unit}", columns, rows, most=len(rows))
    kernels = [[one.group, *_compare([one.a_s, one.b_s, one.seconds_per_epoch])[:-1]] for one in difference.kernels]
    yield Listing(f"Kernels by group, {per_unit}, on all GPUs; overlapping calls all count", ["group", *changes], kernels)


def _compare(seconds: Sequence[float], per_sample_s: float | None = None) -> Row:
    """Write milliseconds of A, of B, and by how much they change, per sample too; what rounds to nothing has no sign."""
    *lengths, change = (f"{1e3 * one:z.3f}" for one in seconds)
    per_sample = NO_NUMBER if per_sample_s is None else _sign(f"{1e3 * per_sample_s:z.6f}")
    return [*lengths, _sign(change), per_sample]


def _sign(number: str) -> str:
    return f"+{number}" if float(number) > 0 else number


def list_summary(summary: Summary) -> Iterator[Listing]:
    """Yield the tables of a trace, the empty ones among them."""
    per_unit, plural = f">time per {summary.found.unit}", summary.found.plural
    if len(summary.processes) > 1:
        yield _list_processes(summary)
    yield _list_phases(summary)
    idle = sorted(summary.idle_gaps, key=lambda one: -one.seconds_per_epoch)
    rows = [write_row(one.cause, one.detail, one.count, one.seconds_per_epoch) for one in idle]
    columns = ["cause", "detail", ">gaps", per_unit]
    yield Listing("Idle gaps: time without a kernel", columns, rows, anchor="idle_gaps")
    if summary.gaps:
        yield _list_gaps(summary)
    yield _list_slowest(summary)
    title = f"Account of {summary.found.one}"
    yield Listing(title, ["kind", "part", "name", per_unit], _list_account(summary), anchor="account")
    groups = summarize_kernels(summary.kernels).groups
    rows = [write_row(one.group, one.calls, one.gpu_s, one.cpu_s, format_value(one.tensor_core_share, "%")) for one in groups]
    columns = ["group", ">calls", ">GPU", ">launching", ">on tensor cores, by name"]
    yield Listing("Kernels in the whole trace", columns, rows, anchor="kernels")
    if summary.arithmetic is not None:
        yield _list_arithmetic(summary.arithmetic, summary.found.unit)
    yield _list_copies(summary)
    yield _list_samples("Functions", summary.sampled_functions, "functions")
    yield _list_samples("Python functions", summary.sampled_python, "python")
    rows = [
        write_row(one.name, one.device, format_value(one.mean), one.unit, one.samples, one.epochs) for one in summary.metrics
    ]
    title = f"GPU counters, sampled: means over the {plural} that count"
    columns = ["metric", ">GPU", ">mean", "unit", ">samples", f">{plural}"]
    yield Listing(title, columns, rows, most=len(rows), anchor="counters")
    columns = [">device", ">stream", per_unit, ">kernels", ">copies", ">both at once"]
    yield Listing("GPU busy by device and stream", columns, _list_streams(summary), anchor="streams")
    rows = [write_row(one.name, one.calls, one.wall_s, one.in_epochs_s, one.on_main_thread_s) for one in summary.transforms]
    columns = ["transform", ">calls", ">time", ">in epochs", ">on the main thread"]
    yield Listing("Transforms in the whole trace", columns, rows, anchor="transforms")
    rows = [write_row(advice.rule, advice.text, advice.seconds_per_epoch) for advice in summary.advice]
    yield Listing("Advice, with the largest possible gain", ["found", "what to do", per_unit], rows, anchor="advice")


def _list_processes(summary: Summary) -> Listing:
    rows = []
    for one in summary.processes:
        devices, share = ", ".join(map(str, one.devices)), format_value(one.gpu_share, "%")
        rows.append(write_row(one.process, "yes" if one.summarized else "", devices, one.gpu_busy_s, share))
    return Listing("Processes", [">process", "summarised", "GPUs", ">GPU busy", ">share"], rows, anchor="processes")


def _list_phases(summary: Summary) -> Listing:
    columns = ["part", "phase", ">calls", ">CPU", ">GPU", ">kernels", ">copies", ">projected", "attributed by"]
    rows = []
    for one in summary.phases:
        busy_s = (one.gpu_busy_s, one.kernel_busy_s, one.copy_busy_s, one.projected_s)
        method = one.method.replace("_", " ")
        rows.append(write_row(_name_part(summary, one.part), one.name, one.calls, one.wall_s, *busy_s, method))
    return Listing("Phases in the whole trace: CPU time, and the GPU time of their work", columns, rows, anchor="phases")


def _list_gaps(summary: Summary) -> Listing:
    where = "in the profiler's window" if summary.zero_ns is not None else "after the trace's first event"
    columns = [*_WHERE, f">{summary.found.unit}", "largest cause", "detail", ">of it", "before", "after"]
    numbers, rows = summary.own_numbers, []
    for gap in summary.gaps:
        why = (gap.cause, gap.detail, format_value(gap.share, "%"), _shorten(gap.before), _shorten(gap.after))
        rows.append(write_row(_format_moment(gap.start_s), gap.duration_s, numbers[gap.epoch], *why))
    return Listing(f"The longest gaps, by the time {where}", columns, rows, most=_FEW, anchor="gaps")


def _list_slowest(summary: Summary) -> Listing:
    title = f"The slowest {summary.found.plural}, and what takes longer in them than in a typical one"
    columns = [*_WHERE, f">{summary.found.unit}", ">longer", "kind", "part", "name", ">term longer"]
    numbers, rows = summary.own_numbers, []
    for one in summary.slowest:
        term = (one.kind, _name_part(summary, one.part), one.name, one.term_longer_s)
        rows.append(write_row(_format_moment(one.start_s), one.duration_s, numbers[one.epoch], one.longer_s, *term))
    return Listing(title, columns, rows, most=_FEW, anchor="slowest")


def _list_arithmetic(arithmetic: Arithmetic, unit: str) -> Listing:
    columns = ["group", "type", f">FLOP per {unit}", f">time per {unit}", ">speed", ">of the peak", "bound by", ">of the bound"]
    rows = []
    for one in arithmetic.groups:
        speed = (format_large(one.flop_per_s, "FLOP/s"), format_value(one.peak_share, "%"))
        bound = (one.bound or "", format_value(one.bound_share, "%"))
        rows.append(
            write_row(one.group, one.type, format_large(one.flop_per_epoch, "FLOP"), one.seconds_per_epoch, *speed, *bound)
        )
    return Listing("Arithmetic of kernels, by the GPU's datasheet", columns, rows, anchor="arithmetic")


def _list_copies(summary: Summary) -> Listing:
    per_unit = f"per {summary.found.unit}"
    columns = ["kind", ">copies", f">bytes {per_unit}", f">time {per_unit}", ">bandwidth", ">limit", ">of the limit"]
    rows = []
    for one in summary.copies:
        rates = (format_large(one.bytes_per_s, "B/s"), format_large(one.limit_bytes_per_s, "B/s"), format_value(one.share, "%"))
        rows.append(write_row(one.kind, one.calls, format_large(one.bytes_per_epoch, "B"), one.seconds_per_epoch, *rates))
    return Listing("Copies, by the GPU's datasheet", columns, rows, anchor="copies")


def _list_samples(what: str, sampled: Sequence[SampledFunction], anchor: str) -> Listing:
    title = f"{what} on the loop's thread in unknown host time, sampled"
    rows = [write_row(one.name, one.samples, format_value(one.share, "%")) for one in sampled]
    return Listing(title, ["function", ">samples", ">share"], rows, anchor=anchor)


def _list_account(summary: Summary) -> list[Row]:
    """Return the mean of each term over the epochs that count."""
    counted = {epoch.index for epoch in summary.steady_epochs}
    sums: dict[tuple[str, str, str], int] = defaultdict(int)
    for share in summary.account:
        if share.epoch in counted:
            sums[share.kind, _name_part(summary, share.part), share.name] += share.total_ns
    ordered = sorted(sums.items(), key=lambda term: -term[1])
    return [write_row(*term, total_ns / len(counted) / NS_PER_S) for term, total_ns in ordered]


def _list_streams(summary: Summary) -> list[Row]:
    """Return each device, followed by its streams, with means over the epochs that count."""
    counted = {epoch.index for epoch in summary.steady_epochs}
    places: dict[tuple[int, int], list[Stream]] = defaultdict(list)
    for one in summary.streams:
        if one.epoch in counted:
            places[one.device, -1 if one.stream is None else one.stream].append(one)
    columns = ("gpu_busy_s", "kernel_busy_s", "copy_busy_s", "overlap_s")
    rows = []
    for (device, number), streams in sorted(places.items()):
        means_s = (sum(getattr(one, column) for one in streams) / len(counted) for column in columns)
        rows.append(write_row(device, "all" if streams[0].stream is None else number, *means_s))
    return rows


def _format_moment(seconds: float) -> str:
    """Return a time as a profiler's window shows it, to the microsecond."""
    return f"{seconds:.6f}"


def _shorten(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _name_part(summary: Summary, part: str) -> str:
    """Return a part's name; a loop that has but one is not said to train."""
    return part if part != "training" or summary.validates else ""
