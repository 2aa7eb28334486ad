"""The report's tables: rows of text, each number through one helper."""

from collections.abc import Sequence
from dataclasses import dataclass

from speedproof.report.claim_phrases import describe_statement, describe_verdict
from speedproof.report.document import Row
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.ratio_phrases import describe_needed, describe_unclaimed
from speedproof.report.scope import name_place
from speedproof.results.claim_results import ClaimResult
from speedproof.results.comparison import Comparison, ContainerCost, Measured, MetricNote, Ratio, Reached, Stage, TraceChange
from speedproof.results.diagnosis import Diagnosis, FindingState
from speedproof.results.folder import Results
from speedproof.results.run_record import Run
from speedproof.util.numbers import NO_NUMBER, format_range, format_ratio, format_value
from speedproof.util.text import write_setting

_CHANGES = {"gpu": "GPU in", "idle": "GPU idle,", "cpu": "CPU in"}


@dataclass(frozen=True)
class ClaimTable:
    """Measured claims, and the conditions that their last column refers to by letter."""

    rows: list[Row]
    conditions: dict[str, str]


def list_levels(comparison: Comparison) -> list[Row]:
    """Return variant, metric, mean, interval and runs of the timed levels of the main metrics but the ways to a quality."""
    notes = comparison.metrics
    timed = [measured for measured in _timed_levels(comparison) if not notes[measured.metric].further]
    return [
        [
            name_place(measured.title, measured, comparison),
            comparison.title_of(measured.metric),
            *_describe_level(measured, comparison),
        ]
        for measured in timed
    ]


def list_further(comparison: Comparison) -> list[Row]:
    """Return metric, variant, mean, interval, runs and the ratio to the first variant, of each further timed level.

    The ratio is such that above 1 the variant is better than the first one.
    """
    reference = next(iter(comparison.variants))
    filled = any(measured.metric == "cache_fill_s" for measured in comparison.measured)
    ratios = {(ratio.metric, frozenset(_variants(ratio)), ratio.experiment): ratio for ratio in _timed_ratios(comparison)}
    rows = []
    for measured in _timed_levels(comparison):
        note = comparison.metrics[measured.metric]
        if note.further and (filled or measured.metric != "fill_and_epochs_s"):  # else these are all epochs
            ratio = ratios.get((measured.metric, frozenset((reference, measured.variant)), measured.experiment))
            gain = "{} ({})".format(*_describe_ratio(ratio)) if ratio and measured.variant != reference else NO_NUMBER
            variant = name_place(measured.title, measured, comparison)
            rows.append([note.title, variant, *_describe_level(measured, comparison), gain])
    return rows


def list_ratios(comparison: Comparison) -> list[Row]:
    """Return metric, variants, ratio, interval and pairs of the main metrics' timed ratios, after each metric's noise floor."""
    rows: dict[str, list[Row]] = {}
    for noise in comparison.noise_floor:
        if comparison.metrics[noise.metric].further:
            continue
        title, (value, interval) = comparison.title_of(noise.metric), format_ratio(noise.centre, noise.low, noise.high)
        spread = f"{interval}; pairs differ by up to {format_value(noise.largest, '%')}"
        variants = name_place(f"{noise.title} / itself (noise floor)", noise, comparison)
        row = [title, variants, value, spread, str(noise.pairs)]
        rows.setdefault(title, []).append(row)
    for ratio in _timed_ratios(comparison):
        if comparison.metrics[ratio.metric].further:
            continue
        title = comparison.title_of(ratio.metric)
        variants = name_place(_name_variants(ratio, comparison), ratio, comparison)
        row = [title, variants, *_describe_ratio(ratio), str(ratio.pairs)]
        rows.setdefault(title, []).append(row)
    return [row for group in rows.values() for row in group]


def list_qualities(comparison: Comparison) -> list[Row]:
    """Return variants and whether they are of equal quality, once for each two variants, by the first metric."""
    found: dict[tuple[frozenset[str], str | None], Row] = {}
    for ratio in _timed_ratios(comparison):
        if ratio.quality is not None:
            row = [
                name_place(_name_variants(ratio, comparison), ratio, comparison),
                f"{ratio.quality.outcome}: {ratio.quality.reason}",
            ]
            found.setdefault((frozenset(_variants(ratio)), ratio.experiment), row)
    return list(found.values())


