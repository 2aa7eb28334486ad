"""The report's sentences. Every number in them is computed, and every one says how sure it is."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import get_args

from speedproof.profilers.formats import describe_foreign
from speedproof.report.document import ShellCommand
from speedproof.report.explanation import describe_gpu_use, explain_difference, measure_training_phases
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.ratio_phrases import describe_interval, describe_undecided
from speedproof.report.scope import name_found_place, name_place
from speedproof.results.comparison import AblationWhole, Comparison, Ratio, StoppedExperiment, Throttled
from speedproof.results.comparison_rows import ClaimVerdict
from speedproof.results.folder import Results
from speedproof.results.summary import WARM_UP_NEEDS_EPOCHS, Summary
from speedproof.stats.comparability import differing_conditions
from speedproof.stats.main_ratios import Answer, list_judged
from speedproof.stats.metrics import METRICS, SPREAD_EPOCH, TRAINING_EPOCH, counts_warm_up
from speedproof.stats.order_profit import LEAST_ROUNDS
from speedproof.stats.stopping_rules import STOPPING_RULES
from speedproof.util.numbers import format_count, format_range, format_ratio, format_value

_MOST_NAMED = 4  # runs in a sentence

_VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)


def describe_noise(answer: Answer) -> list[str]:
    """Return one sentence on how far a variant differs from itself: a single pair resolves nothing smaller."""
    return [
        f"Noise floor: {name_found_place(noise.subject.title, noise.place)} against itself, measured the same way, gives a "
        f"{noise.metric_title} ratio of {value} (95 % interval {interval}, {format_count(noise.pairs, 'pair')}); its pairs "
        f"differ by up to {format_value(noise.largest, '%')}."
        for noise in answer.noises
        if noise.metric == TRAINING_EPOCH
        for value, interval in [format_ratio(*noise.ends)]
    ]


def describe_prepared(comparison: Comparison) -> list[str]:
    """Return one sentence for each variant that started from prepared volumes: how long preparing them took."""
    variants: dict[str, list[str]] = {}
    for row in comparison.prepared:
        there = f", {row.from_store} of them already stored" if row.from_store else ""
        variants.setdefault(row.title, []).append(
            f"{format_value(row.seconds, 's')} for {format_count(row.volumes, 'volume')}{there} ({row.experiment})"
        )
    return [
        f"{title} starts from prepared volumes. A separate process prepared them before an experiment's first run, and "
        f"compiled the variant's own kernels if it has any: {'; '.join(taken)}. No time of its runs includes this, not even "
        "the times from the start of the process."
        for title, taken in variants.items()
    ]


def describe_stopping(comparison: Comparison) -> list[str]:
    """Return one sentence for each experiment that was to run until its variants were decided: why it ended."""
    sentences = []
    for row in comparison.stopped:
        budget = "" if row.budget_min is None else f", within a budget of {format_value(row.budget_min, 'min')}"
        sentences.append(
            f"{row.experiment} was to run until all compared variants are decided: {row.rounds} of at most {row.most} timed "
            f"rounds ran{budget}; {STOPPING_RULES[row.reason].report}. Its intervals are wider than Student's, so that "
            f"they hold at any stop.{_describe_saved(row, comparison.equivalence_margin)}"
        )
    return sentences


def _describe_saved(row: StoppedExperiment, margin: float) -> str:
    if row.fixed is None:
        return ""
    more = row.fixed - row.rounds
    saved = f"{format_count(more, 'round')} saved" if more > 0 else "none saved"
    note = f": {saved}" if row.reason == "decided" else ""
    return (
        f" A plan fixed after the first four, with 90 % power for a difference of {format_value(margin, '%')}, has "
        f"{format_count(row.fixed, 'round')}{note}."
    )


def describe_observed_ranges(results: Results) -> list[str]:
    """Return one sentence for each variant whose epochs are its NVTX ranges: what recording them cost at most."""
    sentences = []
    for variant, title in results.variants.items():
        found = [
            (run.run.observed_ranges, run.run.process_s) for run in results.select(variant, "timed") if run.run.observed_ranges
        ]
        if found:
            ranges, process_s = max(found, key=lambda one: one[0].cost_s / one[1])
            sentences.append(
                f"{title}: recording its NVTX ranges took at most {format_value(ranges.cost_s / process_s, '%')} of a run's "
                f"time ({ranges.kept} ranges of the epochs' name at {ranges.kept_ns:.0f} ns each, {ranges.others} others at "
                f"{ranges.other_ns:.0f} ns, as measured before the run)."
            )
    return sentences


def describe_container(answer: Answer) -> list[str]:
    """Return one sentence for each variant on the container's cost, if experiments alternated inside and outside."""
    return [
        f"Inside the container a {cost.metric_title} of {cost.subject.title} takes {value} as long as outside "
        f"(95 % interval {interval}, {format_count(cost.pairs, 'pair')} of runs)"
        f"{'' if cost.is_shown else f': {describe_undecided(cost)}'}."
        for cost in answer.containers
        if cost.metric == TRAINING_EPOCH
        for value, interval in [format_ratio(*cost.ends)]
    ]


