"""`report.html` of one trace, or of the difference of two: the page of a report, without anything that runs say together."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from speedproof.profilers.formats import find_profiler
from speedproof.report import trace_phrases
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
    make_sections,
    write_row,
)
from speedproof.report.trace_listings import Listing, list_difference, list_summary
from speedproof.results.summary import PathClass, Summary
from speedproof.results.trace_results import Difference
from speedproof.util.numbers import format_value

_UNFOLDED = {"why", "to-know", "timeline", "terms", "gaps", "slowest", "path"}
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
    why = trace_phrases.describe_main_cause(summary) if summary.idle_gaps else ""
    facts = [Fact("Iterations", trace_phrases.describe_epochs(summary)), *_list_facts([traced])]
    first = FirstScreen([Badge("one profiled run", "plain")], _describe_use(traced), facts, why=why)
    return Document(f"{traced.title}: where its time goes", first, sections)


def compose_pair(a: Traced, b: Traced, difference: Difference, timeline: Markup) -> Document:
    """Return the page of two traces and of their difference."""
    unit = difference.unit
    accounts = split_difference(difference, a.title, b.title)
    why: list[Element] = []
    if min(account.total_s for account in accounts) > 0:
        why = [draw_bars(accounts), draw_waterfall(*accounts)]
    terms: list[Element] = [
        _tabulate(listing, f"{listing.title}.") for listing in list_difference(difference, a.title, b.title) if listing.rows
    ]
    facts = [Fact("How sure", [Marked(trace_phrases.PROSE["pair_sureness"](unit))])]
    if difference.total_per_sample_s is not None:
        facts.append(Fact("Per sample", trace_phrases.PROSE["samples"](difference, unit)))
    first = FirstScreen(
        [Badge("two profiled runs: no verdict", "open")],
        trace_phrases.describe_epoch_change(a.title, b.title, difference),
        [*facts, *_list_facts([a, b], difference.notes)],
        why=[VariantName(b.title), " takes ", explain(*accounts)] if difference.total_s else "",
    )
    sections = _list_sections([a, b], why, difference.notes, terms, timeline)
    return Document(f"{a.title} and {b.title}: where the difference lies", first, sections)


def _list_sections(
    traces: Sequence[Traced], why: list[Element], notes: Sequence[str], terms: list[Element], timeline: Markup
) -> list[Section]:
    plural = traces[0].summary.found.plural
    known: list[Words] = [*(f"{note}." for note in notes), *_list_notes(traces)]
    parts: list[tuple[str, str, list[Element]]] = [
        ("why", f"Where {plural} go", why),
        ("to-know", "Caveats", [Text(known, bullets=True)] if known else []),
        ("timeline", "Timeline", [timeline]),
        ("terms", "Terms of the difference", terms),
        ("gaps", "Longest gaps", []),
        ("slowest", f"Slowest {plural}", []),
        ("path", "Critical path", _show_each(traces, _show_paths)),
        ("idle_gaps", "Idle time by cause", []),
        ("functions", "Functions in unknown host time", []),
        ("phases", "Phases", []),
        ("kernels", "Kernels", []),
        ("arithmetic", "Arithmetic", []),
        ("copies", "Copies", []),
        ("counters", "GPU counters", []),
        ("streams", "Devices and streams", []),
        ("transforms", "Transforms", []),
        ("account", "Full account", []),
        ("advice", "Advice", []),
        ("processes", "Processes", []),
        ("repeats", "Other repeating ranges", _show_each(traces, _show_candidates)),
    ]
    tables = _show_listings(traces)
    return make_sections([(anchor, title, elements or tables[anchor]) for anchor, title, elements in parts], _UNFOLDED)


def _show_listings(traces: Sequence[Traced]) -> dict[str, list[Element]]:
    """Return the tables of each trace by the section that they are in."""
    shown: dict[str, list[Element]] = defaultdict(list)
    for traced in traces:
        for listing in list_summary(traced.summary):
            if listing.rows:
                shown[listing.anchor] += [*_name(traced, traces, listing.title), _tabulate(listing)]
    if shown["gaps"]:
        shown["gaps"].append(Text([trace_phrases.PROSE["gap_within"](traces[0].summary.found.unit)]))
    return shown


def _show_each(traces: Sequence[Traced], show: Callable[[Summary], list[Element]]) -> list[Element]:
    """Return what is shown of each trace, below its name."""
    shown = [(traced, show(traced.summary)) for traced in traces]
    return [element for traced, elements in shown if elements for element in [*_name(traced, traces), *elements]]


def _name(traced: Traced, traces: Sequence[Traced], what: str = "") -> list[Element]:
    """Return the heading of a variant's table: its name, if there are several, and what the table shows."""
    words: list[str] = [VariantName(traced.title)] if len(traces) > 1 else []
    if what:
        words += [": ", what[:1].lower() + what[1:], "."] if words else [what, "."]
    return [Text([words])] if words else []


