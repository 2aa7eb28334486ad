"""`report.html` of one trace, or of the difference of two: the page of a report, without anything that runs say together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from speedproof.profilers.formats import find_profiler
from speedproof.report.accounts import build_account, draw_bars, draw_waterfall, explain, split_difference
from speedproof.report.document import (
    Badge,
    Document,
    Element,
    Fact,
    FirstScreen,
    Marked,
    Markup,
    Section,
    Table,
    Text,
    VariantName,
    Words,
)
from speedproof.report.trace_listings import Listing, list_difference, list_summary
from speedproof.report.trace_phrases import (
    describe_candidates,
    describe_communication,
    describe_counters,
    describe_epoch_change,
    describe_epochs,
    describe_explained_share,
    describe_ideal,
    describe_launches,
    describe_main_cause,
    describe_paths,
    describe_unattributed,
)
from speedproof.results.difference import Difference
from speedproof.results.summary import Summary, name_one
from speedproof.util.numbers import format_count, format_value

_UNFOLDED = {"why", "to-know", "timeline", "terms", "gaps", "slowest", "path"}
_WITHIN = "A gap that goes on from one {0} into the next counts in each here; the timeline shows it whole."
_MOST_PATHS = 1000  # rows: of iterations by the ten thousand, those that count first


@dataclass(frozen=True)
class Traced:
    """A trace under the name that the page calls it."""

    title: str
    summary: Summary


def compose_trace(traced: Traced, timeline: Markup) -> Document:
    """Return the page of one trace."""
    summary = traced.summary
    account = build_account(traced.title, summary)
    bars: list[Element] = [draw_bars([account])] if account.total_s > 0 else []
    sections = _list_sections([traced], [*bars, Text(list(_describe_whole(summary)))], [], [], timeline)
    why = describe_main_cause(summary) if summary.idle_gaps else ""
    facts = [Fact("Iterations", describe_epochs(summary)), *_list_facts([traced])]
    first = FirstScreen([Badge("one profiled run", "plain")], _describe_use(traced), facts, why=why)
    return Document(f"{traced.title}: where its time goes", first, sections)


def compose_pair(a: Traced, b: Traced, difference: Difference, timeline: Markup) -> Document:
    """Return the page of two traces and of their difference."""
    unit = difference.unit
    accounts = split_difference(difference, a.title, b.title)
    slow, fast = accounts if difference.total_s <= 0 else (accounts[1], accounts[0])
    why: list[Element] = []
    if min(account.total_s for account in accounts) > 0:
        why = [draw_bars(accounts), draw_waterfall(slow, fast)]
    terms: list[Element] = [_tabulate(listing, titled=True) for listing in list_difference(difference) if listing.rows]
    facts = [
        Fact(
            "How sure",
            [Marked(f"The mean {unit} of one profiled run each: no interval. `speedproof prove` measures one.")],
        ),
        *([Fact("A sample", _describe_samples(difference))] if difference.total_per_sample_s is not None else []),
        *_list_facts([a, b], difference.notes),
    ]
    first = FirstScreen(
        [Badge("two profiled runs: no verdict", "open")],
        describe_epoch_change(a.title, b.title, difference),
        facts,
        why=[VariantName(fast.title), " takes ", explain(slow, fast)] if difference.total_s else "",
    )
    return Document(
        f"{a.title} and {b.title}: where the difference lies",
        first,
        _list_sections([a, b], why, difference.notes, terms, timeline),
    )


def _list_sections(
    traces: Sequence[Traced], why: list[Element], notes: Sequence[str], terms: list[Element], timeline: Markup
) -> list[Section]:
    plural = traces[0].summary.found.plural
    tables = [{listing.anchor: listing for listing in list_summary(traced.summary)} for traced in traces]

    def show(anchor: str) -> list[Element]:
        elements: list[Element] = []
        for traced, listings in zip(traces, tables, strict=True):
            if anchor in listings and listings[anchor].rows:
                elements += [*_name(traced, traces, listings[anchor].title), _tabulate(listings[anchor])]
        return elements

    gaps = show("gaps")
    known: list[Words] = [*(f"{note}." for note in notes), *_list_notes(traces)]
    parts: list[tuple[str, str, list[Element]]] = [
        ("why", f"Where {plural} go", why),
        ("to-know", "To know", [Text(known, bullets=True)] if known else []),
        ("timeline", "Timeline", [timeline]),
        ("terms", "Terms of the difference", terms),
        ("gaps", "The longest gaps", [*gaps, Text([_WITHIN.format(traces[0].summary.found.unit)])] if gaps else []),
        ("slowest", f"The slowest {plural}", show("slowest")),
        ("path", "The critical path", _show_paths(traces)),
        ("idle_gaps", "Idle time by cause", show("idle_gaps")),
        ("functions", "Functions in unknown host time", show("functions")),
        ("phases", "Phases", show("phases")),
        ("kernels", "Kernels", show("kernels")),
        ("counters", "Counters of the GPUs", show("counters")),
        ("streams", "Devices and streams", show("streams")),
        ("transforms", "Transforms", show("transforms")),
        ("account", "The whole account", show("account")),
        ("advice", "What could be gained", show("advice")),
        ("processes", "Processes", show("processes")),
        ("repeats", "What else repeats", _show_candidates(traces)),
    ]
    return [Section(anchor, title, elements, anchor not in _UNFOLDED) for anchor, title, elements in parts if elements]


def _name(traced: Traced, traces: Sequence[Traced], what: str = "") -> list[Element]:
    """Return what stands above a variant's table: whose it is, where there are several, and what it shows."""
    words: list[str] = [VariantName(traced.title)] if len(traces) > 1 else []
    if what:
        words += [": ", what[:1].lower() + what[1:], "."] if words else [what, "."]
    return [Text([words])] if words else []


