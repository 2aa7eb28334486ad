"""The ablation: what each technique gains over the variant before it, and whether the stages multiply to the whole."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from speedproof.results.comparison import AblationWhole, Ratio, Stage, TraceChange
from speedproof.results.folder import Results
from speedproof.results.trace_results import Difference
from speedproof.stats.machines import Sample, list_samples
from speedproof.stats.measurements import measure_level, measure_ratio
from speedproof.stats.metrics import TRAINING_EPOCH
from speedproof.stats.non_inferiority import median_best_quality
from speedproof.util.text import write_setting

# What is named of two traces' difference: the largest terms, if they come to one percent of a training epoch.
_LARGEST_CHANGES = 3
_NOTABLE_SHARE = 0.01

# Of two variants' traces, in which the second's training epoch differs from the first's; those that can be compared.
Differences = Mapping[tuple[str, str], Difference]


def measure_ablation(results: Results, differences: Differences) -> list[Stage]:
    """Return the ablation's variants that were measured, each with its gain over the stage before it; once for each sample.

    Stages whose `differences` are known also have what changed in the trace.

    A stage that was not measured, or cannot be compared with the one before it, has no gain: the comparison's warnings say
    why.
    """
    return [stage for sample in _list_samples(results) for stage in _build_stages(results, sample, differences)]


def measure_wholes(results: Results, stages: list[Stage]) -> list[AblationWhole]:
    """Return, of each sample, the last stage against the first, beside the product of all gains, if every one was measured."""
    samples: dict[str | None, list[Stage]] = {}
    for stage in stages:
        samples.setdefault(stage.experiment, []).append(stage)
    found = [
        _measure_whole(results if experiment is None else results.of_experiments({experiment}), own)
        for experiment, own in samples.items()
    ]
    return [whole for whole in found if whole is not None]


def _list_samples(results: Results) -> list[Sample]:
    """Return of which experiments the ablation's numbers are formed."""
    stages = set(results.ablation)
    return list_samples([run for run in results.runs if run.run.variant in stages and run.run.mode == "timed"])


def _build_stages(results: Results, sample: Sample, differences: Differences) -> list[Stage]:
    own, variants = results.of_experiments(sample.experiments), results.ablation
    stages = [_build_stage(own, results, None, name, None) for name in variants[:1]]
    stages += [_build_stage(own, results, before, name, differences.get((before, name))) for before, name in pairwise(variants)]
    return [stage for stage in stages if stage is not None]


def _measure_whole(results: Results, stages: list[Stage]) -> AblationWhole | None:
    gains = [stage.centre for stage in stages[1:] if stage.centre is not None]
    if len(stages) < 2 or len(gains) < len(stages) - 1:
        return None
    found = measure_ratio(results, stages[0].variant, stages[-1].variant, "timed", TRAINING_EPOCH)
    if len(found) != 1:
        return None
    (whole,) = found
    product = math.prod(gains)
    return AblationWhole(
        reference=whole.reference,
        candidate=whole.candidate,
        metric=whole.metric,
        centre=whole.centre,
        low=whole.low,
        high=whole.high,
        pairs=whole.pairs,
        scope=whole.scope,
        experiment=whole.experiment,
        hosts=whole.hosts,
        runs_beside=whole.runs_beside,
        outcome=whole.outcome,
        withheld=_withheld(whole),
        product=product,
        interaction=whole.centre / product,
        multiplies=None if whole.low is None or whole.high is None else whole.low <= product <= whole.high,
        origin=whole.origin,
    )


def describe_change(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return which techniques differ between two runs' records, as `batch_size 2 → 4`.

    A command, which may contain the variant's name, is listed only if nothing else changed.
    """
    named = {"title", "epochs", "validate_every", "range_style"}
    known = [*after, *(key for key in before if key not in after)]
    differing = [key for key in known if key not in named and after.get(key) != before.get(key)]
    keys = [key for key in differing if key != "command"] or differing
    said = [_describe_switch(key, before.get(key), after.get(key)) for key in keys if key != "image_id"]
    return ", ".join(said) or ("another image" if keys else "")


def _build_stage(
    results: Results, everything: Results, before: str | None, variant: str, difference: Difference | None
) -> Stage | None:
    """Return a stage of one sample's `results`; techniques are those of `everything`, since a stage may have no run here."""
    level = next(iter(measure_level(results, variant, "timed", TRAINING_EPOCH)), None)
    if level is None:
        return None
    ratio = next(iter(measure_ratio(results, before, variant, "timed", TRAINING_EPOCH)), None) if before else None
    runs = results.select(variant, "timed")
    techniques = [_techniques(everything, name) for name in (before, variant) if name]
    return Stage(
        variant=variant,
        title=level.title,
        technique=describe_change(*techniques) if before else "",
        metric=TRAINING_EPOCH,
        level=level.centre,
        centre=ratio.centre if ratio else None,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        pairs=ratio.pairs if ratio else 0,
        scope=level.scope,
        experiment=level.experiment,
        hosts=level.hosts,
        runs_beside=max(level.runs_beside, ratio.runs_beside if ratio else 0),
        outcome=ratio.outcome if ratio else "no verdict",
        claimed=ratio is not None and ratio.claimed,
        withheld=_withheld(ratio) if ratio else None,
        best_quality=median_best_quality(runs),
        changes=_list_changes(difference) if difference else [],
        origin=ratio.origin if ratio else level.origin,
    )


def _list_changes(difference: Difference) -> list[TraceChange]:
    """Return the largest terms of two traces' training epochs, of which the ablation's metric is."""
    training = [term for term in difference.terms if term.part == "training"]
    notable_s = _NOTABLE_SHARE * math.fsum(term.a_s for term in training)
    return [
        TraceChange(kind=term.kind, name=term.name, seconds=term.seconds_per_epoch)
        for term in training[:_LARGEST_CHANGES]
        if abs(term.seconds_per_epoch) >= notable_s
    ]


def _withheld(ratio: Ratio) -> str | None:
    return ratio.quality.reason if ratio.withheld and ratio.quality else None


def _techniques(results: Results, variant: str) -> dict[str, Any]:
    return next(run.run.techniques for run in results.runs if run.run.variant == variant)


def _describe_switch(key: str, before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        if before.keys() & after.keys() >= {"name"} and before["name"] != after["name"]:
            return f"{key} {before['name']} → {after['name']}"
        return f"{key}: {describe_change(before, after)}"
    return f"{key} {write_setting(before)} → {write_setting(after)}"
