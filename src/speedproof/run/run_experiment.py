"""Run an experiment: every planned run in a fresh process, profiled ones under the profiler, then the experiment's record."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

import pandas as pd

from speedproof.cluster.gpu_monitor import GpuMonitor, name_gpu_processes, naming_others
from speedproof.cluster.machine_load import is_of_ours, watching_machine
from speedproof.cluster.nodes import ALONE, Node
from speedproof.cluster.torchrun import rank_variables, torchrun_command
from speedproof.config.model import Config, Variant
from speedproof.config.workload import Commands, Workload, find_workload
from speedproof.profilers.nsys import TRIES
from speedproof.profilers.nsys_switches import capture_variables
from speedproof.profilers.selection import Selection, select_backend
from speedproof.results.checkpoint import find_checkpoint, read_checkpoint
from speedproof.results.dataset import Dataset
from speedproof.results.experiment import EXPERIMENT_FILE, LOST_TRACE, PLAN_FILE, RUNS_FOLDER, Experiment, Plan, PlannedRun
from speedproof.results.files import digest_of, read_record, write_json
from speedproof.results.folder import check_one_layout
from speedproof.results.run_record import Backend, Conditions, Run
from speedproof.results.trace_results import process_folders, rank_folder
from speedproof.run.caches import compile_cache, fill_prepared_folders
from speedproof.run.conditions import describe_conditions
from speedproof.run.gpu_sampling import note_problems, sampling_gpus
from speedproof.run.locks import Waiting, holding_devices, holding_folder, others_measure
from speedproof.run.nsys_runs import convert_reports, put_reports_away, report_files, trace_lost, traced_command
from speedproof.run.observer import EndedRun, Observer
from speedproof.run.plan import plan_experiment
from speedproof.run.process import run_here, run_process, stoppable
from speedproof.run.program import ProgramRun, Request, run_program
from speedproof.run.program_variables import passed_variables
from speedproof.run.resume import (
    digest_tables,
    expected_fingerprint,
    finish_experiment,
    read_whole_run,
    remove_runs_of_another_order,
)
from speedproof.run.scratch import take_place, writing_apart
from speedproof.run.stopping import RunValue, Watch
from speedproof.run.tampering import Manifest
from speedproof.run.working_folder import list_fixed
from speedproof.stats.metrics import read_compared
from speedproof.stats.stopping_rules import STOPPING_RULES
from speedproof.util.child_processes import STOP_GRACE_S
from speedproof.util.environment import SCRATCH_VARIABLE, SOURCES_VARIABLE, available_cores
from speedproof.util.errors import LostTraceError, ProfilingError, TamperedError, TrainingError
from speedproof.util.sources import digest_step

log = logging.getLogger("speedproof")


@dataclass(frozen=True)
class Checkpointing:
    """A run that keeps checkpoints: the fingerprint that names them, and when in its life it was at the one it goes on from."""

    fingerprint: str
    at_s: float = 0.0


@dataclass(frozen=True)
class Job:
    """What an experiment needs to know, and the folder it fills."""

    config: Config
    config_files: Sequence[Path]  # that `config` was read from
    dataset_file: Path
    experiment: str
    folder: Path
    node: Node = ALONE
    profiles: Path | None = None  # where profilers write while a run lasts; None: into its folder
    declared: Workload | None = None  # whose variants are measured; None: that of the folder which the configuration names

    @cached_property
    def workload(self) -> Workload:
        return self.declared or find_workload(self.config.case)

    @property
    def gpus(self) -> int:
        """Return how many GPUs the widest variant runs on, of one node."""
        return max(self.config.completed_variants[variant].gpus for variant in self.config.measurement.all_variants())


def measure_experiment(
    job: Job,
    observer: Observer | None = None,
    begin: Callable[[], None] = lambda: None,
    waiting: Waiting | None = None,
    held: bool = False,
) -> Experiment:
    """Run an experiment on its node while nothing else fills its folder or measures on its devices; see :func:`run_experiment`.

    `begin` is called once the folder is this experiment's. If the devices are `held`, the caller keeps others off them.

    Raises:
        BusyError: another experiment has the folder or the devices, and nobody is `waiting`.
    """
    # Of several nodes each would need a copy; they all read from where the volumes are.
    scratch = job.config.resources.scratch if job.node.count == 1 else None
    if scratch is not None:
        os.environ[SCRATCH_VARIABLE] = "1"
    check_one_layout(job.folder.absolute().parents[1], [job.folder])
    with ExitStack() as stack:
        stack.enter_context(holding_folder(job.folder, waiting))
        begin()
        conditions = ask_conditions(job, job.gpus)
        if not held:
            stack.enter_context(holding_devices(conditions.device, job.gpus, waiting=waiting))
        place = stack.enter_context(take_place(scratch, job.dataset_file, os.environ))
        return run_experiment(replace(job, dataset_file=place.dataset_file, profiles=place.profiles), conditions, observer)


def run_experiment(job: Job, conditions: Conditions, observer: Observer | None = None) -> Experiment:
    """Run what is missing of an experiment and write `experiment.json`, last.

    With `measurement.until` timed rounds end once the compared variants are decided; profiled runs come after them.

    The order is written to `plan.json` before the first run; then prepared folders are filled. A run that an interrupted
    attempt left whole is kept if all that decides what it measured is the same, the GPU above all; by the same rule a timed
    run of one process that left a checkpoint (measurement.checkpoint_every) goes on from it. Any other is repeated, and so is
    one on several nodes, whose other nodes' GPUs the record does not name.

    Raises:
        TrainingError: a run did not end well, or a prepared folder could not be filled; no `experiment.json` is left then.
        ProfilingError: a run could not be traced.
        TamperedError: a run changed what runs are copied from, or the files of another run.
    """
    plan = plan_experiment(job.config, job.experiment)
    (job.folder / EXPERIMENT_FILE).unlink(missing_ok=True)
    remove_runs_of_another_order(job.folder, plan)
    write_json(job.folder / PLAN_FILE, plan)
    profiler = _choose_profiler(job, plan)
    _remove_other_runs(job.folder / RUNS_FOLDER, plan.folders())
    prepared = fill_prepared_folders(job.config, job.workload, job.config_files, job.dataset_file, job.folder)
    for filled in prepared:
        log.info("%s: %d volumes prepared in %.1f s, before its runs", filled.variant, filled.volumes, filled.seconds)
    attempt = ExperimentAttempt(job, plan, conditions, profiler, observer or Observer())
    for number, (name, planned) in enumerate(plan.runs().items(), start=1):
        if planned.mode != "timed" or not attempt.watch.stopped:
            attempt.take_or_lose(number, job.folder / RUNS_FOLDER / name, planned)
    # Others are of an attempt that was to go on for longer. The output of a run that failed tells why.
    _remove_other_runs(job.folder / RUNS_FOLDER, [*attempt.done, *attempt.lost])
    return finish_experiment(
        job.folder,
        job.config,
        plan,
        attempt.done,
        stopped=attempt.watch.stopped,
        prepared=prepared,
        kept=attempt.kept,
        undone=attempt.lost,
        conditions=conditions,
        digests=digest_tables(job.folder, attempt.done, attempt.list_digests()),
    )


class ExperimentAttempt:
    """One attempt at an experiment: what it ran or kept so far, and what watches it."""

    def __init__(self, job: Job, plan: Plan, conditions: Conditions, profiler: Selection | None, observer: Observer) -> None:
        self._job, self._plan, self._conditions, self._profiler, self._observer = job, plan, conditions, profiler, observer
        self._manifest = Manifest(_list_fixed_files(job))
        self.watch = Watch(job.config.measurement)
        self.done: dict[str, PlannedRun] = {}
        self.kept: list[str] = []
        self.lost: dict[str, str] = {}

    def list_digests(self) -> dict[Path, str]:
        """Return the SHA-256 of the runs' files that were read whole when each run ended."""
        folders = [self._job.folder / RUNS_FOLDER / name for name in self.done]
        return {path: digest for folder in folders for path, digest in self._manifest.list_digests(folder).items()}

    def take_or_lose(self, number: int, folder: Path, planned: PlannedRun) -> None:
        """Take a run; a profiled one may fail if who watches goes on without its trace."""
        try:
            self.take(number, folder, planned)
        except (ProfilingError, TrainingError) as error:
            if planned.mode == "timed":
                raise
            _check_unchanged(self._manifest, folder, f"while {folder.name} ran")
            self._observer.lose_trace(planned, error)
            del self.done[folder.name]
            self.lost[folder.name] = LOST_TRACE

    def take(self, number: int, folder: Path, planned: PlannedRun) -> None:
        """Keep a run if it is whole, else do it; tell who watches."""
        job, plan = self._job, self._plan
        self.done[folder.name] = planned
        selection = None if planned.mode == "timed" else self._profiler
        tracer: Backend = selection.backend if selection else "none"
        fingerprint = expected_fingerprint(job.config, planned, tracer, self._conditions)
        one_node = job.config.completed_variants[planned.variant].nodes == 1
        if one_node and (whole := read_whole_run(folder, fingerprint, plan.quality)):
            self.kept.append(folder.name)
            log.info("run %d of %d, %s: kept", number, len(plan.order), folder.name)
            self._end(folder, planned, whole.run, whole.run.process_s, whole.epochs)
            return
        kept_as = _find_checkpoint(job.config, planned, folder, fingerprint)
        if not (kept_as and kept_as.at_s):
            shutil.rmtree(folder, ignore_errors=True)
        self._observer.begin_run(planned)
        begun_s = time.monotonic()
        _check_unchanged(self._manifest, folder, f"before {folder.name} began")
        run = _do_run_again_if_lost(job, number, planned, selection, folder, kept_as)
        _check_unchanged(self._manifest, folder, f"while {folder.name} ran")
        best = "" if run.best_quality is None else f", best {plan.quality.title} {run.best_quality:.4g}"
        breaks = "".join(f", continued from epoch {part.first_epoch} ({part.reason})" for part in run.continued)
        log.info("run %d of %d, %s: %.1f s%s%s", number, len(plan.order), folder.name, run.process_s, best, breaks)
        self._end(folder, planned, run, time.monotonic() - begun_s)

    def _end(self, folder: Path, planned: PlannedRun, run: Run, lasted_s: float, kept: pd.DataFrame | None = None) -> None:
        """Record the files of a run that is whole, and tell who watches; `kept` are the epochs of one that was kept."""
        self._manifest.add(folder)
        compared = None
        if planned.mode == "timed":
            compared = read_compared(folder, run, self.watch.metric, kept)
            self.watch.add(planned, RunValue(compared.cost, compared.resolution, run.best_quality), lasted_s)
            if stopped := self.watch.stopped:
                log.info("%s after %d of %d rounds", STOPPING_RULES[stopped.reason].log, stopped.rounds, stopped.most)
        self._observer.end_run(EndedRun(folder.name, planned, run, compared, kept is not None))


