"""A run under Nsight Systems: the report, its export, nsys' own statistics, and last the trace that all later steps read."""

from collections.abc import Sequence
from pathlib import Path

from speedproof.errors import ProfilingError
from speedproof.measuring.process import run_process
from speedproof.measuring.scratch import writing_on
from speedproof.profiling.nsys import Capabilities, collect_statistics, export_report, profile_command
from speedproof.profiling.nsys_export import convert_export, require_ranges
from speedproof.records.run import LOG_FILE, STATS_FOLDER, TRACE_FOLDER

REPORT_FILE = "report.nsys-rep"  # holds the whole environment, as its export does: neither leaves the results folder
EXPORT_FILE = "report.sqlite"

# Every run has these; a trace without them lost its ranges, whatever the profiler's exit code says.
REQUIRED_PHASES = ["epoch", "dataload", "forward", "backward", "update"]


def run_under_nsys(
    module: Sequence[str], folder: Path, nsys: Capabilities, trace: Sequence[str], scratch: Path | None = None
) -> None:
    """Run `python -m MODULE…` under nsys and leave report, export, `stats/` and `trace/` in the run's folder.

    nsys writes to `scratch`, a folder of the node's own disk, if one is given: a network disk would disturb the run.

    Raises:
        TrainingError: the program ended badly.
        ProfilingError: nsys recorded nothing, or what it recorded could not be read.
    """
    with writing_on(scratch, folder, [REPORT_FILE, EXPORT_FILE]) as place:
        report, export = place / REPORT_FILE, place / EXPORT_FILE
        run_process(module, folder, wrap=profile_command(nsys, report, trace, program=[]))
        if not report.is_file() or not report.stat().st_size:
            raise ProfilingError(f"{report}: nsys {nsys.version} left no report; see {folder / LOG_FILE}")
        export_report(nsys, report, export)
        collect_statistics(nsys, export, folder / STATS_FOLDER)
        convert_export(export, folder / TRACE_FOLDER)
    require_ranges(folder / TRACE_FOLDER, REQUIRED_PHASES)