def describe_images(results: Results) -> str:
    """Return the image that the experiments ran in (each with its experiments if there are several), and those of variants."""
    experiments: dict[str, list[str]] = {}
    for experiment in results.experiments:
        experiments.setdefault(experiment.conditions.image or "none: not in a container", []).append(experiment.experiment)
    images = (
        [next(iter(experiments))]
        if len(experiments) == 1
        else [f"{image} ({', '.join(names)})" for image, names in experiments.items()]
    )
    variants = {run.run.variant: run.run.techniques["image"] for run in results.runs if run.run.techniques.get("image")}
    return "; ".join([*images, *(f"{results.variants[variant]} in {image}" for variant, image in variants.items())])


def describe_ablation(comparison: Comparison) -> list[str]:
    """Return the whole ablation's ratio, and whether the stages multiply to it."""
    return [_describe_whole(whole, comparison) for whole in comparison.ablation_whole]


def _describe_whole(whole: AblationWhole, comparison: Comparison) -> str:
    titles = {stage.variant: stage.title for stage in comparison.ablation}
    evidence = describe_interval((whole.centre, whole.low, whole.high), whole.pairs, whole.outcome == "no verdict")
    sentence = (
        f"{comparison.title_of(whole.metric).capitalize()}, {titles[whole.reference]} / the last stage, in the ablation's own "
        f"{name_place('experiments', whole, comparison)}: {format_ratio(whole.centre, whole.low, whole.high)[0]}"
        f"{f', withheld: {whole.withheld}' if whole.withheld else ''} ({evidence}); "
        f"the stages multiply to {format_value(whole.product, '×')}"
    )
    if whole.multiplies is None:
        return f"{sentence}. Without an interval, it is unknown whether that equals the whole."
    if whole.multiplies:
        return f"{sentence}, inside that interval."
    return f"{sentence}: they miss the whole by a factor of {format_value(whole.interaction)}."


def describe_verdicts(comparison: Comparison) -> str:
    """Return how many documented numbers have which outcome."""
    if not comparison.claims:
        return "No documented number to judge."
    counts = Counter(claim.verdict for claim in comparison.claims)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])
    worth = "" if comparison.conditions.gpu else " Measured on a CPU: they do not apply to a GPU."
    return f"Of {len(comparison.claims)} documented numbers: {parts}.{worth}"


def describe_limits(evidence: Evidence) -> list[str]:
    """Return what these numbers cannot show, because of the device, the data, the profiler and the number of runs."""
    results, comparison = evidence.results, evidence.comparison
    return [
        *_limit_conditions(evidence),
        *_limit_comparisons(evidence),
        *describe_warm_ups(results),
        *_find_company(results),
        *describe_tuning(results),
        *describe_prepared(comparison),
        *describe_stopping(comparison),
        *describe_observed_ranges(results),
        *describe_throttled(comparison.throttled),
        *_describe_continued(comparison),
        *_limit_experiments(evidence),
        *_find_traces_elsewhere(evidence),
        *_find_traces_of_many(evidence),
    ]


