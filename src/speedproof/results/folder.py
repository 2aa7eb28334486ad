"""All finished experiments of a results folder: each run with its epochs and, if it was profiled, its summary."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

import speedproof.util.frames  # noqa: F401 (how pandas holds texts)
from speedproof.results.asked import Asked, read_asked
from speedproof.results.comparison import COMPARISON_FILE, Comparison, read_comparison
from speedproof.results.evidence_archive import EXPERIMENTS_FOLDER, OLD_EXPERIMENTS_FOLDER, find_files, is_there
from speedproof.results.experiment import (
    EXPERIMENT_FILE,
    FIRST_PLACE,
    OLD_EXPERIMENT_FILE,
    PLAN_FILE,
    RUNS_FOLDER,
    Experiment,
    Plan,
    RunPlace,
    experiment_file,
    place_runs,
    read_whole_experiment,
)
from speedproof.results.files import cure_of, read_json, read_record, reading_once, sha256_of
from speedproof.results.hosts import group_by_host
from speedproof.results.names import inside
from speedproof.results.observations import Observations
from speedproof.results.older_versions import convert_older_config, title_today
from speedproof.results.quality import Quality
from speedproof.results.run_record import (
    EPOCHS_FILE,
    NOT_ALONE,
    TITLE,
    TRACE_FOLDER,
    Mode,
    Run,
    check_run_qualities,
    read_epochs,
    read_gpu_samples,
    read_run,
)
from speedproof.results.summary import SUMMARY_FILE, Summary, read_summary
from speedproof.results.trace_results import RANKS_FILE, RanksSummary, process_folders, read_ranks_summary
from speedproof.util.errors import RecordError
from speedproof.util.progress_bar import SOON_S, report_progress
from speedproof.util.text import printable

CONFIG_FILE = "config.json"  # the configuration of the last start; a record has none
ANALYSIS_FOLDER = "analysis"


@dataclass(frozen=True)
class MeasuredRun:
    """One run of an experiment, read from disk. Its folder is `results/experiments/<experiment>/runs/<name>`."""

    results: Path
    experiment: str
    experiment_folder: Path  # relative to the results folder
    name: str
    run: Run
    title: str  # how tables and figures call the run's variant
    epochs: pd.DataFrame  # records.run.EPOCH_COLUMNS
    quality: Quality  # that its experiment declared
    summary: Summary | None  # None: not profiled, or not analysed
    control: bool = False  # the reference once more; it counts in the noise floor only
    ranks: RanksSummary | None = None  # None: one process, or not profiled, or not analysed
    place: RunPlace = FIRST_PLACE  # in its experiment's order
    host: str = ""  # the first of the experiments that may have run on its experiment's host
    until_decided: bool = (
        False  # whether its experiment's rounds ended once variants were decided, so that intervals are repeated ones
    )
    comparisons: int = 1  # of its experiment, whose intervals hold together

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """Return what was worked out of the run so far: the first variant's runs are asked again for each other variant."""
        return {}

    @cached_property
    def gpu_samples(self) -> list[pd.DataFrame]:
        """Return `gpu.csv` of each process, rank 0's first: :data:`speedproof.results.run_record.GPU_COLUMNS`."""
        return [read_gpu_samples(folder) for folder in self.process_folders]

    @property
    def observed(self) -> Observations:
        """Return what was seen of the run; of one that was not observed, nothing."""
        return self.run.observed or Observations()

    @property
    def had_company(self) -> bool:
        """Return whether another experiment measured on the machine when the run began or ended."""
        return NOT_ALONE in self.run.warnings

    @property
    def folder(self) -> Path:
        return self.results / self.relative_folder

    @property
    def relative_folder(self) -> Path:
        return self.experiment_folder / RUNS_FOLDER / self.name

    @property
    def process_folders(self) -> list[Path]:
        """Return the folder of each of the run's processes, rank 0's first."""
        return process_folders(self.folder, self.run.ranks)

    @property
    def traces(self) -> list[Path]:
        """Return the folder of each process' trace; they are there in a profiled run only."""
        return [folder / TRACE_FOLDER for folder in self.process_folders]

    @property
    def trace(self) -> Path:
        """Return the folder of the trace that represents the run: its only one, or rank 0's."""
        return self.traces[0]

    @property
    def analyses(self) -> dict[str, Summary | RanksSummary | None]:
        """Return what was made of the run's traces, by the name of its file."""
        return {SUMMARY_FILE: self.summary, RANKS_FILE: self.ranks}

    def file(self, name: str) -> str:
        """Return the path of one of the run's files, or of its summary, relative to the results folder."""
        folder = Path(ANALYSIS_FOLDER, self.experiment, self.name) if name == SUMMARY_FILE else self.relative_folder
        return (folder / name).as_posix()

    def process_files(self, name: str) -> list[str]:
        """Return the path of a file that each process has, relative to the results folder."""
        return [(folder / name).relative_to(self.results).as_posix() for folder in self.process_folders]