def _list_fixed_files(job: Job) -> list[Path]:
    """Return what no run may change: the plan, and what the variants' programs are copied from."""
    variants = job.config.completed_variants
    measured = [variants[name] for name in job.config.measurement.all_variants()]
    return [job.folder / PLAN_FILE, *list_fixed(job.workload, measured)]


def _check_unchanged(manifest: Manifest, folder: Path, when: str) -> None:
    """Check that nothing changed.

    Raises :class:`TamperedError` if anything was changed; the run in `folder` and those that were changed are then repeated.
    """
    try:
        manifest.check(when)
    except TamperedError as error:
        for spoilt in {folder, *(path for path in error.changed if path.parent == folder.parent)}:
            shutil.rmtree(spoilt, ignore_errors=True)
        raise


def digest_code(workload: Workload) -> str:
    """Return a digest of all code that decides what a run measures, the instrument's and the workload's."""
    return digest_of([digest_step("experiment"), workload.digest_sources("experiment")])[:16]


def ask_conditions(job: Job, gpus: int) -> Conditions:
    """Return the conditions under which runs of an experiment take place here, as its workload describes them.

    What decides besides is known to the runs from here on: the digest of the code.

    Raises:
        TrainingError: there is no such device, or there are fewer than `gpus` of them.
    """
    os.environ[SOURCES_VARIABLE] = digest_code(job.workload)
    if job.workload.declared.commands.conditions == Commands().conditions:  # ours: no process has to be asked
        data, packages = read_record(job.dataset_file, Dataset), job.workload.declared.packages
        return describe_conditions(job.config.measurement.device, gpus, data, packages)
    files = [f"--config={path}" for path in job.config_files]
    return Conditions.model_validate(job.workload.ask("conditions", *files, f"--dataset={job.dataset_file}", f"--gpus={gpus}"))


