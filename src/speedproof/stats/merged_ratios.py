"""Ratios and documented numbers of experiments of equal settings, wherever they were recorded; each machine counts once."""

from collections.abc import Sequence

from speedproof.results.claim_results import ClaimResult
from speedproof.results.comparison import Ratio
from speedproof.results.folder import Results
from speedproof.results.merging import digest_settings
from speedproof.stats.claims import judge_claim
from speedproof.stats.claims_file import ClaimsFile, Speedup
from speedproof.stats.measurements import measure_ratio


def group_equal(results: Results, variants: Sequence[str]) -> list[Results]:
    """Return, the largest first, each group of experiments in which all these variants ran with equal settings."""
    groups: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for experiment in results.experiments:
        own = results.of_experiments({experiment.experiment})
        runs = [own.select(variant, "timed") for variant in variants]
        if all(runs):
            key = tuple(tuple(sorted({digest_settings(run.run) for run in of_variant})) for of_variant in runs)
            groups.setdefault(key, []).append(experiment.experiment)
    return [results.of_experiments(names) for names in sorted(groups.values(), key=lambda names: -len(names))]


def measure_merged(results: Results, metrics: Sequence[str]) -> list[Ratio]:
    """Return the timed ratios of all compared pairs of variants, of each group of equal settings.

    Three machines or more of one model of GPU give one ratio; with fewer, each experiment has its own.
    """
    first: dict[frozenset[str], tuple[str, str]] = {}
    pairs = [first.setdefault(frozenset(pair), pair) for pair in results.compared_pairs]
    return [
        ratio
        for pair in dict.fromkeys(pairs)
        for group in group_equal(results, pair)
        for metric in metrics
        for ratio in measure_ratio(group, *pair, "timed", metric)
    ]


def judge_merged(results: Results, claims: ClaimsFile) -> list[ClaimResult]:
    """Return the outcome of every documented ratio of which the results have one, by its largest group of equal settings."""
    found = []
    for claim in claims.claims:
        if isinstance(claim.quantity, Speedup):
            groups = group_equal(results, (claim.quantity.reference, claim.quantity.candidate))
            found += [judge_claim(claim, claims, groups[0])] if groups else []
    return [claim for claim in found if claim.measured is not None]