@dataclass(frozen=True)
class Results:
    """The finished experiments of a results folder."""

    folder: Path
    experiments: list[Experiment]
    runs: list[MeasuredRun]
    files: dict[str, str]  # the file of each experiment, by its name, relative to the folder

    @cached_property
    def variants(self) -> dict[str, str]:
        """Return the variants' titles by name: as configured, the one that the others are compared with first."""
        names = dict.fromkeys(name for experiment in self.experiments for name in experiment.variants)
        titles = {run.run.variant: run.title for run in self.runs}
        return {name: titles[name] for name in names if name in titles}

    @property
    def untraced(self) -> list[str]:
        """Return the titles of variants whose profiled runs a record leaves out to stay small."""
        titles = {run.run.variant: run.title for run in self.runs}
        left_out = {
            variant for experiment in self.experiments if experiment.left_out for variant in self._find_left_out(experiment)
        }
        return sorted(titles.get(name, name) for name in left_out)

    def _find_left_out(self, experiment: Experiment) -> set[str]:
        """Return the variants of an experiment's runs that its record leaves out, as the experiment's plan names them."""
        path = inside(self.folder, Path(self.files[experiment.experiment]).with_name(PLAN_FILE))
        planned = read_record(path, Plan).runs()
        if unplanned := set(experiment.left_out) - planned.keys():
            raise RecordError(f"{path}: does not plan {min(unplanned)}, though its experiment skipped it; {cure_of(path)}")
        return {planned[name].variant for name in experiment.left_out}

    @property
    def days(self) -> str:
        """Return the first and the last day on which a run started, as one if they are the same; nothing without runs."""
        days = sorted(run.run.started[:10] for run in self.runs)
        return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""

    def select(self, variant: str, mode: Mode) -> list[MeasuredRun]:
        """Return the completed runs of a variant in a mode; what a run that broke off measured is never a number."""
        return [run for run in self._completed.get(variant, []) if run.run.mode == mode and not run.control]

    def select_controls(self, variant: str) -> list[MeasuredRun]:
        """Return the completed runs that measured a variant once more."""
        return [run for run in self._completed.get(variant, []) if run.control]

    def select_diverged(self, variant: str, mode: Mode) -> list[MeasuredRun]:
        """Return the runs of a variant in a mode that ended as their loss was no number: not fast, and not of any quality."""
        return [
            run
            for run in self.runs
            if (run.run.variant, run.run.mode, run.run.outcome) == (variant, mode, "not_a_number") and not run.control
        ]

    @cached_property
    def _completed(self) -> dict[str, list[MeasuredRun]]:
        """Return the completed runs of each variant, computed once: callers ask often."""
        found: dict[str, list[MeasuredRun]] = {}
        for run in self.runs:
            if run.run.outcome == "completed":
                found.setdefault(run.run.variant, []).append(run)
        return found

    @cached_property
    def compared_pairs(self) -> list[tuple[str, str]]:
        """Return what is compared: of each experiment the first variant with each other that ran, then its pairs."""
        pairs = [(experiment.variants[0], other) for experiment in self.experiments for other in experiment.variants[1:]]
        pairs += [pair for experiment in self.experiments for pair in experiment.pairs]
        return [pair for pair in dict.fromkeys(pairs) if set(pair) <= self.variants.keys()]

    def pairs_among(self, variants: Sequence[str]) -> list[tuple[str, str]]:
        """Return what is compared of these: the first with each of the others, then what else :attr:`compared_pairs` has."""
        of_first = [(variants[0], other) for other in variants[1:]]
        return [*dict.fromkeys([*of_first, *(pair for pair in self.compared_pairs if set(pair) <= set(variants))])]

    @property
    def sources(self) -> list[str]:
        """Return what a comparison is made of, relative to the folder: the experiments' files and the analyses."""
        analysed = [(run, name) for run in self.runs for name, there in run.analyses.items() if there is not None]
        analyses = [Path(ANALYSIS_FOLDER, run.experiment, run.name, name).as_posix() for run, name in analysed]
        return [*(self.files[experiment.experiment] for experiment in self.experiments), *analyses]

    @property
    def quality(self) -> Quality:
        """Return the rule of equal quality that the first experiment committed to."""
        return self.experiments[0].quality

    @property
    def equivalence_margin(self) -> float:
        """Return within what of 1 a ratio makes two variants the same, as the first experiment committed to."""
        return self.experiments[0].equivalence_margin

    @property
    def trust_reported(self) -> str | None:
        """Return why reported times count that our own clock does not support, by the first experiment; None: they do not."""
        return self.experiments[0].trust_reported

    @cached_property
    def asked(self) -> Asked | None:
        """Return what a proof was asked; None if these are not results of a proof."""
        return read_asked(self.folder)

    @property
    def ablation(self) -> list[str]:
        """Return the ablation's variants that ran, in order, by the first experiment that has one."""
        ablations = [experiment.ablation for experiment in self.experiments if experiment.ablation]
        ran = {run.run.variant for run in self.runs}
        return [name for name in ablations[0] if name in ran] if ablations else []

    def of_experiments(self, names: Collection[str]) -> "Results":
        """Return the same without runs of other experiments."""
        return replace(self, runs=[run for run in self.runs if run.experiment in names])

    def of_ablation(self) -> "Results":
        """Return the same without runs of experiments without an ablation: its stages and the whole are of the same runs."""
        measuring = {experiment.experiment for experiment in self.experiments if experiment.ablation}
        return replace(self, runs=[run for run in self.runs if run.experiment in measuring])

    def trace_of(self, variant: str) -> MeasuredRun | None:
        """Return the run whose trace stands for a variant in figures and explanations: the first that was profiled."""
        runs = [*self.select(variant, "profiled"), *self.select(variant, "documented")]
        return next((run for run in runs if run.summary is not None), None)