def list_ways_to_quality(comparison: Comparison) -> list[Row]:
    """Return quality, variant, runs that reached it, epochs, both clocks and the ratio, for each target in reach."""
    levels: dict[tuple[float | None, str, str], list[Measured]] = {}
    for level in comparison.measured:
        if level.mode == "timed" and level.target is not None:
            levels.setdefault((level.target, level.variant, level.metric), []).append(level)
    reference = next(iter(comparison.variants))
    ratios: dict[tuple[float | None, str, str], list[Ratio]] = {}
    for ratio in comparison.ratios:
        if ratio.mode == "timed" and ratio.reference == reference:
            ratios.setdefault((ratio.target, ratio.candidate, ratio.metric), []).append(ratio)
    withheld = {(u.target, u.candidate): f"withheld: {u.reason}" for u in comparison.unreached if u.reference == reference}
    in_reach = {row.target for row in comparison.reached if row.reached}
    rows = []
    for row in comparison.reached:
        if row.target in in_reach:
            clocks = ["time_to_quality_s", "process_to_quality_s"]
            found = [levels.get((row.target, row.variant, metric), []) for metric in ("epochs_to_quality", *clocks)]
            cells = [
                "; ".join(name_place(_describe_level(level, comparison)[0], level, comparison) for level in own) or NO_NUMBER
                for own in found
            ]
            gains = [ratios.get((row.target, row.variant, metric), []) for metric in clocks]
            cells += [
                "; ".join(name_place("{} ({})".format(*_describe_ratio(gain)), gain, comparison) for gain in own)
                or withheld.get((row.target, row.variant), NO_NUMBER)
                for own in gains
            ]
            rows.append([comparison.quality.format(row.target), row.title, _describe_reached(row), *cells])
    return rows


def list_ablation(comparison: Comparison) -> list[Row]:
    """Return title, change, time, gain, interval and whether it counts, quality and trace's changes of each stage."""
    return [
        [
            name_place(stage.title, stage, comparison),
            stage.technique or NO_NUMBER,
            format_value(stage.level, "s"),
            *_describe_gain(stage),
            comparison.quality.format(stage.best_quality),
            "; ".join(_describe_change(change) for change in stage.changes) or NO_NUMBER,
        ]
        for stage in comparison.ablation
    ]


def list_incomparable_variants(comparison: Comparison) -> list[Row]:
    """Return experiment, mode, variants and what differed, of every pair of variants that cannot be compared."""
    return [
        [row.experiment, row.mode, f"{row.reference} / {row.candidate}", "; ".join(row.differences)]
        for row in comparison.incomparable
    ]


def list_claims(comparison: Comparison) -> ClaimTable:
    """Return the measured claims: text, hardware, documented, measured, spread, outcome, letters of conditions, how."""
    claims = [claim for claim in comparison.claims if claim.verdict != "not measured"]
    conditions = list(dict.fromkeys(condition for claim in claims for condition in claim.conditions))
    letters = {condition: _letter(number) for number, condition in enumerate(conditions)}
    return ClaimTable(
        rows=[_describe_claim(claim, letters) for claim in claims],
        conditions={letter: condition for condition, letter in letters.items()},
    )


def group_unmeasured(comparison: Comparison) -> dict[str, list[ClaimResult]]:
    """Return the claims that were not measured, by reason."""
    groups: dict[str, list[ClaimResult]] = {}
    for claim in comparison.claims:
        if claim.verdict == "not measured":
            groups.setdefault(claim.reason, []).append(claim)
    return groups


def list_techniques(results: Results) -> list[Row]:
    """Return a header of the variants' titles and one row for each technique in which they differ."""
    variants = {run.run.variant: run.run.techniques for run in reversed(results.runs)}
    techniques = [variants[variant] for variant in results.variants]
    keys = [key for key in techniques[0] if key not in {"title", "epochs", "validate_every"}]
    differing = [key for key in keys if any(variant.get(key) != techniques[0][key] for variant in techniques)]
    return [
        list(results.variants.values()),
        *([key, *(write_setting(variant.get(key)) for variant in techniques)] for key in differing),
    ]


def list_overheads(comparison: Comparison) -> list[Row]:
    """Return variant, mode and how much longer a training epoch took than without a profiler."""
    return [
        [name_place(overhead.title, overhead, comparison), overhead.mode, format_value(overhead.ratio, "×")]
        for overhead in comparison.overheads
    ]


def list_container_costs(comparison: Comparison) -> list[Row]:
    """Return variant, metric, its value outside, the ratio inside / outside with its interval, and pairs."""
    return [
        [
            name_place(cost.title, cost, comparison),
            comparison.title_of(cost.metric),
            format_value(cost.outside, comparison.metrics[cost.metric].unit),
            *_describe_ratio(cost),
            str(cost.pairs),
        ]
        for cost in comparison.container
    ]


