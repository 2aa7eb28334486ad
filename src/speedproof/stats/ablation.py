"""The ladder: what each technique gains over the variant before it, and whether the steps multiply to the whole."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from speedproof.results.comparison import LadderWhole, Ratio, Rung, TraceChange
from speedproof.results.difference import Difference
from speedproof.results.folder import Results
from speedproof.stats.machines import Sample, list_samples
from speedproof.stats.measurements import measure_level, measure_ratio
from speedproof.stats.non_inferiority import median_best_quality
from speedproof.util.text import write_setting

LADDER_METRIC = "training_epoch_s"
# What is named of two traces' difference: the largest terms, if they come to one percent of a training epoch.
_LARGEST_CHANGES = 3
_NOTABLE_SHARE = 0.01

# Of two variants' traces, in which the second's training epoch differs from the first's; those that can be compared.
Differences = Mapping[tuple[str, str], Difference]


def climb_ladder(results: Results, differences: Differences) -> list[Rung]:
    """Return the ladder's variants that were measured, each with its gain over the rung before it; once for each sample.

    What changed in the trace is told of the rungs whose `differences` are known.

    A rung that was not measured, or cannot be compared with the one before it, has no gain: what it lacks stands in the
    comparison's warnings.
    """
    return [rung for sample in _list_samples(results) for rung in _climb(results, sample, differences)]


def measure_wholes(results: Results, rungs: list[Rung]) -> list[LadderWhole]:
    """Return, of each sample, the last rung against the first, beside the product of all steps, if every one was measured."""
    samples: dict[str | None, list[Rung]] = {}
    for rung in rungs:
        samples.setdefault(rung.block, []).append(rung)
    found = [_measure_whole(results if block is None else results.of_blocks({block}), own) for block, own in samples.items()]
    return [whole for whole in found if whole is not None]


def _list_samples(results: Results) -> list[Sample]:
    """Return of which blocks the ladder's numbers are formed."""
    climbed = set(results.ladder)
    return list_samples([run for run in results.runs if run.run.variant in climbed and run.run.arm == "timed"])


def _climb(results: Results, sample: Sample, differences: Differences) -> list[Rung]:
    own, variants = results.of_blocks(sample.blocks), results.ladder
    rungs = [_build_rung(own, results, None, name, None) for name in variants[:1]]
    rungs += [_build_rung(own, results, before, name, differences.get((before, name))) for before, name in pairwise(variants)]
    return [rung for rung in rungs if rung is not None]


def _measure_whole(results: Results, rungs: list[Rung]) -> LadderWhole | None:
    gains = [rung.centre for rung in rungs[1:] if rung.centre is not None]
    if len(rungs) < 2 or len(gains) < len(rungs) - 1:
        return None
    found = measure_ratio(results, rungs[0].variant, rungs[-1].variant, "timed", LADDER_METRIC)
    if len(found) != 1:
        return None
    (whole,) = found
    product = math.prod(gains)
    return LadderWhole(
        numerator=whole.numerator,
        denominator=whole.denominator,
        metric=whole.metric,
        centre=whole.centre,
        low=whole.low,
        high=whole.high,
        pairs=whole.pairs,
        scope=whole.scope,
        block=whole.block,
        hosts=whole.hosts,
        outcome=whole.outcome,
        withheld=_withheld(whole),
        product=product,
        interaction=whole.centre / product,
        multiplies=None if whole.low is None or whole.high is None else whole.low <= product <= whole.high,
        origin=whole.origin,
    )


def describe_change(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return which techniques differ between two runs' records, as `batch_size 2 → 4`.

    A command, which may name the side, stands there only where nothing else tells of the change.
    """
    named = {"title", "epochs", "validate_every", "range_style"}
    known = [*after, *(key for key in before if key not in after)]
    differing = [key for key in known if key not in named and after.get(key) != before.get(key)]
    keys = [key for key in differing if key != "command"] or differing
    said = [_describe_switch(key, before.get(key), after.get(key)) for key in keys if key != "image_id"]
    return ", ".join(said) or ("another image" if keys else "")


def _build_rung(
    results: Results, everything: Results, before: str | None, variant: str, difference: Difference | None
) -> Rung | None:
    """Return a rung of one sample's `results`; techniques are those of `everything`, since a rung may have no run here."""
    level = next(iter(measure_level(results, variant, "timed", LADDER_METRIC)), None)
    if level is None:
        return None
    ratio = next(iter(measure_ratio(results, before, variant, "timed", LADDER_METRIC)), None) if before else None
    runs = results.select(variant, "timed")
    techniques = [_techniques(everything, name) for name in (before, variant) if name]
    return Rung(
        variant=variant,
        title=level.title,
        technique=describe_change(*techniques) if before else "",
        metric=LADDER_METRIC,
        level=level.centre,
        centre=ratio.centre if ratio else None,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        pairs=ratio.pairs if ratio else 0,
        scope=level.scope,
        block=level.block,
        hosts=level.hosts,
        outcome=ratio.outcome if ratio else "no verdict",
        claimed=ratio is not None and ratio.claimed,
        withheld=_withheld(ratio) if ratio else None,
        best_quality=median_best_quality(runs),
        changes=_list_changes(difference) if difference else [],
        origin=ratio.origin if ratio else level.origin,
    )


def _list_changes(difference: Difference) -> list[TraceChange]:
    """Return the largest terms of two traces' training epochs, of which the ladder's metric is."""
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