def read_current_comparison(folder: Path) -> Comparison:
    """Read a results folder's `comparison.json`, if it was made of what lies there.

    An analysis that is not there contradicts nothing: a record keeps none, and the traces give the same again. Raises
    :class:`RecordError` where an experiment or an analysis is another one since, or an experiment came or went.
    """
    path = folder / COMPARISON_FILE
    if not folder.is_dir():
        raise RecordError(f"{folder}: no such folder; give a results folder or a record")
    comparison = read_comparison(path)
    experiments = {experiment_file(path).relative_to(folder).as_posix() for path in list_experiments(folder)}
    for name in sorted(experiments | comparison.made_of.keys()) if comparison.made_of else []:
        there = inside(folder, name)
        if name.startswith(f"{ANALYSIS_FOLDER}/") and not there.exists():
            continue
        if not is_there(there) or sha256_of(there) != comparison.made_of.get(name):
            raise RecordError(f"{path}: is out of date: {there} changed; {cure_of(path)}")
    return comparison


def difference_folder(results: Path, reference: str, variant: str) -> Path:
    """Return where the account of a variant's trace against the reference's lies."""
    return inside(results, Path(ANALYSIS_FOLDER, "differences", f"{reference}-{variant}"))


def list_experiments(folder: Path) -> list[Path]:
    """Return the folders of a results folder's finished experiments, in the order of their names' numbers.

    Raises :class:`RecordError` if one of them is a link that leads elsewhere.
    """
    found = _list_experiments(folder, EXPERIMENTS_FOLDER, EXPERIMENT_FILE)
    if older := _list_experiments(folder, OLD_EXPERIMENTS_FOLDER, OLD_EXPERIMENT_FILE):
        check_one_layout(folder, found)
        found = older
    return sorted(found, key=lambda path: (len(path.name), path.name))


def _list_experiments(folder: Path, experiments: str, file: str) -> list[Path]:
    return [inside(folder / experiments, path.parent.name) for path in find_files(folder / experiments, f"*/{file}")]


def check_one_layout(folder: Path, experiments: Iterable[Path]) -> None:
    """Raise :class:`RecordError` if a results folder has finished experiments of before 0.3 and any of `experiments`."""
    if any(experiments) and find_files(folder / OLD_EXPERIMENTS_FOLDER, f"*/{OLD_EXPERIMENT_FILE}"):
        raise RecordError(
            f"{folder / OLD_EXPERIMENTS_FOLDER}: holds experiments of a version before 0.3, which newer ones do not join; keep "
            "them elsewhere (`speedproof results archive`), then remove the folder, or choose another folder for `results`"
        )


def read_results(folder: Path, summaries: bool = True) -> Results:
    """Read every finished experiment of a results folder, in the order of their names' numbers, and its summaries if wanted.

    Raises :class:`RecordError` if there is no experiment, or if a file is missing, unreadable or does not match its checksum:
    every computation with an experiment's files reads them here first.
    """
    with reading_once():
        return _read_results(folder, summaries)


