"""A run under Nsight Systems: the report, its export, nsys' own statistics, and last the trace that all later steps read.

A run of several ranks has all of it once a rank, in `rank<k>/`: each rank's process runs under an nsys of its own.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from speedproof.cluster.torchrun import RANK_IN_PATHS
from speedproof.config.profiling import Profiling
from speedproof.profilers.nsys import (
    EXPORT_FILE,
    REPORT_FILE,
    Capabilities,
    agent_lost,
    collect_statistics,
    export_report,
    profile_command,
)
from speedproof.profilers.nsys_export import convert_export
from speedproof.profilers.nsys_switches import captured_range, explain_no_report, list_switches
from speedproof.profilers.required_ranges import require_closed, require_ranges
from speedproof.results.run_record import LOG_FILE, STATS_FOLDER, TRACE_FOLDER
from speedproof.results.trace_results import process_folders, rank_folder
from speedproof.util.errors import LostTraceError, ProfilingError


def traced_command(place: Path, nsys: Capabilities, profiling: Profiling, ranks: int) -> list[str]:
    """Return the words in front of a run's program that trace it, each rank into its own folder below `place`."""
    own = place if ranks == 1 else rank_folder(place, RANK_IN_PATHS)
    switches = list_switches(profiling, nsys)
    return profile_command(nsys, own / REPORT_FILE, profiling.trace, program=[], further=switches)


def trace_lost(folder: Path, ranks: int) -> bool:
    """Return whether nsys says in a run's logs that it lost the process with which it traces."""
    logs = [place / LOG_FILE for place in {folder, *process_folders(folder, ranks)}]
    return any(agent_lost(log) for log in logs if log.exists())


def report_files(ranks: int) -> list[str]:
    """Return the report and its export of each of a run's processes, relative to the run's folder."""
    return [str(folder / name) for folder in process_folders(Path(), ranks) for name in (REPORT_FILE, EXPORT_FILE)]


def put_reports_away(folder: Path, ranks: int, keep: bool) -> None:
    """Remove a run's reports and their exports, or keep them for their owner only."""
    for path in (folder / name for name in report_files(ranks)):
        if keep and path.exists():
            path.chmod(0o600)
        else:
            path.unlink(missing_ok=True)


def convert_reports(
    place: Path, folder: Path, nsys: Capabilities, ranks: int, ranges: Sequence[str], profiling: Profiling
) -> None:
    """Make an export of each process' report below `place`, and of that `stats/` and `trace/` in the run's folder.

    Raises:
        LostTraceError: nsys left no report, or one without the `ranges` that every trace of the workload has.
        ProfilingError: what it recorded could not be read.
    """
    try:
        for made, kept in zip(process_folders(place, ranks), process_folders(folder, ranks), strict=True):
            _convert_report(made, kept, nsys, folder / LOG_FILE, ranges, profiling)
    except ProfilingError as error:
        raise error.moved(place, folder) from None  # where a failed run's reports come to lie


def _convert_report(
    made: Path, kept: Path, nsys: Capabilities, log_file: Path, ranges: Sequence[str], profiling: Profiling
) -> None:
    report, export = made / REPORT_FILE, made / EXPORT_FILE
    if not report.is_file() or not report.stat().st_size:
        lost = f": nsys {nsys.version} left no report"
        if never_opened := explain_no_report(profiling):  # the same would come of doing it once more
            raise ProfilingError(report, f"{lost}{never_opened}; see {log_file}")
        raise LostTraceError(report, f"{lost}; see {log_file}")
    export_report(nsys, report, export)
    collect_statistics(nsys, export, kept / STATS_FOLDER)
    convert_export(export, kept / TRACE_FOLDER)
    require_closed(kept / TRACE_FOLDER, captured_range(profiling))
    try:
        if ranges:
            require_ranges(kept / TRACE_FOLDER, ranges)
    except ProfilingError as error:
        shutil.rmtree(kept / TRACE_FOLDER)  # a run that has a trace counts as whole
        raise LostTraceError(*error.parts) from None
