"""A variant's warm-up under the profiler: whether its trace shows where time goes, before all rounds have run."""

import os
from pathlib import Path

from speedproof.config.model import Config
from speedproof.config.workload import Workload
from speedproof.profilers.convert import convert_input
from speedproof.profilers.nsys import REPORT_FILE, read_capabilities
from speedproof.results.run_record import TRACE_FOLDER
from speedproof.run.command_words import program_command
from speedproof.run.nsys_runs import traced_command
from speedproof.run.program_variables import passed_variables
from speedproof.run.watched_program import Task, watch_program
from speedproof.run.working_folder import working_folder
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import SpeedproofError, TrainingError
from speedproof.util.scrub import profiled_environment
from speedproof.util.temporary_folder import removable_folder


def try_profiler(
    config: Config, workload: Workload, name: str, folder: Path, stop_after: int = 0, recognizing: bool = False
) -> None:
    """Run a variant once under the profiler, before the rounds, and check that its trace shows where the time goes.

    It is ended after so many epochs, which may be those of a known program; with 0 it ends by itself.

    Raises :class:`TrainingError` if it does not.
    """
    variant, log_file = config.completed_variants[name], folder / f"{name}-profiled.txt"
    environ = {**profiled_environment(os.environ), **passed_variables(variant, os.environ, timed=False)}
    with removable_folder() as scratch, working_folder(workload, variant) as place:
        trace, by_torch = scratch / TRACE_FOLDER, config.profiling.backend == "kineto"
        words = []
        if not by_torch:
            words = traced_command(scratch, read_capabilities(config.profiling.nsys), config.profiling, 1)
        with log_file.open("wb") as output:
            command = [*words, *program_command(workload, variant, None, place)]
            task = Task(
                *(config, workload, variant, command, config.measurement.seed),
                traced_by_torch=by_torch,
                under_nsys=not by_torch,
                recognizing=recognizing,
                stop_after=stop_after,
            )
            seen = watch_program(task, scratch, place, output.fileno(), environ)
        try:
            if not by_torch:
                convert_input(scratch / REPORT_FILE, trace, config.profiling.nsys)
            analyze_trace(trace)
        except SpeedproofError as error:
            why = error.moved(scratch, Path()) if seen.end.completed else seen.end.reason
            raise TrainingError(
                f"{variant.title}: its trace is unusable: {why}; leave --profiled out; full output: {log_file}"
            ) from None
