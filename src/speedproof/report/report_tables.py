"""The report's sections of tables: what each row is made of, each number through one helper."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from speedproof.report.document import Cell, Element, Folded, Link, Marked, Row, Table, Text, Words, make_table, write_row
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.findings import describe_ablation, describe_verdicts
from speedproof.report.headlines import describe_statement, describe_verdict
from speedproof.report.prose import Prose
from speedproof.report.ratio_phrases import describe_needed, describe_ratio_cells
from speedproof.report.scope import name_found_place
from speedproof.results.comparison import TraceChange, Utilization
from speedproof.results.comparison_rows import ClaimResult
from speedproof.stats.finding import MeasuredPlace, RatioFinding
from speedproof.stats.found_tables import Findings, LevelFinding, StageFinding, WayFinding
from speedproof.stats.metrics import EPOCHS_TO_QUALITY, METRICS, PROCESS_TO_QUALITY, TIME_TO_QUALITY
from speedproof.util.numbers import NO_NUMBER, format_change, format_large, format_range, format_ratio, format_value

RESULT_PROSE = Prose("results.md.j2")
_CHANGES = {"gpu": "GPU in", "idle": "GPU idle,", "cpu": "CPU in"}
_CLOCKS = (TIME_TO_QUALITY, PROCESS_TO_QUALITY)


def compose_claims(found: Findings) -> list[Element]:
    """Compose the outcomes of documented numbers with the conditions that differ; Markdown has a letter for each of these."""
    if not found.claims:
        return []
    claims = [claim for claim in found.claims if claim.verdict != "not measured"]
    summary = Text([describe_verdicts(found)])
    if not claims:
        return [summary, Text(["No documented number could be measured."])]
    conditions = dict.fromkeys(condition for claim in claims for condition in claim.conditions)
    letters = {condition: _letter(number) for number, condition in enumerate(conditions)}
    return [
        summary,
        Table(
            ["Claim", "Outcome", "Measured", "Documented", "Spread", "Hardware", "Conditions", "From"],
            [_describe_claim(claim, letters) for claim in claims],
        ),
        Text(["What differs from the documented measurement:"], on_page=False),
        Text([[Marked(f"**{letter}**"), ": ", one] for one, letter in letters.items()], bullets=True, on_page=False),
        Text([Marked(RESULT_PROSE["outcomes"]())]),
    ]


def compose_unmeasured_claims(found: Findings) -> list[Element]:
    claims = [claim for claim in found.claims if claim.verdict == "not measured"]
    reasons = [claim.reason for claim in claims]
    claims.sort(key=lambda claim: reasons.index(claim.reason))
    rows: list[list[Words]] = [
        [Link(claim.text, claim.url), claim.documented, claim.hardware, claim.reason] for claim in claims
    ]
    return make_table(["Claim", "Documented", "Hardware", "What it would take"], rows)


def compose_ablation(found: Findings) -> list[Element]:
    """Compose the ablation's stages; nothing if there are not two."""
    if len(found.stages) < 2:
        return []
    rows = [
        write_row(
            name_found_place(stage.variant.title, stage.place),
            stage.technique or NO_NUMBER,
            stage.level,
            *_describe_gain(stage),
            found.rule.format(stage.best_quality),
            "; ".join(_describe_change(change) for change in stage.changes) or NO_NUMBER,
        )
        for stage in found.stages
    ]
    changes = "Largest changes in the trace, per training epoch"
    header = ["Stage", "Changes", "Training epoch", "Gain", "95 % interval", f"Best {found.rule.title}", changes]
    note = RESULT_PROSE["ablation"](found.rule.title, len(rows) - 1, found.most_comparisons)
    return make_table(header, rows, note, *describe_ablation(found))


def compose_speed(found: Findings) -> list[Element]:
    """Compose the ratios and levels of timed runs, and which variants could not be compared."""
    notes = [RESULT_PROSE["ratios"](), *([RESULT_PROSE["noise_floor"]()] if found.noises else [])]
    elements = [
        *make_table(["Metric", "Variants", "Ratio", "95 % interval", "Pairs"], list_ratios(found), *notes),
        *make_table(["Variant", "Metric", "Mean", "95 % interval", "Runs"], list_levels(found), RESULT_PROSE["levels"]()),
    ]
    apart = [
        [row.experiment, row.mode, f"{row.reference} / {row.candidate}", "; ".join(row.differences)]
        for row in found.incomparable
    ]
    if apart:
        elements.append(Text(["Not compared, because more than the techniques differed within an experiment:"]))
    return elements + make_table(["Experiment", "Mode", "Variants", "Differs"], apart)


def compose_quality(found: Findings) -> list[Element]:
    notes = [] if found.rule.margin is None else [RESULT_PROSE["quality_rule"](found.rule)]
    header = ["Variants", f"Equal quality (the faster variant's {found.rule.title} first)"]
    return make_table(header, list_qualities(found), *notes)


