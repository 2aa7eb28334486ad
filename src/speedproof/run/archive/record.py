"""A record: the evidence of finished experiments, scrubbed and small enough to keep beside the code, and the report made of it.

It holds `report.md` with its `report.svg`, `comparison.json`, and one `evidence.zip` with all that these are made of:
`experiments/`, `doctor.json`, and a proof's `asked.json`. Commands read the archive in place, as they read a results folder.
Analyses, figures and the page are made from it (`speedproof results report --from`); volumes, checkpoints, TensorBoard files,
profiler reports and their exports stay behind.
"""

import re
import shutil
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from speedproof.report.markdown import PICTURE_FILE, write_report
from speedproof.results.asked import ASKED_FILE, read_asked
from speedproof.results.comparison import COMPARISON_FILE
from speedproof.results.diagnosis import DOCTOR_FILE, Diagnosis, Finding, read_diagnosis
from speedproof.results.evidence_archive import EVIDENCE_FILE, EXPERIMENTS_FOLDER, find_files, pack
from speedproof.results.experiment import (
    EXPERIMENT_FILE,
    PLAN_FILE,
    RUNS_FOLDER,
    Experiment,
    read_experiment,
    read_plan,
    read_whole_experiment,
)
from speedproof.results.files import opened, read_json, read_text, sha256_of, write_json, write_sealed, write_text
from speedproof.results.folder import ANALYSIS_FOLDER, list_experiments, read_results, read_titles
from speedproof.results.names import inside
from speedproof.results.observations import ELSEWHERE, TEMPORARY
from speedproof.results.run_record import LOG_FILE, RUN_FILE, TITLE, TRACE_FOLDER, Run, read_run
from speedproof.results.trace_tables import TRACE_FILE, read_table, without_operators, write_table
from speedproof.run.archive.rebuild import MARKDOWN_FILE, rebuild_numbers
from speedproof.run.archive.trace_end import keep_last_iterations
from speedproof.stats.comparability import differing_settings
from speedproof.util.errors import RecordError
from speedproof.util.scrub import read_identity, read_texts, scrub_text, shorten_paths
from speedproof.util.secrets import scrub_secrets
from speedproof.util.temporary_folder import own_folder
from speedproof.util.units import MIB

PLAIN_FILES = (MARKDOWN_FILE, PICTURE_FILE, COMPARISON_FILE)  # of a record: what is read without opening its archive
# Fields of what was observed of a run, and the folders where programs of others write, too.
_NAMES_OF_FILES = frozenset({"changed", "changed_code", "judged_by", "names", "not_hidden", "own_not_hidden", "spoilt"})
_IN_TEMPORARY = re.compile(r"/(tmp|var/tmp|dev/shm)/")
RECORD_LIMIT_MIB = 32  # an ablation of 25 stages with all its traces, five variants and five experiments beside it, is 28


def write_record(
    results: list[Path], claims: Path, record: Path, untraced: Collection[str] = (), iterations: int | None = None
) -> None:
    """Archive the finished experiments of one or more results folders as `record`, entirely or not at all.

    Experiments of the second folder on are renumbered after those of the first. Comparison and report are made from what
    was kept, so that the record proves itself. `untraced` names variants whose profiled runs are left out, since an
    ablation's traces can be more than a record may hold; timed runs, which make the headline numbers, are never left out.
    Of each trace the last `iterations` are kept; None: all.

    Raises:
        RecordError: the record exists; or an `untraced` variant has no profiled run; or two experiments hold the same run; or
            runs of one variant have different settings; or a file's checksum is not its experiment's; or something would reveal
            the user or the machine; or the record would be larger than :data:`RECORD_LIMIT_MIB`.
    """
    if record.exists():
        raise RecordError(f"{record}: exists; remove it, or choose another name")
    sources = [experiment for folder in results for experiment in _find_experiments(folder)]
    _check_sources(sources)
    _check_untraced(sources, untraced)
    titles = _find_titles(sources)
    record.parent.mkdir(parents=True, exist_ok=True)
    with own_folder(record.parent, ".record-") as scratch:
        draft = scratch / record.name
        kept = [
            _keep_experiment(source, draft / EXPERIMENTS_FOLDER / f"experiment-{number}", untraced, titles, iterations)
            for number, source in enumerate(sources, start=1)
        ]
        _keep_diagnosis(results, draft)
        _keep_asked(results, draft)
        _check_secrecy(draft, {run.variant for experiment in kept for run in experiment.order})
        write_report(rebuild_numbers(read_results(draft, summaries=False), claims), draft / MARKDOWN_FILE)
        shutil.rmtree(draft / ANALYSIS_FOLDER, ignore_errors=True)
        packed = scratch / "packed"
        _pack(draft, packed)
        _check_size(packed)
        packed.rename(record)


