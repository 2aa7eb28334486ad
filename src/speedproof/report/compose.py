"""A report on a results folder as a document: the same for the page and for Markdown."""

from speedproof.report import report_tables, setup_sections
from speedproof.report.accounts import draw_bars, read_accounts
from speedproof.report.document import Document, Element, Markup, Picture, Text, make_sections, make_table
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.findings import (
    describe_container,
    describe_differences,
    describe_limits,
    describe_noise,
    describe_variants,
)
from speedproof.report.first_screen import compose_first_screen
from speedproof.report.headlines import describe_headlines, name_case, tabulate_speedups
from speedproof.report.ranks_section import compose_gpus, describe_rank_variants
from speedproof.report.run_again import list_commands
from speedproof.report.stage_terms import compose_stage_terms, read_stage_accounts
from speedproof.report.timeline.fragment import TracedVariant
from speedproof.results.comparison import Comparison
from speedproof.stats.limits import list_limits
from speedproof.stats.main_ratios import list_judged
from speedproof.util.text import capitalize

_UNMEASURED = "Documented but not measured here"
_LONG_ABLATION = 30  # stages: a longer one is folded


def compose_document(
    evidence: Evidence, pictures: dict[str, Picture] | None = None, timeline: Markup | None = None
) -> Document:
    """Return the report on a results folder, with the given figures, by name, and timeline."""
    found = evidence.findings
    case = name_case(evidence.results.runs[0].run.case)
    judged = list_judged(evidence.comparison)
    title = f"{capitalize(case)}: {'documented speedups, measured here' if judged else 'measured speedups'}"
    unfolded = {"reach", "why", "timeline", "claims", *(["ablation"] if len(found.stages) <= _LONG_ABLATION else [])}
    sections = make_sections(_list_parts(evidence, pictures or {}, timeline), unfolded)
    return Document(title, compose_first_screen(evidence), sections, evidence.results.days)


def _list_parts(
    evidence: Evidence, pictures: dict[str, Picture], timeline: Markup | None
) -> list[tuple[str, str, list[Element]]]:
    """Return each section's anchor, title and elements, of which there may be none."""
    comparison, found = evidence.comparison, evidence.findings
    learns = evidence.tells_quality or not evidence.proof
    stages = read_stage_accounts(evidence.results)

    def show(name: str) -> list[Element]:
        return [pictures[name]] if name in pictures else []

    return [
        ("reach", "What these numbers can and cannot show", _compose_reach(evidence)),
        ("why", "Why", _compose_why(evidence)),
        ("timeline", "Timeline", [timeline] if timeline else []),
        ("claims", "Documented against measured", report_tables.compose_claims(found)),
        ("ablation", "Ablation", [*show("ablation"), *report_tables.compose_ablation(found), *compose_stage_terms(stages)]),
        ("unmeasured-claims", _UNMEASURED, report_tables.compose_unmeasured_claims(found)),
        ("speed", "Speed without a profiler", [*show("epoch_times"), *report_tables.compose_speed(found)]),
        ("quality", "Quality", [*show("convergence"), *report_tables.compose_quality(found)] if learns else []),
        ("way", f"Time to reach a given {comparison.quality.title}", report_tables.compose_ways(found)),
        ("gpus", "Several GPUs", compose_gpus(evidence)),
        ("use", _name_use(comparison), report_tables.compose_further(found)),
        ("phases", "Phases", report_tables.compose_phases(evidence, setup_sections.name_profilers(evidence))),
        (
            "limit",
            "Distance to the hardware limit",
            [*report_tables.compose_roofline(found), *report_tables.compose_utilization(found)],
        ),
        ("profiling", "What profiling costs", report_tables.compose_overheads(found)),
        ("container", "What the container costs", report_tables.compose_container(found)),
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
    found = evidence.findings
    elements: list[Element] = []
    for unequal in (False, True):
        if rows := tabulate_speedups(found, unequal=unequal):
            lead = report_tables.RESULT_PROSE["speedups"](unequal, found.speaks_for_models, found.device)
            elements += [Text([lead]), *make_table(rows[0], rows[1:])]
    sentences = [capitalize(sentence) for sentence in describe_headlines(found, tabulated=bool(elements))]
    if not sentences and not elements:
        sentences = [report_tables.RESULT_PROSE["nothing_compared"](len(found.stages) > 1)]
    limits = list_limits(evidence.results, evidence.comparison, evidence.traces, evidence.asked)
    said = [
        *sentences,
        *describe_noise(found.noises),
        *describe_container(cost for cost, _ in found.containers),
        *describe_limits(limits),
    ]
    return [*elements, Text(said, bullets=True)]


def _compose_why(evidence: Evidence) -> list[Element]:
    accounts = read_accounts(evidence)
    elements: list[Element] = [draw_bars(list(accounts.values()))] if accounts else []
    sentences = [
        *describe_variants(evidence),
        *describe_rank_variants(evidence),
        *describe_differences(evidence),
    ]
    return [*elements, *([Text(sentences, bullets=True)] if sentences else [])]