def compose_ways(found: Findings) -> list[Element]:
    """Compose the times to each quality that was reached."""
    header = [
        *(found.rule.title, "Variant", "Runs that reached it", "Epochs", "Training clock"),
        *("From the start of the process", "Ratio, training clock", "Ratio, from the start"),
    ]
    return make_table(header, list_ways_to_quality(found), RESULT_PROSE["clocks"](bool(found.comparison.prepared)))


def compose_further(found: Findings) -> list[Element]:
    header = ["Metric", "Variant", "Mean", "95 % interval", "Runs", "Ratio to the first variant"]
    return make_table(header, list_further(found), RESULT_PROSE["further"]())


def compose_phases(evidence: Evidence, recorders: Sequence[str]) -> list[Element]:
    rows = []
    for run, summary in evidence.traces.values():
        parts_s = {
            "training": sum(epoch.training_s for epoch in summary.epochs),
            "validation": sum(epoch.duration_s - epoch.training_s for epoch in summary.epochs),
        }
        for phase in summary.phases:
            if parts_s.get(phase.part, 0) > 0:
                busy_s = phase.gpu_busy_s if summary.has_gpu else None
                share = format_value(phase.wall_s / parts_s[phase.part], "%")
                rows.append(write_row(run.title, phase.part, phase.name, phase.calls, phase.wall_s, share, busy_s))
    header = ["Variant", "Part", "Phase", "Calls", "Time on the CPU", "Share of the part", "GPU busy for it"]
    return make_table(header, rows, RESULT_PROSE["phases"](recorders))


def compose_roofline(found: Findings) -> list[Element]:
    """Compose each variant's distance to the measured limit of the GPU."""
    header = [
        *("Variant", "Arithmetic per epoch", "Least traffic", "Time at the measured matmul rate"),
        *("Time at the measured copy rate", "Training epoch", "Share of the bound"),
    ]
    rows = []
    for point in found.roofline:
        work = (f"{point.flop_per_epoch / 1e12:.2f} TFLOP", f"{point.bytes_per_epoch / 1e9:.1f} GB")
        times_s = (point.arithmetic_s, point.traffic_s, point.measured_s)
        rows.append(write_row(point.title, *work, *times_s, format_value(point.share, "%")))
    return make_table(header, rows, RESULT_PROSE["roofline"]())


def compose_utilization(found: Findings) -> list[Element]:
    """Compose how well each variant uses its GPUs, by the FLOP that were counted."""
    rows = [
        write_row(
            *(one.title, f"{format_large(sum(one.flop.values()), 'FLOP')} per {one.of}", ", ".join(one.flop), one.seconds),
            *(format_large(one.flop_per_s, "FLOP/s"), one.product or NO_NUMBER, one.gpus, format_value(one.mfu, "%")),
        )
        for one in found.utilization
    ]
    header = ["Variant", "Counted FLOP", "Types", "Time", "Speed", "Datasheet", "GPUs", "MFU"]
    return make_table(header, rows, RESULT_PROSE["utilization"]())


def describe_utilization(one: Utilization) -> str:
    """Return how well a variant uses its GPUs in one sentence."""
    speed = f"{format_large(sum(one.flop.values()), 'FLOP')} per {one.of} in {format_value(one.seconds, 's')}"
    mfu = f", MFU {format_value(one.mfu, '%')} ({one.source})" if one.mfu is not None else ""
    return f"{one.title}: {speed}, {format_large(one.flop_per_s, 'FLOP/s')}{mfu}"


def compose_overheads(found: Findings) -> list[Element]:
    rows = [[name_found_place(one.variant.title, one.place), one.mode, _describe_level(one)[0]] for one in found.overheads]
    return make_table(["Variant", "Mode", "Training epoch against timed runs"], rows, Marked(RESULT_PROSE["profiling"]()))


def compose_container(found: Findings) -> list[Element]:
    rows = [
        [*_name_row(cost), _describe_level(outside)[0], *describe_ratio_cells(cost), str(cost.pairs)]
        for cost, outside in found.containers
    ]
    header = ["Variant", "Metric", "Outside", "Inside / outside", "95 % interval", "Pairs"]
    return make_table(header, rows, RESULT_PROSE["container"]())


def list_levels(found: Findings) -> list[Row]:
    """Return variant, metric, mean, interval and runs of the timed levels of the main metrics but the ways to a quality."""
    return [[*_name_row(one), *_describe_level(one)] for one in found.levels if not found.is_further(one)]


def list_further(found: Findings) -> list[Row]:
    """Return metric, variant, mean, interval, runs and the ratio to the first variant, of each further timed level.

    The ratio is such that above 1 the variant is better than the first one.
    """
    return [
        [*reversed(_name_row(one)), *_describe_level(one), _join_ratio(gain) if gain else NO_NUMBER]
        for one, gain in found.further
    ]