def list_roofline(comparison: Comparison) -> list[Row]:
    """Return variant, arithmetic, traffic, the time that each takes at the measured rates, the measured epoch, the share."""
    return [
        [
            point.title,
            f"{point.flop_per_epoch / 1e12:.2f} TFLOP",
            f"{point.bytes_per_epoch / 1e9:.1f} GB",
            format_value(point.arithmetic_s, "s"),
            format_value(point.traffic_s, "s"),
            format_value(point.measured_s, "s"),
            format_value(point.share, "%"),
        ]
        for point in comparison.roofline
    ]


def list_phases(evidence: Evidence) -> list[Row]:
    """Return variant, part, phase, calls, time on the CPU, time of the GPU that it caused, share of the part's time."""
    rows = []
    for run, summary in evidence.traces.values():
        parts_s = {
            "training": sum(epoch.training_s for epoch in summary.epochs),
            "validation": sum(epoch.duration_s - epoch.training_s for epoch in summary.epochs),
        }
        for phase in summary.phases:
            if phase.part in parts_s and parts_s[phase.part] > 0:
                busy = format_value(phase.gpu_busy_s, "s") if summary.has_gpu else format_value(None)
                share = format_value(phase.wall_s / parts_s[phase.part], "%")
                rows.append([run.title, phase.part, phase.name, str(phase.calls), format_value(phase.wall_s, "s"), share, busy])
    return rows


def list_findings(diagnosis: Diagnosis | None, *states: FindingState) -> list[Row]:
    """Return subject, what was found and the cure of the doctor's findings in these states; none where none was asked."""
    findings = diagnosis.findings if diagnosis else []
    return [[finding.subject, finding.found, finding.cure or ""] for finding in findings if finding.state in states]


def list_rules(comparison: Comparison, measured_alone: bool = False) -> list[MetricNote]:
    """Return how each metric is made: the main ones, unless `measured_alone`, and of the further ones those measured."""
    measured = {row.metric for row in comparison.measured}
    return [note for name, note in comparison.metrics.items() if name in measured or not (note.further or measured_alone)]


def list_runs(results: Results) -> list[Row]:
    """Return experiment, run, mode, profiler, seed, epochs, length, best quality and outcome of every run."""
    return [
        [
            run.experiment,
            run.name,
            run.run.profiler,
            str(run.run.seed),
            f"{len(run.epochs)} of {run.run.epochs}",
            format_value(run.run.process_s, "s"),
            run.quality.format(run.run.best_quality),
            _describe_end(run.run),
        ]
        for run in results.runs
    ]


def _describe_reached(row: Reached) -> str:
    """Return how many runs reached a quality, and how many of them are several processes' work."""
    return f"{row.reached} of {row.runs}" + (f", {row.continued} continued" if row.continued else "")


def _describe_end(run: Run) -> str:
    """Return how a run ended, and where it was continued."""
    breaks = [f"continued at epoch {part.first_epoch} ({part.reason})" for part in run.continued]
    return ", ".join([f"{run.outcome}: {run.reason}" if run.reason else run.outcome, *breaks])


def _timed_levels(comparison: Comparison) -> list[Measured]:
    """Return the timed levels that need no quality to be reached."""
    return [measured for measured in comparison.measured if measured.mode == "timed" and measured.target is None]


def _variants(ratio: Ratio) -> tuple[str, str]:
    return ratio.reference, ratio.candidate


def _describe_level(measured: Measured, comparison: Comparison) -> Sequence[str]:
    unit = comparison.metrics[measured.metric].unit
    return format_value(measured.centre, unit), format_range(measured.low, measured.high, unit), str(len(measured.values))


def _timed_ratios(comparison: Comparison) -> list[Ratio]:
    """Return the ratios that need no quality to be reached."""
    return [ratio for ratio in comparison.ratios if ratio.mode == "timed" and ratio.target is None]


def _name_variants(ratio: Ratio, comparison: Comparison) -> str:
    return f"{comparison.variants[ratio.reference]} / {comparison.variants[ratio.candidate]}"


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


def _describe_claim(claim: ClaimResult, letters: dict[str, str]) -> Row:
    return [
        claim.text,
        claim.url,
        claim.hardware,
        describe_statement(claim),
        format_value(claim.measured, claim.unit),
        format_range(claim.low, claim.high, claim.unit),
        describe_verdict(claim),
        " ".join(sorted((letters[condition] for condition in claim.conditions), key=lambda letter: (len(letter), letter))),
        f"{claim.reason}; {describe_needed(claim.needed, claim.scope)}" if claim.needed else claim.reason,
    ]


def _letter(number: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, …"""
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)
