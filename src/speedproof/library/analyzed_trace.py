"""A profiler's trace as an object: where its time went, and what differs from another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from pydantic import BaseModel

from speedproof.library.guest import as_guest
from speedproof.library.html_table import write_html
from speedproof.profilers.convert import trace_folder
from speedproof.report.accounts import build_account
from speedproof.report.trace_listings import Listing, list_difference
from speedproof.report.trace_phrases import describe_epoch_change, describe_epochs, describe_main_cause
from speedproof.results.summary import Epoch, IdleGap, Kernel, Phase, Summary
from speedproof.results.trace_results import Difference, KernelTerm, Term
from speedproof.trace.diff import analyze_pair, compare_summaries
from speedproof.trace.iterations import Choice
from speedproof.trace.summarize import analyze_chosen
from speedproof.trace.summary_tables import tabulate_rows
from speedproof.util.numbers import format_value

_FEW = 5  # rows that a notebook shows


@dataclass(frozen=True, repr=False)
class AnalyzedTrace:
    """Where the time of a trace went. A notebook shows its sentences and where an iteration's time goes.

    Columns are those of `summary.json`, which docs/analysis.md explains; a name's ending is its unit.

    >>> trace = speedproof.open_trace("before.sqlite")
    >>> trace.unit, len(trace.iterations())
    ('epoch', 3)
    >>> trace.idle()[["cause", "seconds_per_epoch"]].head(1)
                  cause  seconds_per_epoch
    0  waiting for data              0.006
    """

    path: Path
    _choice: Choice
    _summary: Summary

    @property
    def unit(self) -> str:
        """Return what the trace's iterations are: `epoch`, `step`, `iteration`, or `stretch` if nothing repeats."""
        return self._summary.found.unit

    @property
    def sentence(self) -> str:
        """Return how many iterations there are, how busy the GPU is, and what it mostly waits for."""
        cause = [describe_main_cause(self._summary)] if self._summary.idle_gaps else []
        return " ".join([describe_epochs(self._summary), *cause])

    @property
    def warnings(self) -> list[str]:
        """Return what a reader must know before trusting the numbers."""
        return list(self._summary.warnings)

    def iterations(self) -> pd.DataFrame:
        """Return a row for each iteration: when it began and ended, how long it took, how busy the GPU was."""
        return _tabulate(self._summary.epochs, Epoch)

    def phases(self) -> pd.DataFrame:
        """Return a row for each phase of an iteration: its calls, their time, and the GPU's time that they caused."""
        return _tabulate(self._summary.phases, Phase)

    def idle(self) -> pd.DataFrame:
        """Return a row for each cause of GPU idle time, with its seconds in an iteration, the largest first."""
        return _tabulate(self._summary.idle_gaps, IdleGap)

    def kernels(self) -> pd.DataFrame:
        """Return a row for each kernel, with its calls and its seconds in an iteration, the costliest first."""
        return _tabulate(self._summary.kernels, Kernel)

    def diff(self, other: "AnalyzedTrace | str | Path", samples: tuple[float, float] | None = None) -> "TraceDifference":
        """Account for the difference between an iteration of another trace and of this one.

        If each one's training `samples` in an epoch are given, the difference is also that of a sample.

        >>> difference = speedproof.open_trace("before.sqlite").diff("after.sqlite")
        >>> difference.to_frame()[["kind", "name", "seconds_per_epoch"]].head(1)
           kind              name  seconds_per_epoch
        0  idle  waiting for data             -0.004
        """
        if not isinstance(other, AnalyzedTrace):
            other = _analyze(Path(other), replace(self._choice, process=None))
        with as_guest():
            names = str(self.path), str(other.path)
            summaries, _ = analyze_pair(self, other, _analyze_again, (self._choice, other._choice), names)
            return TraceDifference(compare_summaries(*summaries, names, samples))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path.name}: {self.sentence}>"

    def _repr_html_(self) -> str:
        account = build_account(self.path.name, self._summary)
        terms = sorted(account.terms.items(), key=lambda term: -term[1])
        rows = [
            [kind, name, format_value(seconds, "s"), format_value(seconds / account.total_s, "%")]
            for (kind, name), seconds in terms
        ]
        listing = Listing("", ["kind", "name", f">time {self._summary.found.one}", ">share"], rows, most=_FEW)
        return write_html([f"{self.path.name}: {self.sentence}", *(f"Note: {text}" for text in self.warnings)], listing)