def describe_variants(evidence: Evidence) -> list[str]:
    """Return one sentence for each profiled variant: where its training time goes, and how busy the GPU is."""
    return [
        describe_gpu_use(run.title, summary) if summary.has_gpu else _describe_phases(run.title, summary)
        for run, summary in evidence.traces.values()
    ]


def describe_differences(evidence: Evidence) -> list[str]:
    """Return a paragraph for each pair of profiled variants: why the second epoch is longer or shorter."""
    traces = evidence.traces
    return [
        explain_difference(difference, traces[a][0].title, traces[b][0].title)
        for (a, b), difference in evidence.differences.items()
        if traces[b][1].has_gpu
    ]


def _limit_conditions(evidence: Evidence) -> Iterator[str]:
    """Yield what a missing GPU, synthetic data and another profiler leave open."""
    conditions = evidence.comparison.conditions
    if conditions.gpu is None and evidence.proof:
        yield "Measured without a GPU; results on a GPU may differ."
    elif conditions.gpu is None:
        yield (
            "No GPU: everything ran on a CPU. This shows that the workflow works and how its variants compare on a CPU. It "
            "does not apply to a GPU"
            f"{' or to a documented number' * bool(evidence.comparison.claims)}."
        )
    if conditions.synthetic_data:
        yield (
            f"Synthetic data ({conditions.dataset_name}): times hold for data of this size; qualities do not transfer to real "
            "data."
        )
    yield from dict.fromkeys(filter(None, (describe_foreign(summary.profiler) for _, summary in evidence.traces.values())))


def _limit_comparisons(evidence: Evidence) -> Iterator[str]:
    """Yield what few pairs, qualities that are not judged, unknown work and a missing control leave open."""
    comparison, proof = evidence.comparison, evidence.proof
    ratios = [ratio for ratio in comparison.ratios if ratio.mode == "timed"]
    # Of each two variants in an experiment, by the metric that has most.
    pairs: dict[tuple[str | None, str, str], int] = {}
    for ratio in ratios:
        variants = (ratio.experiment, ratio.reference, ratio.candidate)
        pairs[variants] = max(ratio.pairs, pairs.get(variants, 0))
    if 1 in pairs.values():
        yield "A single pair of runs has no interval: measure more rounds (measurement.rounds) before you quote a ratio."
    yield from _limit_quality(comparison, ratios, proof)
    if not proof and any(ratio.work is not None and ratio.work.outcome == "unknown" for ratio in ratios):
        yield "Work unknown: not every variant reports how much its epochs compute, so their work may differ."
    if (ratios or comparison.scaling) and not comparison.noise_floor:
        how = "--control" if proof else "measurement.control"
        yield f"The noise floor was not measured; add a control ({how})."
    if proof and 1 < max(pairs.values(), default=0) < LEAST_ROUNDS:
        yield f"Order effects (a command profits from the other's run before it) are checked from {LEAST_ROUNDS} rounds on."


def _limit_quality(comparison: Comparison, ratios: Sequence[Ratio], proof: bool) -> Iterator[str]:
    judged = [ratio.quality.outcome != "not judged" for ratio in ratios if ratio.quality is not None]
    if proof and comparison.quality.margin is None:
        yield "Quality was not compared; add --quality and --margin."
    elif not all(judged):
        yield (
            f"Quality is {'not judged for all ratios' if any(judged) else 'not judged'}: after so little training it does not "
            "show what speed costs in quality."
        )


def _describe_continued(comparison: Comparison) -> Iterator[str]:
    for broken in comparison.continued:
        breaks = "; ".join(f"at epoch {epoch} ({why})" for epoch, why in zip(broken.epochs, broken.reasons, strict=True))
        yield (
            f"{broken.experiment}/{broken.run} was killed and resumed from its checkpoint {breaks}. Each epoch counts once; "
            "the run has no time from the start of the process."
        )


