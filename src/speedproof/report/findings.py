"""Sentences on what was found besides speedups: noise, container, ablation, documented numbers, traces, limits."""

from collections import Counter
from collections.abc import Iterable
from typing import get_args

from speedproof.report.explanation import describe_gpu_use, explain_difference, measure_training_phases
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.prose import Prose
from speedproof.report.ratio_phrases import describe_evidence, describe_undecided
from speedproof.report.scope import name_found_place
from speedproof.results.comparison_rows import ClaimVerdict
from speedproof.results.folder import Results
from speedproof.results.summary import Summary
from speedproof.stats.finding import RatioFinding
from speedproof.stats.found_tables import AblationFinding, Findings
from speedproof.stats.limits import Limit
from speedproof.stats.metrics import TRAINING_EPOCH
from speedproof.util.numbers import format_count, format_ratio, format_value

_LIMITS = Prose("limits.md.j2")
_VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)


def describe_noise(noises: Iterable[RatioFinding]) -> list[str]:
    """Return one sentence on how far a variant differs from itself: a single pair resolves nothing smaller."""
    return [
        f"Noise floor: {name_found_place(noise.subject.title, noise.place)} against itself, measured the same way, gives a "
        f"{noise.metric_title} ratio of {value} (95 % interval {interval}, {format_count(noise.pairs, 'pair')}); its pairs "
        f"differ by up to {format_value(noise.largest, '%')}."
        for noise in noises
        if noise.metric == TRAINING_EPOCH
        for value, interval in [format_ratio(*noise.ends)]
    ]


def describe_container(containers: Iterable[RatioFinding]) -> list[str]:
    """Return one sentence for each variant on the container's cost, if experiments alternated inside and outside."""
    return [
        f"Inside the container a {cost.metric_title} of {cost.subject.title} takes {value} as long as outside "
        f"(95 % interval {interval}, {format_count(cost.pairs, 'pair')} of runs)"
        f"{'' if cost.is_shown else f': {describe_undecided(cost)}'}."
        for cost in containers
        if cost.metric == TRAINING_EPOCH
        for value, interval in [format_ratio(*cost.ends)]
    ]


def describe_limits(limits: Iterable[Limit]) -> list[str]:
    """Return what numbers cannot show, a sentence each."""
    return [_LIMITS[limit.kind](limit.facts) for limit in limits]


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


def describe_ablation(found: Findings) -> list[str]:
    """Return the whole ablation's ratio, and whether the stages multiply to it."""
    return [_describe_whole(one) for one in found.ablations]


def _describe_whole(found: AblationFinding) -> str:
    whole = found.whole
    sentence = (
        f"{whole.metric_title.capitalize()}, {whole.against.title} / the last stage, in the ablation's own "
        f"{name_found_place('experiments', whole.place)}: {format_ratio(*whole.ends)[0]}"
        f"{f', withheld: {found.withheld}' if found.withheld else ''} "
        f"({describe_evidence(whole)}); "
        f"the stages multiply to {format_value(found.product, '×')}"
    )
    if found.multiplies is None:
        return f"{sentence}. Without an interval, it is unknown whether that equals the whole."
    if found.multiplies:
        return f"{sentence}, inside that interval."
    return f"{sentence}: they miss the whole by a factor of {format_value(found.interaction)}."


def describe_verdicts(found: Findings) -> str:
    """Return how many documented numbers have which outcome."""
    if not found.claims:
        return "No documented number to judge."
    counts = Counter(claim.verdict for claim in found.claims)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])
    worth = "" if found.comparison.conditions.gpu else " Measured on a CPU: they do not apply to a GPU."
    return f"Of {len(found.claims)} documented numbers: {parts}.{worth}"


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


def _describe_phases(title: str, summary: Summary) -> str:
    """Return one sentence on where the time of a variant that used no GPU goes."""
    seconds = measure_training_phases(summary)
    total_s = sum(seconds.values())
    name = max(seconds, key=lambda phase: seconds[phase])
    longest = f"{title} spends {format_value(seconds[name] / total_s, '%')} of its training time in {name}"
    return f"{longest} ({format_value(seconds[name], 's')} of {format_value(total_s, 's')} per {summary.found.unit})."
