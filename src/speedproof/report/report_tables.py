"""The report's sections of tables: what each row is made of, each number through one helper."""

from collections import defaultdict
from collections.abc import Sequence

from speedproof.report.document import Element, Link, Marked, Row, Table, Text, Words, make_table, write_row
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.findings import describe_ablation, describe_verdicts
from speedproof.report.headlines import describe_statement, describe_verdict
from speedproof.report.prose import Prose
from speedproof.report.ratio_phrases import describe_needed, describe_unclaimed
from speedproof.report.scope import name_place
from speedproof.results.comparison import Comparison, ContainerCost, Measured, Ratio, Reached, Stage, TraceChange
from speedproof.results.comparison_rows import ClaimResult
from speedproof.stats.metrics import EPOCHS_TO_QUALITY, METRICS, PROCESS_TO_QUALITY, TIME_TO_QUALITY
from speedproof.util.numbers import NO_NUMBER, format_range, format_ratio, format_value

RESULT_PROSE = Prose("results.md.j2")
_CHANGES = {"gpu": "GPU in", "idle": "GPU idle,", "cpu": "CPU in"}
_CLOCKS = (TIME_TO_QUALITY, PROCESS_TO_QUALITY)


def compose_claims(comparison: Comparison) -> list[Element]:
    """Compose the outcomes of documented numbers, with a letter for each condition that differs."""
    if not comparison.claims:
        return []
    claims = [claim for claim in comparison.claims if claim.verdict != "not measured"]
    summary = Text([describe_verdicts(comparison)])
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
        Text(["What differs from the documented measurement:"]),
        Text([[Marked(f"**{letter}**"), ": ", condition] for condition, letter in letters.items()], bullets=True),
        Text([Marked(RESULT_PROSE["outcomes"]())]),
    ]


def compose_unmeasured_claims(comparison: Comparison) -> list[Element]:
    claims = [claim for claim in comparison.claims if claim.verdict == "not measured"]
    reasons = [claim.reason for claim in claims]
    claims.sort(key=lambda claim: reasons.index(claim.reason))
    rows: list[list[Words]] = [
        [Link(claim.text, claim.url), claim.documented, claim.hardware, claim.reason] for claim in claims
    ]
    return make_table(["Claim", "Documented", "Hardware", "What it would take"], rows)


def compose_ablation(comparison: Comparison) -> list[Element]:
    """Compose the ablation's stages; nothing if there are not two."""
    stages, quality = comparison.ablation, comparison.quality
    if len(stages) < 2:
        return []
    changes = "Largest changes in the trace, per training epoch"
    rows = [
        write_row(
            name_place(stage.title, stage, comparison),
            stage.technique or NO_NUMBER,
            stage.level,
            *_describe_gain(stage),
            quality.format(stage.best_quality),
            "; ".join(_describe_change(change) for change in stage.changes) or NO_NUMBER,
        )
        for stage in stages
    ]
    header = ["Stage", "Changes", "Training epoch", "Gain", "95 % interval", f"Best {quality.title}", changes]
    note = RESULT_PROSE["ablation"](quality.title, len(stages) - 1)
    return make_table(header, rows, note, *describe_ablation(comparison))


def compose_speed(comparison: Comparison) -> list[Element]:
    """Compose the ratios and levels of timed runs, and which variants could not be compared."""
    notes = [RESULT_PROSE["ratios"](), *([RESULT_PROSE["noise_floor"]()] if comparison.noise_floor else [])]
    elements = [
        *make_table(["Metric", "Variants", "Ratio", "95 % interval", "Pairs"], list_ratios(comparison), *notes),
        *make_table(["Variant", "Metric", "Mean", "95 % interval", "Runs"], list_levels(comparison), RESULT_PROSE["levels"]()),
    ]
    apart = [
        [row.experiment, row.mode, f"{row.reference} / {row.candidate}", "; ".join(row.differences)]
        for row in comparison.incomparable
    ]
    if apart:
        elements.append(Text(["Not compared, because more than the techniques differed within an experiment:"]))
    return elements + make_table(["Experiment", "Mode", "Variants", "Differs"], apart)


def compose_quality(comparison: Comparison) -> list[Element]:
    rule = comparison.quality
    notes = [] if rule.margin is None else [RESULT_PROSE["quality_rule"](rule)]
    header = ["Variants", f"Equal quality (the faster variant's {rule.title} first)"]
    return make_table(header, list_qualities(comparison), *notes)


def compose_ways(comparison: Comparison) -> list[Element]:
    """Compose the times to each quality that was reached."""
    header = [
        *(comparison.quality.title, "Variant", "Runs that reached it", "Epochs", "Training clock"),
        *("From the start of the process", "Ratio, training clock", "Ratio, from the start"),
    ]
    return make_table(header, list_ways_to_quality(comparison), RESULT_PROSE["clocks"](bool(comparison.prepared)))