def _find_experiments(results: Path) -> list[Path]:
    experiments = list_experiments(results)
    if not experiments:
        raise RecordError(
            f"{results / EXPERIMENTS_FOLDER}: no finished experiment ({EXPERIMENT_FILE}); run the measurement first"
        )
    return experiments


def _check_sources(experiments: list[Path]) -> None:
    """Check that no run is in two experiments, and that all runs of a variant have the same techniques and workload."""
    seen: dict[str, Path] = {}
    first: dict[str, tuple[Path, Run]] = {}
    for experiment in experiments:
        for folder in (inside(experiment, Path(RUNS_FOLDER, name)) for name in read_experiment(experiment).runs):
            run = read_run(folder)
            digest = sha256_of(folder / RUN_FILE)
            if digest in seen:
                raise RecordError(f"{folder}: the same run as {seen[digest]}; give every experiment only once")
            seen[digest] = folder
            place, before = first.setdefault(run.variant, (folder, run))
            for key, (one, other) in differing_settings(before, run).items():
                raise RecordError(
                    f"{folder}: {run.variant} has {key} {other}, but {one} in {place}; keep experiments of other settings in a "
                    "record of their own"
                )


def _find_titles(experiments: list[Path]) -> dict[str, str]:
    """Return the variants' titles; of several, that of the experiment that began last, whatever the order of folders."""
    dated: list[tuple[datetime, dict[str, str]]] = []
    for folder in experiments:
        experiment = read_experiment(folder)
        if not experiment.runs:  # a record that left them all out; it has others, which have the titles, too
            continue
        runs = [read_run(inside(folder, Path(RUNS_FOLDER, name))) for name in experiment.runs]
        titles = {run.variant: str(run.techniques[TITLE]) for run in runs if TITLE in run.techniques}
        began = min(datetime.fromisoformat(run.started) for run in runs)
        dated.append((began, titles | experiment.titles | read_titles(folder.parents[1])))
    return {name: title for _, titles in sorted(dated, key=lambda one: one[0]) for name, title in titles.items()}


def _keep_diagnosis(results: list[Path], draft: Path) -> None:
    """Keep what the doctor found, each once; a subject of which several results folders differ is there several times."""
    diagnoses = [diagnosis for folder in results if (diagnosis := read_diagnosis(folder))]
    findings: dict[tuple[str, str, str], Finding] = {}
    for finding in (finding for diagnosis in diagnoses for finding in diagnosis.findings):
        found = finding.model_copy(update={"found": scrub_text(finding.found)})
        findings.setdefault((found.subject, found.state, found.found), found)
    if findings:
        write_sealed(draft / DOCTOR_FILE, Diagnosis(findings=list(findings.values())))


def _keep_asked(results: list[Path], draft: Path) -> None:
    """Keep a proof's request; several merged results are no longer a proof."""
    asked = {read_asked(folder) for folder in results}
    if len(asked) == 1 and (one := asked.pop()):
        write_json(draft / ASKED_FILE, one.model_copy(update={"command": shorten_paths(one.command)}))


def _check_untraced(experiments: list[Path], untraced: Collection[str]) -> None:
    runs = [run for experiment in experiments for run in read_experiment(experiment).order]
    profiled = {run.variant for run in runs if run.mode == "profiled"}
    for variant in sorted(set(untraced) - profiled):
        raise RecordError(f"{variant}: has no profiled run to leave out; profiled are: {', '.join(sorted(profiled))}")
    if all(run.mode == "profiled" and run.variant in untraced for run in runs):
        raise RecordError("nothing is left to keep without these traces; leave one of --untraced out")


