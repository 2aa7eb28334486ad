"""A report on a results folder as a document: the same for the page and for Markdown."""

from speedproof.report import report_tables, setup_sections
from speedproof.report.accounts import draw_bars, draw_waterfall, read_accounts
from speedproof.report.document import Document, Element, Markup, Picture, Text, make_sections, make_table
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.findings import (
    describe_container,
    describe_differences,
    describe_limits,
    describe_noise,
    describe_variants,
    list_commands,
)
from speedproof.report.first_screen import compose_first_screen
from speedproof.report.headlines import describe_headlines, name_case, tabulate_speedups
from speedproof.report.ranks_section import compose_gpus, describe_rank_variants
from speedproof.report.timeline.fragment import TracedVariant
from speedproof.results.comparison import Comparison
from speedproof.util.text import capitalize

_UNMEASURED = "Documented but not measured here"
_LONG_ABLATION = 30  # stages: a longer one is folded


def compose_document(
    evidence: Evidence, pictures: dict[str, Picture] | None = None, timeline: Markup | None = None
) -> Document:
    """Return the report on a results folder, with the given figures, by name, and timeline."""
    comparison = evidence.comparison
    case = name_case(evidence.results.runs[0].run.case)
    title = f"{capitalize(case)}: {'documented speedups' if comparison.claims else 'speedups'}, measured"
    unfolded = {"reach", "why", "timeline", "claims", *(["ablation"] if len(comparison.ablation) <= _LONG_ABLATION else [])}
    sections = make_sections(_list_parts(evidence, pictures or {}, timeline), unfolded)
    return Document(title, compose_first_screen(evidence), sections)


def _list_parts(
    evidence: Evidence, pictures: dict[str, Picture], timeline: Markup | None
) -> list[tuple[str, str, list[Element]]]:
    """Return each section's anchor, title and elements, of which there may be none."""
    comparison = evidence.comparison
    learns = evidence.tells_quality or not evidence.proof

    def show(name: str) -> list[Element]:
        return [pictures[name]] if name in pictures else []

    return [
        ("reach", "What these numbers can and cannot show", _compose_reach(evidence)),
        ("why", "Why", _compose_why(evidence)),
        ("timeline", "Timeline", [timeline] if timeline else []),
        ("claims", "Documented against measured", report_tables.compose_claims(comparison)),
        ("ablation", "Ablation", [*show("ablation"), *report_tables.compose_ablation(comparison)]),
        ("unmeasured-claims", _UNMEASURED, report_tables.compose_unmeasured_claims(comparison)),
        ("speed", "Speed without a profiler", [*show("epoch_times"), *report_tables.compose_speed(comparison)]),
        ("quality", "Quality", [*show("convergence"), *report_tables.compose_quality(comparison)] if learns else []),
        ("way", f"Time to a {comparison.quality.title}", report_tables.compose_ways(comparison)),
        ("gpus", "Several GPUs", compose_gpus(evidence)),
        ("use", _name_use(comparison), report_tables.compose_further(comparison)),
        ("phases", "Phases", report_tables.compose_phases(evidence, setup_sections.name_profilers(evidence))),
        ("limit", "Distance to the hardware limit", report_tables.compose_roofline(comparison)),
        ("profiling", "What profiling costs", report_tables.compose_overheads(comparison)),
        ("container", "What the container costs", report_tables.compose_container(comparison)),
        ("conditions", "Hardware, data and settings", setup_sections.compose_conditions(evidence)),
        ("runs", "Runs", setup_sections.compose_runs(evidence)),
        ("environment", "Environment", setup_sections.compose_environment(evidence)),
        ("again", "Run this again", [*list_commands(evidence)]),
        ("unmeasured", "Not measured or not available here", setup_sections.compose_unmeasured(evidence)),
        ("numbers", "How the numbers are computed", setup_sections.compose_numbers(evidence)),
    ]


def _name_use(comparison: Comparison) -> str:
    return "Further measurements" if comparison.conditions.device == "cpu" else "GPU utilisation, memory, power"


def find_timeline_variants(evidence: Evidence) -> list[TracedVariant]:
    """Return the variants whose traces a page shows: those of the main ratio if they have one, else the first two."""
    traced = list(evidence.traces)
    main = next(((one.against.name, one.subject.name) for one in evidence.answer.mains if one.kind == "ratio"), ())
    chosen = [name for name in main if name in traced]
    shown = [evidence.traces[name][0] for name in (chosen if len(chosen) == 2 else traced[:2])]
    return [TracedVariant(run.title, run.trace) for run in shown]


def _compose_reach(evidence: Evidence) -> list[Element]:
    comparison = evidence.comparison
    model = any(ratio.scope == "model" for ratio in comparison.ratios)
    elements: list[Element] = []
    for unequal in (False, True):
        if rows := tabulate_speedups(comparison, unequal=unequal):
            lead = report_tables.RESULT_PROSE["speedups"](unequal, model, comparison.conditions.device_name())
            elements += [Text([lead]), *make_table(rows[0], rows[1:])]
    sentences = [capitalize(sentence) for sentence in describe_headlines(comparison, tabulated=bool(elements))]
    if not sentences and not elements:
        sentences = [report_tables.RESULT_PROSE["nothing_compared"](len(comparison.ablation) > 1)]
    limits = [
        *describe_noise(evidence.answer),
        *describe_container(evidence.answer),
        *describe_limits(evidence),
    ]
    return [*elements, Text([*sentences, *limits], bullets=True)]


def _compose_why(evidence: Evidence) -> list[Element]:
    accounts = read_accounts(evidence)
    elements: list[Element] = [draw_bars(list(accounts.values()))] if accounts else []
    pairs = ([variant.name for variant in one.faster_first] for one in evidence.answer.mains if one.kind == "ratio")
    if compared := next((pair for pair in pairs if all(name in accounts for name in pair)), None):
        faster, slower = compared
        elements.append(draw_waterfall(accounts[slower], accounts[faster]))
    sentences = [
        *describe_variants(evidence),
        *describe_rank_variants(evidence),
        *describe_differences(evidence),
    ]
    return [*elements, *([Text(sentences, bullets=True)] if sentences else [])]