def follow_experiment(job: Job) -> None:
    """Start this node's processes of each run on several nodes, when the node that leads announces it.

    Raises:
        TrainingError: a run failed here, and the node that leads did not end for it.
    """
    plan = plan_experiment(job.config, job.experiment)
    profiler = _choose_profiler(job, plan)
    for number, (name, planned) in enumerate(zip(plan.folders(), plan.order, strict=True), start=1):
        variant = job.config.completed_variants[planned.variant]
        if job.node.number < variant.nodes and variant.nodes > 1:
            job.node.await_start(number)
            folder = job.folder / RUNS_FOLDER / name
            selection = None if planned.mode == "timed" else profiler
            try:
                log_folder = rank_folder(folder, job.node.number * variant.gpus)
                with stoppable():  # only here: waiting for an announcement never comes back to Python
                    _run_processes(job, number, planned, selection, folder, log_folder, folder)
                job.node.report_end(number)
            except TrainingError:
                time.sleep(STOP_GRACE_S)  # the node that leads says why, and its end is also this one's
                raise


def train_command(
    job: Job, planned: PlannedRun, profiler: Backend, folder: Path, kept_as: Checkpointing | None = None
) -> list[str]:
    """Return the command of one run's process."""
    return [
        *job.workload.command("run"),
        *(f"--config={path}" for path in job.config_files),
        f"--dataset={job.dataset_file}",
        f"--variant={planned.variant}",
        f"--mode={planned.mode}",
        f"--round={planned.round}",
        f"--seed={planned.seed}",
        f"--profiler={profiler}",
        *([f"--fingerprint={kept_as.fingerprint}"] if kept_as else []),
        f"--out={folder}",
    ]


