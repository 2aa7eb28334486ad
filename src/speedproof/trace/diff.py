"""The difference between two traces' epochs, term by term: the terms and the residual sum to it exactly."""

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from speedproof.results.files import write_sealed
from speedproof.results.folder import MeasuredRun, Results, difference_folder
from speedproof.results.summary import EpochPart, Summary, count_warm_up
from speedproof.results.trace_results import DIFFERENCE_FILE, Difference, KernelTerm, Term
from speedproof.trace.iteration_spread import measure_interval
from speedproof.trace.iterations import Choice
from speedproof.trace.loop import CHOOSES_NOTHING
from speedproof.trace.similarity import (
    describe_unexplained,
    find_condition,
    find_obstacle,
    find_other_kind,
    find_shared_range,
    list_doubts,
    marks_differ,
    match_process,
    repeats_alike,
)
from speedproof.util.errors import RecordError
from speedproof.util.units import NS_PER_S

# Per epoch: beyond these no program trains, and a time per sample has no finite number.
_FEWEST_SAMPLES, _MOST_SAMPLES = 1e-6, 1e15

_Trace = TypeVar("_Trace")  # what `analyze` takes: a trace's folder, or whatever knows one


def analyze_pair(
    a: _Trace,
    b: _Trace,
    analyze: Callable[[_Trace, Choice], Summary],
    choices: tuple[Choice, Choice] = (CHOOSES_NOTHING, CHOOSES_NOTHING),
    names: tuple[str, str] = ("A", "B"),
) -> tuple[tuple[Summary, Summary], tuple[Choice, Choice]]:
    """Summarise two traces so that they can be compared, and return the choices by which that was done.

    If none of several processes in `b` is chosen, it is the one that corresponds to that of `a`. If only one marks its
    iterations, and its kernels repeat just as its ranges do, both are taken by their kernels: a program may be marked or not.
    If they mark them by different ranges, and both have one of these, both are taken by that. Raises :class:`RecordError` if
    nobody chose the ranges, and they are of different kinds.
    """
    chosen, summaries = choices, (analyze(a, choices[0]), analyze(b, choices[1]))
    if chosen[1].process is None and (matching := match_process(*summaries)) is not None:
        chosen = chosen[0], replace(chosen[1], process=matching)
        summaries = summaries[0], analyze(b, chosen[1])
    if marks_differ(*summaries):
        without = replace(chosen[0], unmarked=True), replace(chosen[1], unmarked=True)
        by_kernels = analyze(a, without[0]), analyze(b, without[1])
        if all(repeats_alike(*both) for both in zip(summaries, by_kernels, strict=True)):
            return by_kernels, without
    if any(choice.epoch is not None for choice in chosen):
        return summaries, chosen
    if (shared := find_shared_range(*summaries)) is not None:
        chosen = replace(chosen[0], epoch=re.escape(shared)), replace(chosen[1], epoch=re.escape(shared))
        return (_take_by(summaries[0], a, analyze, chosen[0]), _take_by(summaries[1], b, analyze, chosen[1])), chosen
    if (other_kind := find_other_kind(*summaries)) is not None:
        raise RecordError(f"{names[0]} and {names[1]}: {other_kind}")
    return summaries, chosen


def _take_by(found: Summary, trace: _Trace, analyze: Callable[[_Trace, Choice], Summary], choice: Choice) -> Summary:
    """Summarise a trace by the range that the other one has, too, and note which one this replaces."""
    summary = analyze(trace, choice)
    if summary.found.name == found.found.name:
        return summary
    note = f"its iterations are `{summary.found.name}`, as in the other trace; by itself it would have `{found.found.name}`"
    return summary.model_copy(update={"warnings": [note, *summary.warnings]})


def compare_summaries(a: Summary, b: Summary, names: tuple[str, str], samples: tuple[float, float] | None = None) -> Difference:
    """Say why an epoch of `b` takes longer or shorter than one of `a`, each with validation at its share.

    Such an epoch is the mean training part of a variant's `steady_epochs`, and the mean validation part of those of them that
    validate, divided by `validate_every`. Validation has the share that it has in the metric `epoch_s`, by the same rule
    (:attr:`Summary.validation_share`). The epochs differ: that metric leaves out, or keeps, a whole
    validation interval with the epoch that warms up; here that epoch alone is left out, always.

    `names` is what to call them, `samples` are the training samples in an epoch of either. Raises :class:`RecordError` if one
    has no samples, or the two show nothing that could be compared.
    """
    if (obstacle := find_obstacle(a, b)) is not None:
        raise RecordError(f"{names[0]} and {names[1]}: {obstacle}")
    if samples is not None and not all(_FEWEST_SAMPLES <= count <= _MOST_SAMPLES for count in samples):
        raise RecordError(
            f"{names[0]} and {names[1]}: samples per epoch must be from {_FEWEST_SAMPLES:g} to {_MOST_SAMPLES:g}, "
            f"not {samples[0]:g} and {samples[1]:g}"
        )
    variants = [_Variant(summary, count) for summary, count in zip((a, b), samples or (None, None), strict=True)]
    keys = dict.fromkeys(key for variant in variants for key in variant.account)  # in a stable order
    terms = [_compare_term(variants, kind, part, name) for kind, part, name in keys if kind != "residual"]
    residuals = [variant.sum_of("residual") for variant in variants]
    totals = [variant.sum_of() for variant in variants]
    interval = measure_interval(a, b, totals[1] - totals[0])
    difference = Difference(
        unit=a.found.unit,
        condition=find_condition(a, b),
        notes=list(list_doubts(a, b)),
        kernels=_compare_kernels(a, b),
        a=names[0],
        b=names[1],
        epochs_a=variants[0].epochs,
        epochs_b=variants[1].epochs,
        samples_a=variants[0].samples,
        samples_b=variants[1].samples,
        epoch_a_s=totals[0],
        epoch_b_s=totals[1],
        terms=sorted(terms, key=lambda term: -abs(term.seconds_per_epoch)),
        residual_s=residuals[1] - residuals[0],
        total_s=totals[1] - totals[0],
        low_s=None if interval is None else interval[0],
        high_s=None if interval is None else interval[1],
        residual_per_sample_s=_change_per_sample(variants, residuals),
        total_per_sample_s=_change_per_sample(variants, totals),
    )
    return difference if difference.is_within_spread else _note_unexplained(difference)