def _tabulate(listing: Listing, titled: bool = False) -> Table:
    """Return a listing as a table, without columns in which nothing stands."""
    filled = listing.filled()
    header = [column.lstrip(">") for column in filled.columns]
    return Table(header, filled.rows, [f"{listing.title}."] if titled else [])


def _show_paths(traces: Sequence[Traced]) -> list[Element]:
    elements: list[Element] = []
    for traced in traces:
        summary = traced.summary
        if summary.critical_paths:
            rows = [
                [
                    str(path.epoch),
                    *(
                        format_value(seconds, "s")
                        for seconds in (path.host_s, path.loader_s, path.device_s, path.copy_s, path.communication_s)
                    ),
                    path.largest,
                ]
                for path in summary.critical_paths[:_MOST_PATHS]
            ]
            header = [summary.found.unit, "host", "loader", "device", "copy", "communication", "largest"]
            left_off = len(summary.critical_paths) - len(rows)
            notes = [f"And {left_off} more, in summary.json."] if left_off else []
            elements += [*_name(traced, traces), Text([describe_paths(summary)]), Table(header, rows, notes)]
    return elements


def _show_candidates(traces: Sequence[Traced]) -> list[Element]:
    elements: list[Element] = []
    for traced in traces:
        if traced.summary.candidates:
            elements += [*_name(traced, traces), Text([describe_candidates(traced.summary)])]
    return elements


def _describe_use(traced: Traced) -> Words:
    summary = traced.summary
    if not summary.recorded:
        return [VariantName(traced.title), ": too little of the GPU's work was recorded to say how busy it was."]
    if not summary.has_gpu:
        return [VariantName(traced.title), " uses no GPU."]
    epochs = summary.steady_epochs
    busy_s = sum(epoch.gpu_busy_fraction * epoch.duration_s for epoch in epochs)
    share = format_value(busy_s / sum(epoch.duration_s for epoch in epochs), "%")
    return [VariantName(traced.title), f" keeps its GPU busy {share} of the time."]


def _describe_whole(summary: Summary) -> Iterator[str]:
    if summary.ideal_epoch_s is not None:
        yield describe_ideal(summary)
        yield describe_unattributed(summary)
    if summary.idle_gaps:
        yield describe_explained_share(summary)
    if summary.launches is not None:
        yield describe_launches(summary.launches)
    yield from describe_counters(summary)
    if summary.communication is not None:
        yield describe_communication(summary.communication)


def _describe_samples(difference: Difference) -> str:
    change = difference.total_per_sample_s or 0.0
    word = "less" if change < 0 else "more"
    samples = f"{difference.samples_b:g} against {difference.samples_a:g} samples {name_one(difference.unit)}"
    return f"{format_value(abs(change), 's')} {word}, of {samples}."


def _list_facts(traces: Sequence[Traced], notes: Sequence[str] = ()) -> Iterator[Fact]:
    summaries = [traced.summary for traced in traces]
    devices = dict.fromkeys(device for summary in summaries for device in summary.devices)
    yield Fact("Machine", f"{', '.join(devices) or 'No GPU in the trace'}.")
    profilers = dict.fromkeys(f"{find_profiler(summary.profiler).title} {summary.profiler_version}" for summary in summaries)
    yield Fact("Profiler", f"{', '.join(profilers)}. A profiled program is slower than it is by itself.")
    if count := len(_list_notes(traces)) + len(notes):
        yield Fact(
            "To know", f"{format_count(count, 'thing')}, before these numbers are trusted: the section To know.", warns=True
        )


def _list_notes(traces: Sequence[Traced]) -> list[Words]:
    """Return what the analysis warns of, with the variant that it is of where there are several."""
    return [
        [VariantName(traced.title), f": {warning}."] if len(traces) > 1 else f"{warning}."
        for traced in traces
        for warning in traced.summary.warnings
    ]