def _read_results(folder: Path, summaries: bool) -> Results:
    places = list_experiments(folder)
    experiments = [read_whole_experiment(path) for path in places]
    if not experiments:
        raise RecordError(
            f"{folder / EXPERIMENTS_FOLDER}: no finished experiment ({EXPERIMENT_FILE}); run the measurement first"
        )
    _check_one_quality(folder, experiments)
    titles = {name: title for experiment in experiments for name, title in experiment.titles.items()} | read_titles(folder)
    planned_runs = [
        (folder_of, experiment, name, planned, place)
        for folder_of, experiment in zip(places, experiments, strict=True)
        for name, planned, place in zip(experiment.runs, experiment.order, place_runs(experiment.order), strict=True)
    ]
    runs = []
    with report_progress(f"{folder}: reading", len(planned_runs), "runs", after_s=SOON_S) as advance:
        for folder_of, experiment, name, planned, place in planned_runs:
            run = _read_run(folder_of, experiment, name, planned.control, titles, summaries)
            runs.append(replace(run, place=place))
            advance(1)
    files = {path.name: experiment_file(path).relative_to(folder).as_posix() for path in places}
    return Results(folder, experiments, tell_hosts_apart(runs), files)


def tell_hosts_apart(runs: list[MeasuredRun]) -> list[MeasuredRun]:
    """Return runs, each with the first of the experiments that may have run on its host."""
    experiments: dict[str, list[Run]] = {}
    for run in runs:
        experiments.setdefault(run.experiment, []).append(run.run)
    host_of = {experiment: group[0] for group in group_by_host(experiments) for experiment in group}
    return [replace(run, host=host_of[run.experiment]) for run in runs]


def read_titles(folder: Path) -> dict[str, str]:
    """Return how the configuration beside the experiments calls its variants; none in a record, which has no configuration.

    A title may be corrected when the runs are done, which hold the one that they began with.
    """
    path = folder / CONFIG_FILE
    config = convert_older_config(_as_mapping(read_json(path) if path.exists() else {}))
    variants = _as_mapping(_as_mapping(config.get("completed")).get("variants")) or _as_mapping(config.get("variants"))
    titles = {name: _as_mapping(variant).get(TITLE) for name, variant in variants.items()}
    return {name: title for name, title in titles.items() if isinstance(title, str)}


def _as_mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _read_run(
    place: Path, experiment: Experiment, name: str, control: bool, titles: dict[str, str], summaries: bool
) -> MeasuredRun:
    results, folder = place.parents[1], place / RUNS_FOLDER / name
    summary, ranks = _read_analyses(results, experiment.experiment, name) if summaries else (None, None)
    run, epochs = read_run(folder), read_epochs(folder)
    if run.outcome == "completed" and len(epochs) != run.epochs:
        path = folder / EPOCHS_FILE
        raise RecordError(f"{path}: {len(epochs)} epochs of a run that completed {run.epochs}; {cure_of(path)}")
    check_run_qualities(folder, experiment.quality, run, epochs)
    title = titles.get(run.variant, str(run.techniques.get(TITLE, run.variant)))
    return MeasuredRun(
        results=results,
        experiment=experiment.experiment,
        experiment_folder=place.relative_to(results),
        name=name,
        run=run,
        title=printable(title_today(run.case, title)),
        epochs=epochs,
        quality=experiment.quality,
        summary=summary,
        control=control,
        ranks=ranks,
        until_decided=experiment.stopped is not None,
        comparisons=experiment.comparisons,
    )


def read_analyses(read: Results) -> Results:
    """Return the same with what was made of its traces since it was read."""
    analysed = [_read_analyses(read.folder, run.experiment, run.name) for run in read.runs]
    runs = [replace(run, summary=summary, ranks=ranks) for run, (summary, ranks) in zip(read.runs, analysed, strict=True)]
    return replace(read, runs=runs)


def _read_analyses(results: Path, experiment: str, run: str) -> tuple[Summary | None, RanksSummary | None]:
    folder = inside(results, Path(ANALYSIS_FOLDER, experiment, run))
    summary = read_summary(folder) if (folder / SUMMARY_FILE).exists() else None
    return summary, read_ranks_summary(folder) if (folder / RANKS_FILE).exists() else None


def _check_one_quality(folder: Path, experiments: list[Experiment]) -> None:
    """Check that all experiments' results have the same quality; by other rules of when it is equal they may be merged."""
    first, *others = [
        (experiment.quality.name, experiment.quality.unit, experiment.quality.better) for experiment in experiments
    ]
    for experiment, other in zip(experiments[1:], others, strict=True):
        if other != first:
            raise RecordError(
                f"{folder}: the quality of {experiment.experiment} is {' '.join(other)}, that of "
                f"{experiments[0].experiment} is {' '.join(first)}; keep them in separate results"
            )
