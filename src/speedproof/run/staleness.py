"""Whether the experiments of a results folder are those of the configuration that lies beside them."""

from collections.abc import Mapping
from pathlib import Path

from speedproof.config.load import read_completed_config
from speedproof.config.model import Config
from speedproof.profilers.formats import RUN_TRACERS
from speedproof.results.experiment import LOST_TRACE, RUNS_FOLDER, Experiment, PlannedRun, read_experiment
from speedproof.results.folder import CONFIG_FILE, Results, list_experiments, read_results
from speedproof.results.older_versions import name_today
from speedproof.results.run_record import Run, read_run
from speedproof.run.plan import plan_experiment
from speedproof.run.resume import planned_settings
from speedproof.run.stopping import digest_asked
from speedproof.util.errors import RecordError


def check_current(results: Path) -> None:
    """Check that every finished experiment measured what the folder's `config.json` says, if there is one.

    Experiments beyond the configured number are not checked: the comparison reports them as left over.

    Raises:
        RecordError: an experiment was measured under another configuration.
    """
    if not (results / CONFIG_FILE).exists():
        return
    config = read_completed_config(results / CONFIG_FILE)
    for folder in list_experiments(results):
        experiment = read_experiment(folder)
        if name_today(experiment.experiment) in config.experiments() and (
            differing := _find_difference(experiment, _read_runs(folder, experiment), config)
        ):
            raise RecordError(
                f"{folder}: was measured under another configuration than {results / CONFIG_FILE} says: {differing}; run the "
                "workflow again, which repeats what differs, or start it with the former configuration"
            )


def read_measured(results: Path, config: Config, code: str) -> Results | None:
    """Read results without summaries if their experiment measured what `config` plans, by code of that digest; else None."""
    try:
        read = read_results(results, summaries=False)
    except RecordError:
        return None
    experiment, runs = read.experiments[0], {run.name: run.run for run in read.runs}
    # Another try may give a trace that was lost. Rounds that a time limit ended would go on then, so it stands as it is.
    ended_by_time = experiment.stopped is not None and experiment.stopped.reason == "budget"
    lacks_trace = LOST_TRACE in experiment.undone.values() and not ended_by_time
    stale = lacks_trace or experiment.conditions.sources != code or _find_difference(experiment, runs, config)
    return None if stale else read


def _read_runs(folder: Path, experiment: Experiment) -> dict[str, Run]:
    return {name: read_run(folder / RUNS_FOLDER / name) for name in experiment.runs}


def _find_difference(experiment: Experiment, runs: Mapping[str, Run], config: Config) -> str | None:
    """Return the first thing in which an experiment is not what the configuration plans."""
    plan = plan_experiment(config, name_today(experiment.experiment), experiment.design)
    rounds = experiment.stopped.rounds if experiment.stopped and experiment.stopped.reason != "closed" else None
    planned = {name: run for name, run in plan.runs(rounds).items() if name not in experiment.undone}
    variants = (config.measurement.variants, config.measurement.pairs, plan.ablation)
    order = (list(planned), list(planned.values()))
    if (experiment.variants, experiment.pairs, experiment.ablation) != variants or (experiment.runs, experiment.order) != order:
        return "its runs are not those of `measurement`"
    if experiment.stopped and experiment.stopped.budget_min != plan.budget_min:
        return "`measurement.budget_min`"
    if experiment.stopped and experiment.stopped.asked not in (None, digest_asked(config.measurement)):
        return "the limits of `measurement`"
    if experiment.quality.rule != plan.quality.rule:
        return "`measurement.quality`"
    if experiment.trust_reported != config.measurement.trust_reported:
        return "`measurement.trust_reported`"
    for name, run in planned.items():
        if differing := _differing_settings(runs[name], run, config):
            return f"{', '.join(differing)} of {name}"
    return None


def _differing_settings(run: Run, planned: PlannedRun, config: Config) -> list[str]:
    """Return the names of the settings in which a run is not what was planned; what its record does not tell is none."""
    asked = config.profiling.backend
    profilers: set[str] = {"none"} if planned.mode == "timed" else set(RUN_TRACERS) if asked == "auto" else {asked}
    expected = planned_settings(config, planned, run.profiler)
    differing = [key for key, value in run.settings.items() if value is not None and value != expected[key]]
    if run.profiler not in profilers:
        differing.append("profiler")
    if config.measurement.device not in ("auto", run.conditions.device):
        differing.append("device")
    return differing