def _limit_experiments(evidence: Evidence) -> Iterator[str]:
    """Yield that intervals are of one experiment, if they are."""
    results, comparison = evidence.results, evidence.comparison
    compared = comparison.scaling or any(ratio.mode == "timed" for ratio in comparison.ratios)
    timed = {run.experiment for variant in results.variants for run in results.select(variant, "timed")}
    if (compared and len(timed) == 1) or (not compared and list_judged(comparison) and len(results.experiments) == 1):
        yield "One experiment on one device: intervals cover what differs from run to run, not from day to day."


def _find_traces_of_many(evidence: Evidence) -> Iterator[str]:
    """Yield which profiled run is shown, if a variant has several."""
    for variant, (run, _) in evidence.traces.items():
        if (profiled := len(evidence.results.select(variant, run.run.mode))) > 1:
            yield f"{run.title}: its trace is that of {run.experiment}/{run.name}, one of {profiled} profiled runs."


def _find_traces_elsewhere(evidence: Evidence) -> Iterator[str]:
    """Yield variants whose trace is from an experiment that did not time them, and what else differed there."""
    conditions = {experiment.experiment: experiment.conditions for experiment in evidence.results.experiments}
    places: dict[str, list[str]] = {}
    for variant, (run, _) in evidence.traces.items():
        timed = dict.fromkeys(one.experiment for one in evidence.results.select(variant, "timed"))
        if not timed or run.experiment in timed:
            continue
        apart: dict[str, list[str]] = {}
        for experiment in timed:
            if keys := differing_conditions(conditions[run.experiment], conditions[experiment]):
                apart.setdefault(", ".join(keys), []).append(experiment)
        other = "".join(f"; {', '.join(experiments)} ran under another {keys}" for keys, experiments in apart.items())
        places.setdefault(f"{run.experiment}, times are from {', '.join(timed)}{other}", []).append(run.title)
    for place, titles in places.items():
        yield f"{', '.join(titles)}: traces are from {place}."


def describe_warm_ups(results: Results) -> Iterator[str]:
    """Yield which variants' runs are too short to exclude their warm-up."""
    short = [
        runs[0].title
        for runs in (results.select(name, "timed") for name in results.variants)
        if any(0 < run.run.epochs < WARM_UP_NEEDS_EPOCHS for run in runs)
    ]
    if short:
        yield (
            f"{', '.join(short)}: runs of fewer than {WARM_UP_NEEDS_EPOCHS} epochs, so the warm-up epoch counts in the "
            "training epoch."
        )
    variants = [runs for name in results.variants if (runs := results.select(name, "timed"))]
    counting = [runs[0].title for runs in variants if any(counts_warm_up(run, SPREAD_EPOCH) for run in runs)]
    if 0 < len(counting) < len(variants):
        yield (
            f"{', '.join(counting)}: the runs have only one validation interval, so the metric “{METRICS[SPREAD_EPOCH].title}” "
            "includes the warm-up epoch; for the other variants it does not."
        )


def describe_tuning(results: Results) -> Iterator[str]:
    """Yield whether each variant is judged by seeds or data that its settings were chosen with, if that is known."""
    for name, tuned in results.quality.tuned_on.items():
        runs = results.select(name, "timed")
        if not runs:
            continue
        seeds = sorted({run.run.seed for run in runs} & {*tuned.seeds})
        same = [f"with the seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"] if seeds else []
        same += ["on the same data"] if runs[0].run.conditions.dataset_name in tuned.data else []
        yield (
            f"{runs[0].title} was tuned {' and '.join(same)} that judge it here, so its quality and the "
            "time to it may be optimistic."
            if same
            else f"{runs[0].title} was tuned with other seeds and on other data than those that judge it here."
        )


def describe_throttled(rows: Sequence[Throttled]) -> Iterator[str]:
    """Yield in which runs the GPU was throttled, grouped by reason."""
    by_reasons: dict[str, list[Throttled]] = {}
    for row in rows:
        by_reasons.setdefault(", ".join(row.reasons), []).append(row)
    for reasons, alike in by_reasons.items():
        low, high = (end(row.share for row in alike) for end in (min, max))
        share = format_value(high, "%") if format_value(low, "%") == format_value(high, "%") else format_range(low, high, "%")
        runs = [f"{row.experiment}/{row.run}" for row in alike[:_MOST_NAMED]]
        more = [f"{len(alike) - _MOST_NAMED} more"] if len(alike) > _MOST_NAMED else []
        whose = "its" if len(alike) == 1 else "their"
        which = ", ".join(runs + more)
        yield f"The GPU was throttled in {share} of the samples of {which} ({reasons}): {whose} times are too long."