def _note_unexplained(difference: Difference) -> Difference:
    by_name: dict[str, float] = defaultdict(float)
    for term in difference.terms:
        by_name[term.name] += term.seconds_per_epoch
    note = describe_unexplained(by_name, difference.residual_s, difference.total_s)
    return difference if note is None else difference.model_copy(update={"notes": [*difference.notes, note]})


def write_differences(results: Results) -> None:
    """Write the difference of the traces of each two variants that are compared, below `analysis/differences/`."""
    found = {name: (run, run.summary) for name in results.variants if (run := results.trace_of(name)) and run.summary}
    traced = {name: (run, summary) for name, (run, summary) in found.items() if summary.epochs}
    for a, b in results.pairs_among([*traced]):
        (run, summary), (other, other_summary) = traced[a], traced[b]
        if find_obstacle(summary, other_summary) is None:
            samples = _samples_an_epoch(run), _samples_an_epoch(other)
            known = None if math.isnan(sum(samples)) else samples  # not a number: a program that does not tell
            names = f"{run.experiment}/{run.name}", f"{other.experiment}/{other.name}"
            write_difference(compare_summaries(summary, other_summary, names, known), difference_folder(results.folder, a, b))


def compare_stages(results: Results) -> dict[tuple[str, str], Difference]:
    """Return the difference of the traces of each two of the ablation's variants that follow each other.

    It lacks those of which one was not profiled, or whose traces cannot be compared.
    """
    found = {}
    of_ablation = results.of_ablation()
    for names in pairwise(of_ablation.ablation):
        one, other = (run.summary if (run := of_ablation.trace_of(name)) else None for name in names)
        if one and other and find_obstacle(one, other) is None:
            found[names] = compare_summaries(one, other, names)
    return found


def _samples_an_epoch(run: MeasuredRun) -> float:
    """Return how many samples the traced process, one of the run's ranks, trained on: the mean of the epochs that count."""
    samples = (run.epochs["samples_per_s"] * run.epochs["train_s"]).round()
    return float(samples.iloc[count_warm_up(len(samples)) :].mean()) / run.run.ranks


def write_difference(difference: Difference, folder: Path) -> None:
    write_sealed(folder / DIFFERENCE_FILE, difference)


@dataclass(frozen=True)
class _Variant:
    summary: Summary
    samples: float | None  # an epoch

    @property
    def epochs(self) -> int:
        return len(self.summary.steady_epochs)

    @cached_property
    def account(self) -> dict[tuple[str, EpochPart, str], float]:
        """Return the seconds of each kind, part and name in an epoch with validation at its share."""
        steady = {epoch.index for epoch in self.summary.steady_epochs}
        sums: dict[tuple[str, EpochPart, str], int] = defaultdict(int)
        for share in self.summary.account:
            if share.epoch in steady:
                sums[share.kind, share.part, share.name] += share.total_ns
        return {key: total_ns / self.summary.count_epochs_behind(key[1]) / NS_PER_S for key, total_ns in sums.items()}

    def sum_of(self, kind: str | None = None) -> float:
        return math.fsum(seconds for (found, _, _), seconds in self.account.items() if kind in (None, found))


def _compare_kernels(a: Summary, b: Summary) -> list[KernelTerm]:
    """Return how long each group of kernels runs on all GPUs of either trace, in all its processes."""
    sums = [defaultdict[str, float](float), defaultdict[str, float](float)]
    for variant, summary in zip(sums, (a, b), strict=True):
        for kernel in summary.kernels:
            variant[kernel.group] += kernel.seconds_per_epoch
    rows = [
        KernelTerm(group=group, a_s=sums[0][group], b_s=sums[1][group], seconds_per_epoch=sums[1][group] - sums[0][group])
        for group in dict.fromkeys([*sums[0], *sums[1]])
    ]
    return sorted((row for row in rows if row.a_s or row.b_s), key=lambda row: -abs(row.seconds_per_epoch))


def _compare_term(variants: list[_Variant], kind: str, part: EpochPart, name: str) -> Term:
    seconds = [variant.account.get((kind, part, name), 0.0) for variant in variants]
    return Term.model_validate(
        {
            "kind": kind,
            "part": part,
            "name": name,
            "a_s": seconds[0],
            "b_s": seconds[1],
            "seconds_per_epoch": seconds[1] - seconds[0],
            "seconds_per_sample": _change_per_sample(variants, seconds),
        }
    )


def _change_per_sample(variants: list[_Variant], seconds: list[float]) -> float | None:
    before, after = (
        None if variant.samples is None else s / variant.samples for variant, s in zip(variants, seconds, strict=True)
    )
    return None if before is None or after is None else after - before