def list_ratios(found: Findings) -> list[Row]:
    """Return metric, variants, ratio, interval and pairs of the main metrics' timed ratios, after each metric's noise floor."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for one in (*found.noises, *found.ratios):
        if not found.is_further(one):
            cells = _describe_noise(one) if one.kind == "noise" else describe_ratio_cells(one)
            rows[one.metric_title].append([one.metric_title, _name_variants(one), *cells, str(one.pairs)])
    return [row for group in rows.values() for row in group]


def list_qualities(found: Findings) -> list[Row]:
    """Return variants and whether they are of equal quality, once for each two variants, by the first metric."""
    return [
        [_name_variants(one), f"{one.learning.check.outcome}: {one.learning.check.reason}"]
        for one in found.qualities
        if one.learning
    ]


def list_ways_to_quality(found: Findings) -> list[Row]:
    """Return quality, variant, runs that reached it, epochs, both clocks and the ratio, for each target in reach."""
    return [
        [
            found.rule.format(way.target),
            f"{way.variant.title} ({way.experiment})" if way.experiment else way.variant.title,
            f"{way.reached} of {way.runs}" + (f", {way.continued} continued" if way.continued else ""),
            *(_join_levels(way, metric) or NO_NUMBER for metric in (EPOCHS_TO_QUALITY, *_CLOCKS)),
            *(_join_gains(way, metric) or NO_NUMBER for metric in _CLOCKS),
        ]
        for way in found.ways
    ]


def _join_levels(way: WayFinding, metric: str) -> str:
    return "; ".join(_name_way_place(way, _describe_level(one)[0], one.place) for one in way.levels.get(metric, ()))


def _join_gains(way: WayFinding, metric: str) -> str:
    found = way.gains.get(metric, ())
    gains = "; ".join(_name_way_place(way, _join_ratio(one), one.place) for one in found)
    gains += f" against {found[0].against.title}" if found and way.experiment else ""
    return gains or (f"withheld: {way.withheld}" if way.withheld is not None else "")


def _name_way_place(way: WayFinding, text: str, place: MeasuredPlace) -> str:
    """Return a cell's text with its place, unless the row names its experiment."""
    return name_found_place(text, replace(place, experiment=None) if way.experiment else place)


def _name_row(found: LevelFinding | RatioFinding) -> Row:
    """Return the variant that a row is of, and its metric."""
    variant = found.variant if isinstance(found, LevelFinding) else found.subject
    return [name_found_place(variant.title, found.place), found.metric_title]


def _name_variants(found: RatioFinding) -> str:
    """Return both variants, the reference first: of a rate, that is the one that a ratio above 1 favours."""
    titles = [found.against.title, found.subject.title if found.kind != "noise" else "itself (noise floor)"]
    turned = found.kind != "noise" and not METRICS[found.metric].lower_is_better
    return name_found_place(" / ".join(titles[::-1] if turned else titles), found.place)


def _describe_noise(found: RatioFinding) -> tuple[str, str]:
    value, interval = format_ratio(*found.ends)
    return value, f"{interval}; pairs differ by up to {format_value(found.largest, '%')}"


def _describe_level(found: LevelFinding) -> Row:
    centre, low, high = found.ends
    return [format_value(centre, found.unit), format_range(low, high, found.unit), str(found.runs)]


def _describe_change(change: TraceChange) -> str:
    return f"{format_change(change.seconds)} {_CHANGES[change.kind]} {change.name}"


def _describe_gain(stage: StageFinding) -> tuple[str, str]:
    """Return a stage's gain and its interval, and why it does not count if it does not."""
    if stage.gain is None:
        return NO_NUMBER, NO_NUMBER
    value, interval = describe_ratio_cells(stage.gain)
    return value, f"{interval}: {stage.withheld}" if stage.withheld else interval


def _join_ratio(found: RatioFinding) -> str:
    value, interval = describe_ratio_cells(found)
    return f"{value} ({interval})"


def _describe_claim(claim: ClaimResult, letters: dict[str, str]) -> list[Cell]:
    return [
        Link(claim.text, claim.url),
        Marked(f"**{describe_verdict(claim)}**"),
        format_value(claim.measured, claim.unit),
        describe_statement(claim),
        format_range(claim.low, claim.high, claim.unit),
        claim.hardware,
        Folded(
            f"{len(claim.conditions)} differ{'s' * (len(claim.conditions) == 1)}",
            claim.conditions,
            " ".join(letter for condition, letter in letters.items() if condition in claim.conditions),
        ),
        f"{claim.reason}; {describe_needed(claim.needed, claim.scope)}" if claim.needed else claim.reason,
    ]


def _letter(number: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, …"""
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)
