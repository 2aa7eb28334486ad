"""Experiments of several results folders or records as those of one, and which of them have equal settings."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from speedproof.results.experiment import Experiment
from speedproof.results.files import digest_of
from speedproof.results.folder import MeasuredRun, Results, read_results, tell_hosts_apart
from speedproof.results.quality import TunedOn
from speedproof.results.run_record import Run, without_title
from speedproof.util.errors import RecordError


def digest_settings(run: Run) -> str:
    """Return a digest of the settings that decide what a variant learns: its techniques, its workload, and for how long.

    Seed, data and machine are none of them. A setting that is off counts as one that an earlier version did not know.
    """
    settings = {
        "case": Path(run.case).name,
        "ranks": run.ranks,
        "epochs": run.epochs,
        "validate_every": run.validate_every,
        "techniques": without_title(run.techniques),
        "workload": run.workload,
    }
    return digest_of(_leave_out_off(settings))


def _leave_out_off(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    known = {key: _leave_out_off(inner) for key, inner in value.items()}
    return {
        key: inner for key, inner in known.items() if inner is not None and inner is not False and inner not in ("", [], {})
    }


def merge_results(folders: Sequence[Path]) -> Results:
    """Return the experiments of several folders as those of one, each named after its folder, by machine.

    Raises:
        RecordError: a folder is given twice, cannot be read, or committed to another rule of quality than the first.
    """
    names = [folder.resolve().name for folder in folders]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise RecordError(f"{doubled[0]}: two folders of this name; give each once, under names of their own")
    read = [read_results(folder, summaries=False) for folder in folders]
    parent = Path(os.path.commonpath([folder.resolve().parent for folder in folders]))
    parts = [_name_after_folder(one, parent) for one in read]
    experiments = _share_rule([experiment for part in parts for experiment in part.experiments])
    runs = [replace(run, quality=experiments[0].quality) for part in parts for run in part.runs]
    files = {name: file for part in parts for name, file in part.files.items()}
    return Results(parent, experiments, tell_hosts_apart(runs), files)


def _name_after_folder(results: Results, parent: Path) -> Results:
    """Return results whose experiments carry their folder's name, and whose files are named from its parent."""
    folder = results.folder.resolve()
    place = folder.relative_to(parent)
    named = {experiment.experiment: f"{folder.name}/{experiment.experiment}" for experiment in results.experiments}

    def move(run: MeasuredRun) -> MeasuredRun:
        return replace(run, results=parent, experiment=named[run.experiment], experiment_folder=place / run.experiment_folder)

    return Results(
        folder=parent,
        experiments=[one.model_copy(update={"experiment": named[one.experiment]}) for one in results.experiments],
        runs=[move(run) for run in results.runs],
        files={named[name]: (place / file).as_posix() for name, file in results.files.items()},
    )


def _share_rule(experiments: list[Experiment]) -> list[Experiment]:
    """Return experiments under their common rule of quality, which knows on what any of them knows that settings were chosen.

    Raises :class:`RecordError` if they committed to different ones.
    """
    first = experiments[0]
    decides = [one.quality.model_dump(include={"name", "unit", "better", "margin", "judged_above"}) for one in experiments]
    for experiment, rule in zip(experiments, decides, strict=True):
        if differing := [key for key, value in rule.items() if value != decides[0][key]]:
            raise RecordError(
                f"{experiment.experiment}: its quality has another {differing[0]} than that of {first.experiment}; merge "
                "experiments of one rule"
            )
    tuned: dict[str, TunedOn] = {}
    for variant, one in ((variant, one) for experiment in experiments for variant, one in experiment.quality.tuned_on.items()):
        before = tuned.get(variant, TunedOn())
        tuned[variant] = TunedOn(seeds=sorted({*before.seeds, *one.seeds}), data=list(dict.fromkeys([*before.data, *one.data])))
    shared = first.quality.model_copy(update={"tuned_on": tuned})
    return [experiment.model_copy(update={"quality": shared}) for experiment in experiments]