def _tabulate(listing: Listing, *notes: str) -> Table:
    """Return a listing as a table, without columns in which nothing stands."""
    filled = listing.filled()
    return Table([column.lstrip(">") for column in filled.columns], filled.rows, notes)


def _show_paths(summary: Summary) -> list[Element]:
    paths = summary.critical_paths
    if not paths:
        return []
    numbers = summary.own_numbers
    rows = [
        write_row(
            numbers[path.epoch], path.host_s, path.loader_s, path.device_s, path.copy_s, path.communication_s, path.largest
        )
        for path in paths[:_MOST_PATHS]
    ]
    header = [summary.found.unit, *get_args(PathClass), "largest"]
    notes = [f"And {len(paths) - len(rows)} more, in summary.json."] if len(rows) < len(paths) else []
    return [Text([trace_phrases.describe_paths(summary)]), Table(header, rows, notes)]


def _show_candidates(summary: Summary) -> list[Element]:
    return [Text([trace_phrases.describe_candidates(summary)])] if summary.candidates else []


def _describe_use(traced: Traced) -> Words:
    summary = traced.summary
    if not summary.recorded:
        return [VariantName(traced.title), ": too little GPU work was recorded to measure its use."]
    if not summary.has_gpu and summary.gpu_untraced is None:
        return [VariantName(traced.title), " uses no GPU."]
    if not summary.has_gpu:
        return [VariantName(traced.title), ": ", trace_phrases.describe_no_gpu(summary.gpu_untraced)]
    epochs = summary.steady_epochs
    busy_s = sum(epoch.gpu_busy_fraction * epoch.duration_s for epoch in epochs)
    share = format_value(busy_s / sum(epoch.duration_s for epoch in epochs), "%")
    return [VariantName(traced.title), f" keeps its GPU busy {share} of the time."]


def _describe_whole(summary: Summary) -> Iterator[str]:
    if summary.ideal_epoch_s is not None:
        yield trace_phrases.describe_ideal(summary)
        yield trace_phrases.describe_unattributed(summary)
    if summary.idle_gaps:
        yield trace_phrases.describe_explained_share(summary)
    if summary.launches is not None:
        yield trace_phrases.describe_launches(summary.launches)
    yield from trace_phrases.describe_counters(summary)
    yield from trace_phrases.describe_arithmetic(summary)
    if summary.communication is not None:
        yield trace_phrases.describe_communication(summary.communication)


def _list_facts(traces: Sequence[Traced], notes: Sequence[str] = ()) -> Iterator[Fact]:
    summaries = [traced.summary for traced in traces]
    devices = dict.fromkeys(device for summary in summaries for device in summary.devices)
    yield Fact("Machine", f"{', '.join(devices) or 'No GPU in the trace'}.")
    profilers = dict.fromkeys(f"{find_profiler(summary.profiler).title} {summary.profiler_version}" for summary in summaries)
    yield Fact("Profiler", trace_phrases.PROSE["profiled_by"](profilers))
    if count := len(_list_notes(traces)) + len(notes):
        yield Fact("Caveats", trace_phrases.PROSE["to_know"](count), warns=True)


def _list_notes(traces: Sequence[Traced]) -> list[Words]:
    """Return the warnings of the analysis, with the variant's name if there are several."""
    return [
        [VariantName(traced.title), f": {warning}"] if len(traces) > 1 else warning
        for traced in traces
        for warning in map(_end_sentence, traced.summary.warnings)
    ]


def _end_sentence(warning: str) -> str:
    """Return a warning with a full stop, unless it ends a sentence already, as a profiler's own do."""
    return warning if warning.endswith((".", "?", "!")) else f"{warning}."
