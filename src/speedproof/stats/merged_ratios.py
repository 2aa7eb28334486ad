"""Ratios and documented numbers of experiments of equal settings, wherever they were recorded; each machine counts once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from speedproof.results.comparison import Ratio
from speedproof.results.comparison_rows import ClaimResult
from speedproof.results.folder import Results
from speedproof.results.merging import digest_settings
from speedproof.stats.claims import judge_claim
from speedproof.stats.claims_file import ClaimsFile, DocumentedClaim, Speedup
from speedproof.stats.comparability import pair_runs
from speedproof.stats.compare import order_variants
from speedproof.stats.measurements import measure_ratio
from speedproof.stats.metrics import METRICS, list_headlines


@dataclass(frozen=True)
class MergedRatio:
    """A ratio, with the experiments that it is of, and the titles of their variants."""

    ratio: Ratio
    experiments: tuple[str, ...]
    titles: dict[str, str]  # by name, of the newest experiment of equal settings
    trust_reported: tuple[str, ...] = ()  # why reported times count that our own clock does not support


def group_equal(results: Results, variants: Sequence[str]) -> list[Results]:
    """Return each group of experiments in which both variants ran with equal settings: that of most machines, then pairs first.

    A group has no experiments but its own, so that its margin and its titles are theirs.
    """
    groups: dict[tuple[tuple[str, ...], ...], set[str]] = {}
    for experiment in results.experiments:
        own = results.of_experiments({experiment.experiment})
        runs = [own.select(variant, "timed") for variant in variants]
        if all(runs):
            key = tuple(tuple(sorted({digest_settings(run.run) for run in of_variant})) for of_variant in runs)
            groups.setdefault(key, set()).add(experiment.experiment)
    found = [
        replace(results.of_experiments(names), experiments=[one for one in results.experiments if one.experiment in names])
        for names in groups.values()
    ]
    return sorted(found, key=lambda group: _measure_size(group, variants), reverse=True)


def _measure_size(group: Results, variants: Sequence[str]) -> tuple[int, int]:
    """Return of how many machines and pairs a group is."""
    reference, candidate = (group.select(variant, "timed") for variant in variants)
    pairs = pair_runs(reference, candidate)
    return len({one.host for one, _ in pairs}), len(pairs)


def measure_merged(results: Results) -> list[MergedRatio]:
    """Return the timed ratios of all compared pairs of variants, of each group of equal settings.

    Three machines or more of one model of GPU give one ratio; with fewer, each experiment has its own.
    """
    first: dict[frozenset[str], tuple[str, str]] = {}
    pairs = [first.setdefault(frozenset(pair), pair) for pair in results.compared_pairs]
    return [found for pair in dict.fromkeys(pairs) for group in group_equal(results, pair) for found in _measure(group, pair)]


def _measure(group: Results, variants: tuple[str, str]) -> list[MergedRatio]:
    """Return the ratios of two variants that a group of equal settings has, of the first tier of metrics that has any."""
    for tier in list_headlines():
        ratios = [
            ratio
            for metric in tier
            if not METRICS[metric].needs_target
            for ratio in measure_ratio(group, *order_variants(variants, metric), "timed", metric)
        ]
        if ratios:
            return [_describe_origin(ratio, group) for ratio in ratios]
    return []


def _describe_origin(ratio: Ratio, group: Results) -> MergedRatio:
    files = {Path(file).parent for file in ratio.origin.files}
    of_runs = {run.experiment for run in group.runs if run.relative_folder in files}
    counted = [one for one in group.experiments if one.experiment in of_runs]
    return MergedRatio(
        ratio,
        tuple(one.experiment for one in counted),
        _find_titles(group),
        tuple(dict.fromkeys(one.trust_reported for one in counted if one.trust_reported is not None)),
    )


def _find_titles(group: Results) -> dict[str, str]:
    """Return the variants' titles in the experiment that began last, whatever the order of folders."""
    newest = max(group.runs, key=lambda run: (datetime.fromisoformat(run.run.started), run.title)).experiment
    return {run.run.variant: run.title for run in group.runs if run.experiment == newest}


def judge_merged(results: Results, claims: ClaimsFile) -> list[ClaimResult]:
    """Return the outcome of every documented ratio that the results have, by its group of most machines, then most pairs."""
    found = [_judge(claim, claims, results) for claim in claims.claims]
    return [claim for claim in found if claim is not None]


def _judge(claim: DocumentedClaim, claims: ClaimsFile, results: Results) -> ClaimResult | None:
    """Return the outcome of a documented ratio by the first group that has it; None if none has, or it is none."""
    if not isinstance(claim.quantity, Speedup):
        return None
    groups = group_equal(results, (claim.quantity.reference, claim.quantity.candidate))
    judged = (judge_claim(claim, claims, group) for group in groups)
    return next((one for one in judged if one.measured is not None), None)


def count_unjudged(judged: Sequence[ClaimResult], claims: ClaimsFile) -> int:
    """Return of how many documented ratios no outcome was found."""
    return sum(isinstance(claim.quantity, Speedup) for claim in claims.claims) - len(judged)