def _keep_experiment(
    source: Path, target: Path, untraced: Collection[str], titles: Mapping[str, str], iterations: int | None
) -> Experiment:
    whole = read_whole_experiment(source)
    runs = dict(zip(whole.runs, whole.order, strict=True))
    left_out = [name for name, run in runs.items() if run.mode == "profiled" and run.variant in untraced]
    order = [run for name, run in runs.items() if name not in left_out]
    kept_runs = [name for name in runs if name not in left_out]
    experiment = whole.model_copy(update={"runs": kept_runs, "order": order, "left_out": [*whole.left_out, *left_out]})
    names = [name for name in experiment.digests if not name.startswith(tuple(f"{RUNS_FOLDER}/{run}/" for run in left_out))]
    if iterations:
        for trace in sorted({Path(name).parent for name in names if Path(name).name == TRACE_FILE}):
            keep_last_iterations(inside(source, trace), target / trace, iterations)
    digests = {}
    for name in names:
        if not (target / name).exists():
            _keep_table(inside(source, name), target / name)
        digests[name] = sha256_of(target / name)
    for run in experiment.runs:
        for log in [source / RUNS_FOLDER / run / LOG_FILE, *find_files(source / RUNS_FOLDER / run, f"rank*/{LOG_FILE}")]:
            _keep_log(inside(source, log.relative_to(source)), target / log.relative_to(source))
    plan = read_plan(source, whole)
    files = {shorten_paths(word): digest for word, digest in plan.quality_files.items()}  # as in the command of a run
    write_json(target / PLAN_FILE, plan.model_copy(update={"experiment": target.name, "quality_files": files}))
    ran = {run.variant for run in experiment.order}
    kept = experiment.model_copy(
        update={
            "experiment": target.name,
            "digests": digests,
            "plan": sha256_of(target / PLAN_FILE),
            "titles": {name: scrub_text(title) for name, title in titles.items() if name in ran},
        }
    )
    write_sealed(target / EXPERIMENT_FILE, kept)
    return kept


def _keep_log(source: Path, target: Path) -> None:
    with opened(source) as file:
        write_text(target, scrub_secrets(scrub_text(file.read().decode("utf-8", "replace"))))


def _keep_table(source: Path, target: Path) -> None:
    """Copy a file without the framework's own ranges, a row each in their hundreds of thousands, which no later step reads."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.parent.name == TRACE_FOLDER and source.name == "ranges.parquet":
        ranges = read_table(source.parent, "ranges")
        write_table(target, without_operators(ranges).cast(ranges.schema))
    elif source.name == "nvtx_sum.csv":
        lines = read_text(source).splitlines(keepends=True)
        write_text(target, "".join(line for line in lines if ", op_id = " not in line))
    elif source.name == RUN_FILE:  # whose command says where programs lie
        write_json(target, _without_places(read_json(source)))
    else:
        with opened(source) as file, target.open("wb") as copy:
            shutil.copyfileobj(file, copy)


def _without_places(value: Any, name: Callable[[str], str] = shorten_paths) -> Any:
    """Return what a JSON file holds, with names of files and folders instead of their paths."""
    if isinstance(value, dict):
        return {key: _without_places(one, _name_outside if key in _NAMES_OF_FILES else name) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_places(one, name) for one in value]
    return name(value) if isinstance(value, str) else value


def _name_outside(path: str) -> str:
    """Return a file's name that still tells whether it lies in the working folder, and in which temporary folder."""
    below = _IN_TEMPORARY.match(path)
    if below:
        return f"{TEMPORARY}{path[below.end() :]}"
    return f"{ELSEWHERE}{Path(path).name}" if path.startswith("/") else shorten_paths(path)


def _check_secrecy(draft: Path, variants: Collection[str]) -> None:
    """Check that scrubbing would find nothing more in what was kept; all else is made of it.

    A name that is one of the variants' is a word of the record, and says nothing of who has it besides.
    """
    identity = read_identity().without(variants)
    for path in sorted(path for path in draft.rglob("*") if path.is_file()):
        text = read_texts(path)
        if scrub_text(text, identity) != text:
            raise RecordError(
                f"{path.relative_to(draft)}: names this machine, its user or a folder of theirs; nothing was kept"
            )


def _pack(draft: Path, packed: Path) -> None:
    """Make a record of a draft: what is shown as it is, all else in one archive."""
    packed.mkdir()
    pack(draft, packed / EVIDENCE_FILE, beside=PLAIN_FILES)
    for name in PLAIN_FILES:
        if (draft / name).exists():
            (draft / name).rename(packed / name)


def _check_size(folder: Path) -> None:
    size_mib = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MIB
    if size_mib > RECORD_LIMIT_MIB:
        raise RecordError(
            f"{size_mib:.1f} MiB to keep, more than {RECORD_LIMIT_MIB}: keep fewer experiments, or leave out traces "
            "(--untraced)"
        )
