"""What figures are drawn from, and whether there is enough of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from speedproof.results.asked import Asked
from speedproof.results.comparison import Comparison
from speedproof.results.files import read_record
from speedproof.results.folder import MeasuredRun, Results, difference_folder, read_current_comparison, read_results
from speedproof.results.names import FileName, ProfilerName
from speedproof.results.summary import IterationUnit, Summary
from speedproof.results.trace_results import DIFFERENCE_FILE, Difference, read_difference
from speedproof.stats.found_tables import Findings
from speedproof.stats.main_ratios import Answer, find_answer
from speedproof.stats.metrics import TRAINING_EPOCH


@dataclass(frozen=True)
class Evidence:
    """The runs of a results folder and what was computed from them."""

    results: Results
    comparison: Comparison

    @property
    def proof(self) -> bool:
        """Return whether it is from `speedproof prove`, whose commands need not report anything."""
        return self.asked is not None

    @cached_property
    def answer(self) -> Answer:
        """Return the main findings, which all parts of a report put into words."""
        return find_answer(self.comparison, self.asked)

    @cached_property
    def findings(self) -> Findings:
        """Return all that was found, which tables and lists put into words."""
        return Findings(self.comparison, self.asked)

    @property
    def asked(self) -> Asked | None:
        return self.results.asked

    def asked_again(self) -> "Evidence":
        """Return the same evidence with the proof's request read again."""
        return replace(self, results=replace(self.results))  # without its cached reads

    @property
    def tells_quality(self) -> bool:
        return any(run.run.best_quality is not None for run in self.results.runs)

    @cached_property
    def traces(self) -> dict[str, tuple[MeasuredRun, Summary]]:
        """Return, for each variant that has one, its representative profiled run with its summary."""
        runs = {variant: self.results.trace_of(variant) for variant in self.results.variants}
        return {variant: (run, run.summary) for variant, run in runs.items() if run and run.summary and run.summary.epochs}

    @property
    def traced_in_vain(self) -> bool:
        """Return whether runs were profiled, but their traces have no epochs."""
        return not self.traces and any(run.summary is not None for run in self.results.runs)

    @property
    def unit(self) -> IterationUnit:
        """Return the word for the traces' unit, `iteration` if it differs between traces."""
        units = {summary.found.unit for _, summary in self.traces.values()}
        return units.pop() if len(units) == 1 else "iteration"

    @cached_property
    def differences(self) -> dict[tuple[str, str], Difference]:
        """Return, for each two variants that are compared, the account of the second one's trace against the first one's."""
        folders = {pair: difference_folder(self.results.folder, *pair) for pair in self.results.pairs_among([*self.traces])}
        return {pair: read_difference(folder) for pair, folder in folders.items() if (folder / DIFFERENCE_FILE).exists()}


def read_evidence(results: Path) -> Evidence:
    """Read a results folder and its `comparison.json`."""
    return Evidence(read_results(results), read_current_comparison(results))


# Why a figure cannot be drawn; None if it can.


def lacks_timed_runs(evidence: Evidence) -> str | None:
    timed = [measured for measured in evidence.comparison.measured if measured.mode == "timed"]
    if not timed:
        return "no timed run was completed"
    known = any(measured.metric == TRAINING_EPOCH for measured in timed)
    return None if known else "the programs report no epochs, only process times"


def lacks_ablation(evidence: Evidence) -> str | None:
    return None if len(evidence.comparison.ablation) > 1 else "no ablation was measured (measurement.ablation)"


def lacks_convergence(evidence: Evidence) -> str | None:
    runs = [run for variant in evidence.results.variants for run in evidence.results.select(variant, "timed")]
    most = max((run.epochs["quality"].notna().sum() for run in runs), default=0)
    if most > 1:
        return None
    return "each run validated only once" if most else "no timed run validated"


def lacks_traces(evidence: Evidence) -> str | None:
    if evidence.traces:
        return None
    return "the traces hold neither ranges nor GPU work" if evidence.traced_in_vain else "no run was profiled and analysed"


@dataclass(frozen=True)
class FigureKind:
    """A figure that a report may have. Its caption stands in `workflow/report/<name>.rst`."""

    name: str
    title: str
    lacks: Callable[[Evidence], str | None]


FIGURES = (
    FigureKind("epoch_times", "Epoch times", lacks_timed_runs),
    FigureKind("ablation", "Ablation", lacks_ablation),
    FigureKind("timeline", "Timeline", lacks_traces),
    FigureKind("convergence", "Convergence", lacks_convergence),
)


def read_origin(evidence: Evidence) -> list[str]:
    """Return what a figure needs to travel alone: the machine, the data, the dates, and the name of the results."""
    results, conditions = evidence.results, evidence.comparison.conditions
    devices = dict.fromkeys(run.run.conditions.device_name() for run in results.runs)
    synthetic = " (synthetic)" if conditions.synthetic_data else ""
    return [
        ", ".join(devices),
        *([f"{conditions.dataset_name}{synthetic}"] if conditions.dataset_name else []),
        results.days,
        results.folder.resolve().name,
    ]


FIGURES_FILE = "figures.json"


class FigureEntry(BaseModel):
    """One figure: its files are `<name>.svg` and `<name>.png` beside the index, unless `missing` says why there are none."""

    model_config = ConfigDict(extra="forbid")

    name: FileName
    title: str
    missing: str | None
    profilers: list[ProfilerName]  # what recorded the traces that it shows; empty: it shows none


class FigureIndex(BaseModel):
    """`figures.json`."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    figures: list[FigureEntry]


def read_figure_index(folder: Path) -> FigureIndex:
    """Read the index of a folder of figures."""
    return read_record(folder / FIGURES_FILE, FigureIndex)