def _choose_profiler(job: Job, plan: Plan) -> Selection | None:
    if all(planned.mode == "timed" for planned in plan.order):
        return None
    selection = select_backend(job.config.profiling, job.workload.is_of_commands)
    log.info("profiler: %s %s (%s)", selection.backend, selection.version, selection.reason)
    return selection


def _find_checkpoint(config: Config, planned: PlannedRun, folder: Path, fingerprint: str) -> Checkpointing | None:
    """Return from which moment of its life a run goes on, 0 where it starts; None where it keeps no checkpoints."""
    if (
        planned.mode != "timed"
        or config.completed_variants[planned.variant].ranks > 1
        or config.measurement.checkpoint_every is None
    ):
        return None
    found = find_checkpoint(folder, fingerprint)
    return Checkpointing(fingerprint, read_checkpoint(found).at_s if found else 0.0)


def _do_run_again_if_lost(
    job: Job, number: int, planned: PlannedRun, selection: Selection | None, folder: Path, kept_as: Checkpointing | None
) -> Run:
    """Do a run, and again where a profiler that was seen to work lost its trace, as happens on a busy machine."""
    for _ in range(TRIES - 1):
        try:
            return _do_run(job, number, planned, selection, folder, kept_as)
        except LostTraceError as error:
            if job.config.completed_variants[planned.variant].nodes > 1:  # the others know of this run, and await the next
                raise
            log.warning("%s; running it again", error)
            shutil.rmtree(folder)
    return _do_run(job, number, planned, selection, folder, kept_as)


