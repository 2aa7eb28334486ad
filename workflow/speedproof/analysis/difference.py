"""The difference between two traces' epochs, term by term: the terms and the residual sum to it exactly."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from speedproof.analysis.summarize import analyze_trace
from speedproof.errors import RecordError
from speedproof.records.difference import DIFFERENCE_FILE, Difference, Term
from speedproof.records.files import write_json
from speedproof.records.results import MeasuredRun, Results, difference_folder
from speedproof.records.summary import Part, Summary

_NS_PER_S = 1e9


def compare_traces(a: Path, b: Path, epoch: str | None = None, samples: tuple[float, float] | None = None) -> Difference:
    """Say why an epoch of trace `b` takes longer or shorter than one of trace `a`; see :func:`compare_summaries`."""
    return compare_summaries(analyze_trace(a, epoch), analyze_trace(b, epoch), (str(a), str(b)), samples)


def compare_summaries(a: Summary, b: Summary, names: tuple[str, str], samples: tuple[float, float] | None = None) -> Difference:
    """Say why an epoch of `b` takes longer or shorter than one of `a`: the mean over each one's `steady_epochs`.

    Args:
        a: the summary of the one trace
        b: the summary of the other
        names: what to call them
        samples: training samples in an epoch of either, where known

    Raises:
        RecordError: a side has no samples, or no GPU while the other has one

    """
    if a.has_gpu != b.has_gpu:
        raise RecordError(f"{names[0]} and {names[1]}: only one was recorded with a GPU; compare two runs on the same device")
    if samples is not None and min(samples) <= 0:
        raise RecordError(
            f"{names[0]} and {names[1]}: samples an epoch must be positive, not {samples[0]:g} and {samples[1]:g}"
        )
    sides = [_Side(summary, count) for summary, count in zip((a, b), samples or (None, None), strict=True)]
    keys = dict.fromkeys(key for side in sides for key in side.account)  # in a stable order
    terms = [_compare_term(sides, kind, part, name) for kind, part, name in keys if kind != "residual"]
    residuals = [side.sum_of("residual") for side in sides]
    totals = [side.sum_of() for side in sides]
    return Difference(
        a=names[0],
        b=names[1],
        epochs_a=sides[0].epochs,
        epochs_b=sides[1].epochs,
        samples_a=sides[0].samples,
        samples_b=sides[1].samples,
        epoch_a_s=sides[0].per_epoch_s(totals[0]),
        epoch_b_s=sides[1].per_epoch_s(totals[1]),
        terms=sorted(terms, key=lambda term: -abs(term.seconds_per_epoch)),
        residual_s=_change_per_epoch(sides, residuals),
        total_s=_change_per_epoch(sides, totals),
        residual_per_sample_s=_change_per_sample(sides, residuals),
        total_per_sample_s=_change_per_sample(sides, totals),
    )


def write_differences(results: Results) -> None:
    """Write the difference of every variant's trace to the reference's, below `analysis/differences/`."""
    runs = [(run, run.summary) for run in map(results.trace_of, results.variants) if run and run.summary and run.summary.epochs]
    for run, summary in runs[1:]:
        reference, reference_summary = runs[0]
        if summary.has_gpu == reference_summary.has_gpu:
            samples = _samples_an_epoch(reference), _samples_an_epoch(run)
            names = f"{reference.block}/{reference.name}", f"{run.block}/{run.name}"
            difference = compare_summaries(reference_summary, summary, names, samples)
            write_difference(difference, difference_folder(results.folder, reference.run.variant, run.run.variant))


def _samples_an_epoch(run: MeasuredRun) -> float:
    """Return how many samples the traced process, one of the run's ranks, trained on."""
    return float((run.epochs["samples_per_s"] * run.epochs["train_s"]).round().median()) / run.run.ranks


def write_difference(difference: Difference, folder: Path) -> None:
    """Write `difference.json`."""
    write_json(folder / DIFFERENCE_FILE, difference)


@dataclass(frozen=True)
class _Side:
    """One trace of the pair."""

    summary: Summary
    samples: float | None  # an epoch

    @property
    def epochs(self) -> int:
        return len(self.summary.steady_epochs)

    @cached_property
    def account(self) -> dict[tuple[str, Part, str], int]:
        """Return the nanoseconds of each kind, part and name, summed over the epochs that count."""
        sums: dict[tuple[str, Part, str], int] = defaultdict(int)
        counted = {epoch.index for epoch in self.summary.steady_epochs}
        for share in self.summary.account:
            if share.epoch in counted:
                sums[share.kind, share.part, share.name] += share.total_ns
        return sums

    def sum_of(self, kind: str | None = None) -> int:
        """Return the nanoseconds of a kind, or of all."""
        return sum(ns for (found, _, _), ns in self.account.items() if kind in (None, found))

    def per_epoch_s(self, total_ns: int) -> float:
        return total_ns / self.epochs / _NS_PER_S


def _compare_term(sides: list[_Side], kind: str, part: Part, name: str) -> Term:
    totals = [side.account.get((kind, part, name), 0) for side in sides]
    return Term.model_validate(
        {
            "kind": kind,
            "part": part,
            "name": name,
            "a_s": sides[0].per_epoch_s(totals[0]),
            "b_s": sides[1].per_epoch_s(totals[1]),
            "seconds_per_epoch": _change_per_epoch(sides, totals),
            "seconds_per_sample": _change_per_sample(sides, totals),
        }
    )


def _change_per_epoch(sides: list[_Side], totals_ns: list[int]) -> float:
    before, after = (side.per_epoch_s(ns) for side, ns in zip(sides, totals_ns, strict=True))
    return after - before


def _change_per_sample(sides: list[_Side], totals_ns: list[int]) -> float | None:
    before, after = (
        None if side.samples is None else side.per_epoch_s(ns) / side.samples for side, ns in zip(sides, totals_ns, strict=True)
    )
    return None if before is None or after is None else after - before