@dataclass(frozen=True, repr=False)
class TraceDifference:
    """Why an iteration of trace `b` takes longer or shorter than one of trace `a`: terms that sum to the difference.

    >>> difference = speedproof.diff_traces("before.sqlite", "after.sqlite")
    >>> difference.total_s, difference.unit
    (-0.004, 'epoch')
    >>> round(float(difference.to_frame()["seconds_per_epoch"].sum()) + difference.residual_s, 9)
    -0.004
    """

    _difference: Difference

    @property
    def unit(self) -> str:
        """Return what is compared: `epoch`, `step`, `iteration` or `stretch`."""
        return self._difference.unit

    @property
    def sentence(self) -> str:
        """Return by how much an iteration of `b` is longer or shorter."""
        return "".join(describe_epoch_change(self._difference.a, self._difference.b, self._difference))

    @property
    def total_s(self) -> float:
        """Return the seconds that an iteration of `b` takes more than one of `a`; negative: less."""
        return self._difference.total_s

    @property
    def residual_s(self) -> float:
        """Return the seconds of the difference that no term explains."""
        return self._difference.residual_s

    @property
    def notes(self) -> list[str]:
        """Return what a reader must know before trusting the numbers."""
        return list(self._difference.notes)

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each term, in seconds an iteration, the largest first."""
        return _tabulate(self._difference.terms, Term)

    def kernels(self) -> pd.DataFrame:
        """Return a row for each group of kernels, in seconds an iteration, the largest change first."""
        return _tabulate(self._difference.kernels, KernelTerm)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence}>"

    def _repr_html_(self) -> str:
        terms = next(list_difference(self._difference))
        return write_html([self.sentence, *(f"Note: {text}" for text in self.notes)], terms.filled())


def open_trace(
    path: str | Path,
    *,
    epoch: str | None = None,
    phases: Mapping[str, str] | None = None,
    process: int | None = None,
    whole: bool = False,
) -> AnalyzedTrace:
    """Analyze a trace: a report of Nsight Systems or its export, torch.profiler's JSON, or the trace of a run.

    >>> speedproof.open_trace("before.sqlite").phases()["name"].tolist()
    ['dataload', 'forward', 'backward', 'update']

    Args:
        path: a profiler's file, of any kind that docs/analysis.md lists, or a trace's folder
        epoch: a regular expression of the name of an iteration's range; default: found
        phases: names of phases, each with a regular expression of its ranges
        process: whose loop, by the trace's number; default: the one that uses the GPU most
        whole: take the trace as one stretch, without iterations

    Raises:
        SpeedproofError: the file is not a trace, is damaged, or holds no such process or range
    """
    return _analyze(Path(path), Choice(epoch, dict(phases or {}), process, whole))


def diff_traces(
    a: AnalyzedTrace | str | Path,
    b: AnalyzedTrace | str | Path,
    *,
    epoch: str | None = None,
    phases: Mapping[str, str] | None = None,
    samples: tuple[float, float] | None = None,
    whole: bool = False,
) -> TraceDifference:
    """Account for the difference between two traces: files, or what :func:`open_trace` returned.

    >>> speedproof.diff_traces("before.sqlite", "after.sqlite", samples=(32, 32)).total_s
    -0.004

    Args:
        a: the one
        b: the other, which is compared with it
        epoch: as in :func:`open_trace`, of files
        phases: the same
        samples: training samples in an epoch of either; then also compared by sample
        whole: as in :func:`open_trace`, of files

    Raises:
        SpeedproofError: one is not a trace, or the two have nothing that can be compared
    """
    choice = Choice(epoch, dict(phases or {}), None, whole)
    one, other = (trace if isinstance(trace, AnalyzedTrace) else _analyze(Path(trace), choice) for trace in (a, b))
    return one.diff(other, samples)


def _analyze(path: Path, choice: Choice) -> AnalyzedTrace:
    with as_guest(), trace_folder(path) as folder:
        return AnalyzedTrace(path, choice, analyze_chosen(folder, choice))


def _analyze_again(trace: AnalyzedTrace, choice: Choice) -> Summary:
    return trace._summary if choice == trace._choice else _analyze(trace.path, choice)._summary


def _tabulate(rows: Sequence[BaseModel], model: type[BaseModel]) -> pd.DataFrame:
    with as_guest():
        return tabulate_rows(rows, model).to_pandas()