def compose_further(comparison: Comparison) -> list[Element]:
    header = ["Metric", "Variant", "Mean", "95 % interval", "Runs", "Ratio to the first variant"]
    return make_table(header, list_further(comparison), RESULT_PROSE["further"]())


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


def compose_roofline(comparison: Comparison) -> list[Element]:
    """Compose each variant's distance to the measured limit of the GPU."""
    header = [
        *("Variant", "Arithmetic per epoch", "Least traffic", "Time at the measured matmul rate"),
        *("Time at the measured copy rate", "Training epoch", "Share of the bound"),
    ]
    rows = []
    for point in comparison.roofline:
        work = (f"{point.flop_per_epoch / 1e12:.2f} TFLOP", f"{point.bytes_per_epoch / 1e9:.1f} GB")
        times_s = (point.arithmetic_s, point.traffic_s, point.measured_s)
        rows.append(write_row(point.title, *work, *times_s, format_value(point.share, "%")))
    return make_table(header, rows, RESULT_PROSE["roofline"]())


def compose_overheads(comparison: Comparison) -> list[Element]:
    rows = [[name_place(one.title, one, comparison), one.mode, format_value(one.ratio, "×")] for one in comparison.overheads]
    return make_table(["Variant", "Mode", "Training epoch against timed runs"], rows, Marked(RESULT_PROSE["profiling"]()))


def compose_container(comparison: Comparison) -> list[Element]:
    rows = [
        [
            name_place(cost.title, cost, comparison),
            comparison.title_of(cost.metric),
            format_value(cost.outside, comparison.metrics[cost.metric].unit),
            *_describe_ratio(cost),
            str(cost.pairs),
        ]
        for cost in comparison.container
    ]
    header = ["Variant", "Metric", "Outside", "Inside / outside", "95 % interval", "Pairs"]
    return make_table(header, rows, RESULT_PROSE["container"]())


def list_levels(comparison: Comparison) -> list[Row]:
    """Return variant, metric, mean, interval and runs of the timed levels of the main metrics but the ways to a quality."""
    return [
        [name_place(one.title, one, comparison), comparison.title_of(one.metric), *_describe_level(one, comparison)]
        for one in _timed_levels(comparison, further=False)
    ]


def list_further(comparison: Comparison) -> list[Row]:
    """Return metric, variant, mean, interval, runs and the ratio to the first variant, of each further timed level.

    The ratio is such that above 1 the variant is better than the first one.
    """
    reference = next(iter(comparison.variants))
    known = {None, *(one.metric for one in comparison.measured)}
    ratios = {(ratio.metric, _variants(ratio), ratio.experiment): ratio for ratio in _timed_ratios(comparison, further=True)}
    rows = []
    for one in _timed_levels(comparison, further=True):
        if METRICS[one.metric].listed_with in known:
            ratio = ratios.get((one.metric, frozenset((reference, one.variant)), one.experiment))
            gain = _join_ratio(ratio) if ratio and one.variant != reference else NO_NUMBER
            variant = name_place(one.title, one, comparison)
            rows.append([comparison.metrics[one.metric].title, variant, *_describe_level(one, comparison), gain])
    return rows


