"""The experiment of a proof in this process: the functions that the workflow's rules call, one after the other."""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import scipy.special  # noqa: F401 (intervals need it: loaded between two runs, it would delay the second)

from speedproof.cluster.doctor import diagnose
from speedproof.cluster.gpu_monitor import list_gpu_uuids
from speedproof.config.model import Config
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.dataset import own_data
from speedproof.results.files import write_json, write_json_if_changed, write_sealed
from speedproof.results.folder import CONFIG_FILE, read_results
from speedproof.run.archive.rebuild import rebuild_numbers, rebuild_report
from speedproof.run.locks import holding_devices
from speedproof.run.proof.find import RESULTS
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.progress import Progress
from speedproof.run.proof.quiet import QuietRounds, QuietWait, wait_aloud
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.warm_up import WarmUp, warm_up
from speedproof.run.proof.workspace import ProofSetup, write_for_others
from speedproof.run.run_experiment import Job, digest_code, measure_experiment
from speedproof.run.staleness import read_measured
from speedproof.util.child_processes import Patience, StoppedError, answering_stops, raising_when_stopped
from speedproof.util.environment import COMMIT_VARIABLE, SOURCES_VARIABLE, step_environment
from speedproof.util.errors import ConfigError, TrainingError
from speedproof.util.log_file import FileOfLog, LogFormatter, log
from speedproof.util.progress_bar import without_progress

PROOF_LOG = "prove.log"
ENDING = ("stopping; completed runs are kept", "still stopping; interrupt again to kill what is left")
INTERRUPTED = "interrupted; completed runs are kept: run the same command to resume"


class LocalExecutor:
    """Warms up and measures in this process; the devices are `held` from the warm-up to the last run."""

    def __init__(self, out: Path, request: ProofRequest, status: Status, held: ExitStack) -> None:
        self._out, self._request, self._status = out, request, status
        self._quiet = QuietWait(request.wait_for_quiet_min, request.device, request.gpus, status)
        self._waiting = wait_aloud(status) if request.wait else None
        self._held, self._holds = held, False

    def warm_up(self, measured: ProofSetup) -> WarmUp:
        """Run each command once; these runs do not count."""
        request = self._request
        device = "cuda" if request.device != "cpu" and list_gpu_uuids() else "cpu"
        # A warm-up and another experiment would disturb each other.
        self._held.enter_context(holding_devices(device, request.gpus, waiting=self._waiting))
        self._holds = True
        self._quiet.wait()
        return warm_up(self._out, measured.config, measured.workload, request, self._status.go_on_with)

    def measure(self, measured: ProofSetup, progress: Progress) -> Evidence:
        """Measure what is missing, compare the runs and write the report; return the evidence.

        If a command fails under the profiler only, the timed runs are compared without its trace.

        Raises:
            TrainingError: a timed run failed, or a stop signal came. Completed runs are kept.
            ConfigError: the machine lacks what is asked for.
        """
        results = self._out / RESULTS
        config, config_file = measured.config, results / CONFIG_FILE
        write_json_if_changed(config_file, config)
        if self._request.profiled:  # a process under the profiler starts the program
            write_for_others(measured, self._out)
        data = results / "data" / (config.completed.dataset if config.completed else "data") / "dataset.json"
        job = Job(config, [config_file], data, "experiment-1", results / "experiments/experiment-1", declared=measured.workload)
        with (
            logging_to(self._out / PROOF_LOG),
            commit_in_environment(),
            ending_in_order(self._status),
            without_progress(),
        ):
            read = read_measured(results, config, digest_code(measured.workload))
            if read is not None:
                self._status.say("nothing was run: all runs exist from an earlier call")
            else:
                self._status.go_on_with("checking the machine")
                _ask_doctor(config, results)
                write_json(data, own_data(measured.workload.declared.title))
                watched = QuietRounds(self._quiet, progress)
                experiment = measure_experiment(job, watched, waiting=self._waiting, held=self._holds)
                self._held.close()
                progress.conclude(experiment.stopped)
            self._status.go_on_with("comparing the runs")
            evidence = rebuild_numbers(read or read_results(results, summaries=False), measured.workload.claims)
            self._status.go_on_with("writing the report")
            rebuild_report(evidence, results)
        return evidence


def _ask_doctor(config: Config, results: Path) -> None:
    """Write what this machine can measure.

    Raises :class:`ConfigError` if it lacks what is asked for.
    """
    measurement = config.measurement
    profiling = config.profiling if measurement.profiled + measurement.documented else None
    diagnosis = diagnose(profiling, measurement.device, config.resources.scratch)
    write_sealed(results / "doctor.json", diagnosis)
    if problems := diagnosis.describe_problems():
        raise ConfigError(problems)


@contextmanager
def ending_in_order(status: Status, interrupted: str = INTERRUPTED) -> Iterator[None]:
    """Let a stop signal end the run that goes on, then this process, with a message; asked twice more, at once."""
    try:
        with answering_stops(Patience(ENDING, status.say)), raising_when_stopped():
            yield
    except StoppedError:
        raise TrainingError(interrupted) from None


@contextmanager
def commit_in_environment() -> Iterator[None]:
    """Let runs know the instrument's commit while this lasts; what else they learn from variables goes with it."""
    kept = {name: os.environ.get(name) for name in (COMMIT_VARIABLE, SOURCES_VARIABLE)}
    os.environ[COMMIT_VARIABLE] = step_environment(os.environ)[COMMIT_VARIABLE]
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write what the steps log to a file, and to it alone."""
    handler = FileOfLog(path, mode="w", encoding="utf-8")
    handler.setFormatter(LogFormatter())
    before = log.handlers, log.level, log.propagate
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.handlers, log.propagate = before[0], before[2]
        log.setLevel(before[1])
        handler.close()
