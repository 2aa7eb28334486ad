"""Experiments of several results folders or records as those of one, and which of them have equal settings."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    Seed, data and machine are none of them. A setting that is off counts as one that an earlier version did not know. The
    sources of a workload are a condition; a proof's commands have no other settings than their files.
    """
    settings = {
        "case": Path(run.case).name,
        "ranks": run.ranks,
        "epochs": run.epochs,
        "validate_every": run.validate_every,
        "techniques": without_title(run.techniques),
        "workload": run.workload,
        "sources": run.conditions.sources if run.is_of_proof else None,
    }
    return digest_of(_leave_out_off(settings))


def _leave_out_off(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    known = {key: _leave_out_off(inner) for key, inner in value.items()}
    return {
        key: inner for key, inner in known.items() if inner is not None and inner is not False and inner not in ("", [], {})
    }


@dataclass(frozen=True)
class Merged:
    """Experiments of several folders, each once."""

    results: Results
    repeated: dict[str, str]  # names of experiments that were given again, each with the one that counts for it


def merge_results(folders: Sequence[Path]) -> Merged:
    """Return the experiments of several folders as those of one, each named after its folder, by machine.

    Raises:
        RecordError: a folder is given twice, cannot be read, or committed to another rule of quality than the first.
    """
    names = _name_folders([folder.resolve() for folder in folders])
    read = [read_results(folder) for folder in folders]
    parent = Path(os.path.commonpath([folder.resolve().parent for folder in folders]))
    parts = [_name_after_folder(one, name, parent) for one, name in zip(read, names, strict=True)]
    repeated = _find_repeated([run for part in parts for run in part.runs])
    counted = [one for part in parts for one in part.experiments if one.experiment not in repeated]
    experiments = _share_rule(counted)
    quality = experiments[0].quality
    runs = [replace(run, quality=quality) for part in parts for run in part.runs if run.experiment not in repeated]
    files = {name: file for part in parts for name, file in part.files.items() if name not in repeated}
    return Merged(Results(parent, experiments, tell_hosts_apart(runs), files), repeated)


def _name_folders(paths: Sequence[Path]) -> list[str]:
    """Return a name for each folder: its own or, of a proof's `results`, the proof's; with those above if some are equal."""
    if doubled := [path for path in paths if paths.count(path) > 1]:
        raise RecordError(f"{doubled[0]}: given twice; give each folder once")
    places = [path.parent if path.name == "results" and path.parent.name else path for path in paths]
    for depth in range(1, max(len(place.parts) for place in places)):
        names = ["/".join(place.parts[1:][-depth:]) for place in places]
        if len(set(names)) == len(names):
            return names
    return [path.as_posix() for path in paths]


def _find_repeated(runs: Sequence[MeasuredRun]) -> dict[str, str]:
    """Return the experiments that share a run with another one, each with that: the first of most runs counts.

    A record holds the same experiment under another number, without paths in its commands and perhaps without profiled runs.
    """
    experiments: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        experiments.setdefault(run.experiment, []).append(run)
    counts: dict[str, str] = {}  # which experiment each run counts in
    repeated: dict[str, str] = {}
    for name, own in sorted(experiments.items(), key=lambda item: -len(item[1])):
        digests = [_identify(run.run) for run in own]
        before = next((counts[digest] for digest in digests if digest in counts), None)
        if before is None:
            counts |= dict.fromkeys(digests, name)
        else:
            repeated[name] = before
    return repeated


def _identify(run: Run) -> str:
    """Return a digest of what no other run has, and a record keeps."""
    gpus = sorted(run.conditions.seen_gpus())
    return digest_of([run.started, run.ended, run.variant, run.mode, run.seed, run.round, run.process_s, run.training_s, gpus])


def _name_after_folder(results: Results, name: str, parent: Path) -> Results:
    """Return results whose experiments carry their folder's name, and whose files are named from `parent`."""
    folder = results.folder.resolve()
    place = folder.relative_to(parent)
    named = {experiment.experiment: f"{name}/{experiment.experiment}" for experiment in results.experiments}

    def move(run: MeasuredRun) -> MeasuredRun:
        return replace(run, results=parent, experiment=named[run.experiment], experiment_folder=place / run.experiment_folder)

    return Results(
        folder=parent,
        experiments=[one.model_copy(update={"experiment": named[one.experiment]}) for one in results.experiments],
        runs=[move(run) for run in results.runs],
        files={named[one]: (place / file).as_posix() for one, file in results.files.items()},
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