def _find_company(results: Results) -> Iterator[str]:
    """Yield which experiments ran side by side or were interrupted."""
    spans = {
        experiment.experiment: [
            (run.run.started, run.run.ended) for run in results.runs if run.experiment == experiment.experiment
        ]
        for experiment in results.experiments
    }
    beside = [
        name
        for name, own in spans.items()
        if any(
            start < end and begun < ended
            for other, theirs in spans.items()
            if other != name
            for start, ended in own
            for begun, end in theirs
        )
    ]
    if beside:
        yield (
            f"{'All experiments' if len(beside) == len(spans) else ', '.join(beside)} overlapped in time. If they "
            "shared a host, they shared its CPUs: work that depends on the CPUs is slower and noisier than on an exclusive "
            "machine."
        )
    if shared := sum(run.had_company for run in results.runs):
        yield (
            f"During {shared} of {format_count(len(results.runs), 'run')}, another experiment measured on the same machine: "
            "they shared its CPUs, memory and power."
        )
    for experiment in results.experiments:
        if 0 < len(experiment.kept) < len(experiment.runs):  # a closed experiment keeps all that it has
            kept = f"{len(experiment.kept)} of its {len(experiment.runs)} runs"
            yield f"{experiment.experiment} was interrupted and resumed; {kept} are from before."


def _describe_phases(title: str, summary: Summary) -> str:
    """Return one sentence on where the time of a variant that used no GPU goes."""
    seconds = measure_training_phases(summary)
    total_s = sum(seconds.values())
    name = max(seconds, key=lambda phase: seconds[phase])
    longest = f"{title} spends {format_value(seconds[name] / total_s, '%')} of its training time in {name}"
    return f"{longest} ({format_value(seconds[name], 's')} of {format_value(total_s, 's')} per {summary.found.unit})."


_COMMIT = re.compile("[0-9a-f]{7,64}")  # any other text in this field cannot be checked out


def list_commands(evidence: Evidence) -> Sequence[ShellCommand]:
    """Return the commands that repeat the measurement, as far as results show: the code, and what was planned."""
    results, conditions = evidence.results, evidence.comparison.conditions
    if evidence.asked:
        return [ShellCommand(evidence.asked.command, "Run it in the programs' folder.")]
    runs = [run for run in results.runs if run.run.mode == "timed" and not run.control] or results.runs
    first = runs[0].run
    times = max(
        (
            len([run for run in runs if run.experiment == experiment.experiment and run.run.variant == first.variant])
            for experiment in results.experiments
        ),
        default=1,
    )
    commit = f"git checkout {conditions.git_commit}\n" if _COMMIT.fullmatch(conditions.git_commit or "") else ""
    variants, seed = ", ".join(results.experiments[0].variants), min(run.run.seed for run in runs)
    epochs = f", epochs: {first.epochs}" if len({run.run.epochs for run in runs}) == 1 else ""  # else each variant's own count
    rounds = f"rounds: {times}" if first.mode == "timed" else f"rounds: 0, {first.mode}: {times}"
    measurement = f"measurement={{variants: [{variants}], {rounds}{epochs}, seed: {seed}}}"
    image = " --use-singularity" if conditions.image else ""
    chosen = f"{quote(f'case={first.case}')} {quote(measurement)}"
    text = f"{commit}snakemake --cores {conditions.cores}{image} --configfile CONFIG --config {chosen}"
    note = (
        "Run it in a clone of the repository. CONFIG is the configuration that was used: it holds the source of the data, the "
        "number of experiments, the pairs, the control and the ablation. Each run's other settings are in its run.json; the "
        "order of the runs is in plan.json."
    )
    return [ShellCommand(text, note)]