def _do_run(
    job: Job, number: int, planned: PlannedRun, selection: Selection | None, folder: Path, kept_as: Checkpointing | None
) -> Run:
    variant = job.config.completed_variants[planned.variant]
    for own in process_folders(folder, variant.ranks):
        own.mkdir(parents=True, exist_ok=True)
    if variant.nodes > 1:
        job.node.announce(number)
    uses_gpu = job.config.measurement.device != "cpu"
    others = name_gpu_processes(variant.gpus) if uses_gpu else []
    on_gpu = naming_others(variant.gpus, cache(is_of_ours)) if uses_gpu else None
    if others:
        log.warning("%s: other processes on the GPU: %s; they slow its runs while they compute", folder.name, ", ".join(others))
    beside = others_measure()
    keep = job.config.profiling.keep_reports
    # Other nodes, which announce nothing, write where this one looks: into the run's folder.
    apart = writing_apart(job.profiles, folder, report_files(variant.ranks), keep)
    with apart if selection and variant.nodes == 1 else nullcontext(folder) as place:
        for made in process_folders(place, variant.ranks):  # nsys makes no folder
            made.mkdir(exist_ok=True)
        try:
            with watching_machine(on_gpu) as machine:
                monitors = _run_processes(job, number, planned, selection, folder, folder, place, kept_as)
            if variant.nodes > 1:
                job.node.await_ends(number, variant.nodes - 1)
        except TrainingError as error:
            if selection and selection.nsys and trace_lost(folder, variant.ranks):
                raise LostTraceError(str(error)) from None
            raise
        if selection and selection.nsys:
            convert_reports(place, folder, selection.nsys, variant.ranks, job.config.ranges, job.config.profiling)
            if variant.nodes > 1:
                put_reports_away(folder, variant.ranks, keep)
    return note_problems(folder, monitors, others, beside=beside or others_measure(), machine=machine.found)


def list_variables(workload: Workload, variant: Variant, timed: bool) -> dict[str, str]:
    """Return what a run's process sees besides the allowed variables."""
    return (
        passed_variables(variant, os.environ, timed)
        | workload.environment(os.environ)
        | rank_variables(variant, available_cores(), os.environ)
    )


def _run_processes(
    job: Job,
    number: int,
    planned: PlannedRun,
    selection: Selection | None,
    folder: Path,
    log_folder: Path,
    profiles: Path,
    kept_as: Checkpointing | None = None,
) -> list[GpuMonitor]:
    """Start this node's processes of a run, and wait for their end; profilers write to `profiles`."""
    variant = job.config.completed_variants[planned.variant]
    command = train_command(job, planned, selection.backend if selection else "none", folder, kept_as)
    wrap = torchrun_command(variant, job.node, number)
    if selection and selection.nsys:
        wrap += traced_command(profiles, selection.nsys, job.config.profiling, variant.ranks)
    variables = list_variables(job.workload, variant, timed=selection is None)
    variables |= capture_variables(job.config.profiling) if selection and selection.nsys else {}
    first = job.node.number * variant.gpus
    folders = process_folders(folder, variant.ranks)[first : first + variant.gpus]
    samples_per_s, before_s = job.config.profiling.gpu_samples_per_s, kept_as.at_s if kept_as else 0.0
    seen = {**os.environ, **variant.environment}
    with compile_cache(variant) as cache, sampling_gpus(folders, samples_per_s, seen, before_s) as monitors:
        if job.workload.is_of_commands and selection is None and not wrap:
            run_here(partial(_watch_run, job, planned, folder), log_folder, variables | cache)
        else:
            run_process(command, log_folder, wrap, variables | cache)
    return monitors


def _watch_run(job: Job, planned: PlannedRun, folder: Path, environ: Mapping[str, str], output: int) -> tuple[Run, str | None]:
    """Run the command of a planned run, and return the record that it leaves, and the stop signal that came, if one did."""
    data = read_record(job.dataset_file, Dataset)
    variant, packages = job.config.completed_variants[planned.variant], job.workload.declared.packages
    conditions = describe_conditions(job.config.measurement.device, variant.gpus, data, packages)
    request = Request(planned.variant, planned.mode, planned.round, planned.seed, "none")
    asked = ProgramRun(job.config, job.workload, request, folder, job.dataset_file.parent / data.folder, environ)
    return run_program(asked, conditions, output)


def _remove_other_runs(runs: Path, names: list[str]) -> None:
    """Remove the folders of runs that are not in the plan: an earlier configuration's."""
    for folder in runs.iterdir() if runs.exists() else []:
        if folder.name not in names:
            shutil.rmtree(folder)