def list_ratios(comparison: Comparison) -> list[Row]:
    """Return metric, variants, ratio, interval and pairs of the main metrics' timed ratios, after each metric's noise floor."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for noise in comparison.noise_floor:
        if not comparison.metrics[noise.metric].further:
            title, (value, interval) = comparison.title_of(noise.metric), format_ratio(noise.centre, noise.low, noise.high)
            spread = f"{interval}; pairs differ by up to {format_value(noise.largest, '%')}"
            variants = name_place(f"{noise.title} / itself (noise floor)", noise, comparison)
            rows[title].append([title, variants, value, spread, str(noise.pairs)])
    for ratio in _timed_ratios(comparison, further=False):
        title, variants = comparison.title_of(ratio.metric), _name_variants(ratio, comparison)
        rows[title].append([title, variants, *_describe_ratio(ratio), str(ratio.pairs)])
    return [row for group in rows.values() for row in group]


def list_qualities(comparison: Comparison) -> list[Row]:
    """Return variants and whether they are of equal quality, once for each two variants, by the first metric."""
    found: dict[tuple[frozenset[str], str | None], Row] = {}
    for ratio in _timed_ratios(comparison):
        if ratio.quality is not None:
            row = [_name_variants(ratio, comparison), f"{ratio.quality.outcome}: {ratio.quality.reason}"]
            found.setdefault((_variants(ratio), ratio.experiment), row)
    return list(found.values())


def list_ways_to_quality(comparison: Comparison) -> list[Row]:
    """Return quality, variant, runs that reached it, epochs, both clocks and the ratio, for each target in reach."""
    levels: dict[tuple[float | None, str, str], list[str]] = defaultdict(list)
    for level in comparison.measured:
        if level.mode == "timed" and level.target is not None:
            text = name_place(_describe_level(level, comparison)[0], level, comparison)
            levels[level.target, level.variant, level.metric].append(text)
    reference = next(iter(comparison.variants))
    gains: dict[tuple[float | None, str, str], list[str]] = defaultdict(list)
    for ratio in comparison.ratios:
        if ratio.mode == "timed" and ratio.reference == reference:
            text = name_place(_join_ratio(ratio), ratio, comparison)
            gains[ratio.target, ratio.candidate, ratio.metric].append(text)
    withheld = {(u.target, u.candidate): f"withheld: {u.reason}" for u in comparison.unreached if u.reference == reference}
    in_reach = {row.target for row in comparison.reached if row.reached}
    return [
        [
            comparison.quality.format(row.target),
            row.title,
            _describe_reached(row),
            *("; ".join(levels[*way, metric]) or NO_NUMBER for metric in (EPOCHS_TO_QUALITY, *_CLOCKS)),
            *("; ".join(gains[*way, metric]) or withheld.get(way, NO_NUMBER) for metric in _CLOCKS),
        ]
        for row in comparison.reached
        for way in [(row.target, row.variant)]
        if row.target in in_reach
    ]


def _timed_levels(comparison: Comparison, further: bool) -> list[Measured]:
    """Return the timed levels of main or further metrics that need no quality to be reached."""
    timed = [one for one in comparison.measured if one.mode == "timed" and one.target is None]
    return [one for one in timed if comparison.metrics[one.metric].further == further]


def _timed_ratios(comparison: Comparison, further: bool | None = None) -> list[Ratio]:
    """Return the ratios that need no quality to be reached: of all metrics, or of main or further ones."""
    timed = [ratio for ratio in comparison.ratios if ratio.mode == "timed" and ratio.target is None]
    return [ratio for ratio in timed if further in (None, comparison.metrics[ratio.metric].further)]


def _variants(ratio: Ratio) -> frozenset[str]:
    return frozenset((ratio.reference, ratio.candidate))


def _name_variants(ratio: Ratio, comparison: Comparison) -> str:
    titles = comparison.variants
    return name_place(f"{titles[ratio.reference]} / {titles[ratio.candidate]}", ratio, comparison)


def _describe_reached(row: Reached) -> str:
    """Return how many runs reached a quality, and how many of them are several processes' work."""
    return f"{row.reached} of {row.runs}" + (f", {row.continued} continued" if row.continued else "")


def _describe_level(measured: Measured, comparison: Comparison) -> Row:
    unit = comparison.metrics[measured.metric].unit
    return [format_value(measured.centre, unit), format_range(measured.low, measured.high, unit), str(len(measured.values))]


def _describe_change(change: TraceChange) -> str:
    seconds = f"{'+' if change.seconds > 0 else '−'}{format_value(abs(change.seconds), 's')}"
    return f"{seconds} {_CHANGES[change.kind]} {change.name}"


def _describe_gain(stage: Stage) -> tuple[str, str]:
    """Return a stage's gain and its interval, and why it does not count if it does not."""
    if stage.withheld:
        value, interval = format_ratio(stage.centre, stage.low, stage.high)
        return value, f"{interval}: withheld: {stage.withheld}"
    return _describe_ratio(stage)


def _describe_ratio(measured: Ratio | Stage | ContainerCost) -> tuple[str, str]:
    """Return a ratio and its interval, and that this shows no difference where it does not, or one of unequal work."""
    value, interval = format_ratio(measured.centre, measured.low, measured.high)
    if isinstance(measured, Ratio) and measured.withheld:
        return value, f"{interval}: withheld"
    if measured.low is None:
        return value, interval
    if measured.claimed:
        return value, f"{interval}: of unequal work" if isinstance(measured, Ratio) and measured.unequal else interval
    return value, f"{interval}: {describe_unclaimed(measured.outcome)}"


def _join_ratio(ratio: Ratio) -> str:
    value, interval = _describe_ratio(ratio)
    return f"{value} ({interval})"


def _describe_claim(claim: ClaimResult, letters: dict[str, str]) -> list[Words]:
    return [
        Link(claim.text, claim.url),
        Marked(f"**{describe_verdict(claim)}**"),
        format_value(claim.measured, claim.unit),
        describe_statement(claim),
        format_range(claim.low, claim.high, claim.unit),
        claim.hardware,
        " ".join(letter for condition, letter in letters.items() if condition in claim.conditions),
        f"{claim.reason}; {describe_needed(claim.needed, claim.scope)}" if claim.needed else claim.reason,
    ]


def _letter(number: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, …"""
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)
