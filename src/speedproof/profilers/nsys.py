"""Nsight Systems: its command lines, built by pure functions, and runs of it that are believed only for what they left behind.

`nsys` ends with 0 where a report was skipped, a statistic crashed or nothing was recorded: content is checked, not exit codes.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from speedproof.profilers.nsys_export import RANGE_KINDS
from speedproof.profilers.nsys_sqlite import ExportFile
from speedproof.profilers.python_stacks import add_stacks, lacks_stacks
from speedproof.results.files import replacing, write_text
from speedproof.util.child_processes import run_child
from speedproof.util.errors import LostTraceError, ProfilingError, RecordError
from speedproof.util.scrub import profiled_environment, scrub_text
from speedproof.util.temporary_folder import removable_folder
from speedproof.util.units import MIB

# Holds the environments of all processes above it, as its export does: both go, or are their owner's (profiling.keep_reports).
REPORT_FILE = "report.nsys-rep"
EXPORT_FILE = "report.sqlite"

_IS_RANGE = f"eventType IN ({', '.join(map(str, RANGE_KINDS))})"

# Each statistic, and the rows of the export (of one of these tables; of NVTX, ranges) without which it has nothing to say.
STATISTICS: dict[str, list[str]] = {
    "cuda_gpu_kern_sum": ["CUPTI_ACTIVITY_KIND_KERNEL"],
    "cuda_api_sum": ["CUPTI_ACTIVITY_KIND_RUNTIME"],
    "cuda_gpu_mem_time_sum": ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"],
    "cuda_gpu_mem_size_sum": ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"],
    "nvtx_sum": ["NVTX_EVENTS"],
    "osrt_sum": ["OSRT_API"],
}
# The same of nsys' own rules.
RULES: dict[str, list[str]] = {
    "cuda_memcpy_async": ["CUPTI_ACTIVITY_KIND_MEMCPY"],
    "cuda_memcpy_sync": ["CUPTI_ACTIVITY_KIND_MEMCPY"],
    "cuda_memset_sync": ["CUPTI_ACTIVITY_KIND_MEMSET"],
    "cuda_api_sync": ["CUPTI_ACTIVITY_KIND_RUNTIME"],
    "gpu_gaps": ["CUPTI_ACTIVITY_KIND_KERNEL"],
    "gpu_time_util": ["CUPTI_ACTIVITY_KIND_KERNEL"],
}
RULES_FILE = "rules.txt"

# Written where the program understands it; older ones lack the last two.
_SWITCHES = [
    "--force-overwrite=true",
    "--sample=none",
    "--cpuctxsw=none",  # without it context switches are collected even though nothing is sampled
    "--wait=primary",  # a loader's worker that outlives the training is not waited for
    "--kill=none",
    "--trace-fork-before-exec=true",  # loaders fork their workers and never exec
    "--cuda-graph-trace=node",
]
# On a busy machine a working nsys, too, loses the process with which it traces, or its trace, once in some hundreds of times:
# what it is to do is tried so often.
TRIES = 3
# What it says then. The last two are all that it says where the connection breaks at once, or before it is made.
_AGENT_LOST = ("Connection to Agent lost", "End of file", "Local Endpoint is not available")
# How long nsys may take: an answer of some words and a traced program of milliseconds need a fraction of it, work on a report
# a second or so for some MiB, on a busy disk many times that. One that hangs is ended.
_ANSWER_LIMIT_S = 120
_WORK_LIMIT_S, _WORK_LIMIT_S_PER_MIB = 600, 5
_NOT_STARTED = 127  # the exit status where a program could not be started
_LAST_WORDS = 300  # characters of a failed program's output that an error repeats


class Capabilities(NamedTuple):
    """An nsys program, its version, and the long switches of its `profile` command."""

    program: str
    version: str
    switches: frozenset[str]


def profile_command(
    nsys: Capabilities, report: Path, trace: Sequence[str], program: Sequence[str], further: Sequence[str] = ()
) -> list[str]:
    """Return the command that runs `program` under nsys, with `further` switches, and writes `report` (`.nsys-rep`).

    Forked worker processes are traced too, except that nsys may lose what one does in its last tenth of a second.
    """
    chosen = {switch.split("=")[0] for switch in further}
    supported = [switch for switch in _SWITCHES if switch.split("=")[0] in nsys.switches - chosen]
    output = f"--output={report.with_suffix('')}"
    return [nsys.program, "profile", *supported, *further, f"--trace={','.join(trace)}", output, *program]


def export_command(nsys: Capabilities, report: Path, out: Path, kind: str = "sqlite") -> list[str]:
    return [nsys.program, "export", f"--type={kind}", "--force-overwrite=true", f"--output={out}", str(report)]


def stats_command(nsys: Capabilities, sqlite: Path, statistics: Sequence[str], prefix: Path) -> list[str]:
    """Return the command that writes each statistic to `<prefix>_<statistic>.csv`.

    It reads the exported file itself: given a report, nsys would trust an older export that lies beside it.
    """
    reports = [f"--report={name}" for name in statistics]
    return [nsys.program, "stats", *reports, "--format=csv", "--force-overwrite=true", f"--output={prefix}", str(sqlite)]


def analyze_command(nsys: Capabilities, sqlite: Path, rules: Sequence[str]) -> list[str]:
    return [nsys.program, "analyze", *(f"--rule={rule}" for rule in rules), "--format=column", "--output=-", str(sqlite)]


def read_capabilities(program: str = "nsys", inside: Sequence[str] = ()) -> Capabilities:
    """Ask an nsys program for its version and switches; raise :class:`ProfilingError` where it does not answer.

    `inside` are the words in front of a command that run it in a container.
    """
    if not inside and shutil.which(program) is None:
        raise ProfilingError(f"{program}: not found; install Nsight Systems, or set profiling.nsys to its path")
    version = _run([*inside, program, "--version"], _ANSWER_LIMIT_S)
    number = re.search(r"\d+\.\d+\.\d+(\.\d+)*", version.stdout)
    if number is None:
        raise ProfilingError(f"{program}: does not print its version ({_last_words(version)}); install Nsight Systems again")
    usage = _run([*inside, program, "profile", "--help"], _ANSWER_LIMIT_S).stdout
    return Capabilities(program, number[0], frozenset(re.findall(r"^\s*(?:-\w, )?(--[\w-]+)", usage, re.MULTILINE)))


def run_profiled(
    nsys: Capabilities,
    report: Path,
    trace: Sequence[str],
    program: Sequence[str],
    log: Path,
    environ: Mapping[str, str],
) -> int:
    """Run a small program under nsys, its output in `log`, and return the program's exit code.

    It sees the variables of `environ` that :func:`profiled_environment` allows.

    Raises:
        LostTraceError: nsys lost its agent and wrote no report; the next attempt may succeed.
        ProfilingError: nsys wrote no report.
    """
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    command = profile_command(nsys, report, trace, program)
    with log.open("w", encoding="utf-8") as output:
        try:
            status = run_child(command, output.fileno(), profiled_environment(environ), limit_s=_ANSWER_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise ProfilingError(
                report, f": nsys {nsys.version} did not end within {_ANSWER_LIMIT_S} s and was killed; see ", log
            ) from None
    if not report.is_file() or not report.stat().st_size:
        said = _shorten(log.read_text(encoding="utf-8", errors="replace"))
        error = LostTraceError if agent_lost(log) else ProfilingError
        raise error(report, f": nsys {nsys.version} left no report (exit code {status}: {said}); see ", log)
    return status


def agent_lost(log: Path) -> bool:
    """Return whether nsys says in a log that it lost the process with which it traces."""
    said = log.read_text(encoding="utf-8", errors="replace")
    return any(words in said for words in _AGENT_LOST)


def export_report(nsys: Capabilities, report: Path, sqlite: Path) -> None:
    """Export a report to SQLite, replacing what was there; raise :class:`ProfilingError` where the importer failed."""
    with replacing(sqlite) as temporary:
        ended = _run(export_command(nsys, report, temporary), _work_limit_s(report))
        if not is_export(temporary):
            raise ProfilingError(
                report,
                f": nsys {nsys.version} could not export it ({_last_words(ended)}); "
                "use an nsys that is as new as the one that recorded it and as the driver",
            )
        if lacks_stacks(ExportFile(temporary)):
            _complete_stacks(nsys, report, temporary)


def _complete_stacks(nsys: Capabilities, report: Path, sqlite: Path) -> None:
    with removable_folder() as scratch:
        exported = scratch / "report.json"
        ended = _run(export_command(nsys, report, exported, "json"), _work_limit_s(report))
        try:
            add_stacks(sqlite, exported)
        except (OSError, ValueError, KeyError, TypeError):
            raise ProfilingError(
                report,
                f": nsys {nsys.version} gave no JSON with Python's call stacks ({_last_words(ended)}); "
                "record without profiling.python_samples",
            ) from None


def collect_statistics(nsys: Capabilities, sqlite: Path, folder: Path) -> None:
    """Write nsys' statistics as `<statistic>.csv`, and what its rules find as `rules.txt`, into `folder`, scrubbed.

    A statistic is asked for where the export holds its data, and then it must have content.
    """
    export = ExportFile(sqlite)
    if wanted := _with_data(export, STATISTICS):
        _write_statistics(nsys, sqlite, wanted, folder)
    if rules := _with_data(export, RULES):
        _write_rules(nsys, sqlite, rules, folder)


def _with_data(export: ExportFile, needed: Mapping[str, list[str]]) -> list[str]:
    def has_data(table: str) -> bool:
        return export.holds_rows(table, _IS_RANGE if table == "NVTX_EVENTS" else "TRUE")

    return [name for name, tables in needed.items() if any(map(has_data, tables))]


def _write_statistics(nsys: Capabilities, sqlite: Path, wanted: list[str], folder: Path) -> None:
    with removable_folder() as scratch:
        prefix = scratch / "stats"
        ended = _run(stats_command(nsys, sqlite, wanted, prefix), _work_limit_s(sqlite))
        for name in wanted:
            made = prefix.with_name(f"stats_{name}.csv")
            text = made.read_text(encoding="utf-8") if made.is_file() else ""
            if len(text.splitlines()) < 2:
                raise ProfilingError(
                    sqlite,
                    f": `nsys stats` {nsys.version} wrote no {name} though the data is there "
                    f"({_last_words(ended)}); try another version of nsys",
                )
            write_text(folder / f"{name}.csv", scrub_text(text))


def _write_rules(nsys: Capabilities, sqlite: Path, rules: list[str], folder: Path) -> None:
    ended = _run(analyze_command(nsys, sqlite, rules), _work_limit_s(sqlite))
    findings = re.sub(r"^Processing \[.*?\]\.\.\. *", "", ended.stdout, flags=re.MULTILINE)
    for rule in rules:
        if f"({rule})" not in findings:  # its title, which is printed also where the rule found nothing
            raise ProfilingError(
                sqlite,
                f": rule {rule} of `nsys analyze` {nsys.version} failed ({_last_words(ended)}); try another version of nsys",
            )
    write_text(folder / RULES_FILE, scrub_text(re.sub(r"\n{3,}", "\n\n", findings).strip() + "\n"))


def is_export(sqlite: Path) -> bool:
    try:
        return ExportFile(sqlite).holds_rows("META_DATA_EXPORT")
    except RecordError:
        return False


def _work_limit_s(file: Path) -> float:
    size = file.stat().st_size if file.exists() else 0
    return _WORK_LIMIT_S + _WORK_LIMIT_S_PER_MIB * size / MIB


def _run(command: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run nsys, which is killed with all that came of it where it takes longer."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            status = run_child(command, output.fileno(), os.environ, errors=errors.fileno(), limit_s=limit_s)
        except subprocess.TimeoutExpired:
            raise ProfilingError(
                f"{' '.join(command[:2])}: no answer within {limit_s:.0f} s, so it was killed; "
                "try again on a quiet machine, or set profiling.nsys to a working nsys"
            ) from None
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if status == _NOT_STARTED and texts[1].startswith(f"{command[0]}: "):
        reason = _shorten(texts[1].removeprefix(f"{command[0]}: "))
        raise ProfilingError(f"{command[0]}: cannot be run ({reason}); set profiling.nsys to a working nsys")
    return subprocess.CompletedProcess(list(command), status, *texts)


def _last_words(ended: subprocess.CompletedProcess[str]) -> str:
    return _shorten(ended.stderr.strip() or ended.stdout) or f"no output, exit code {ended.returncode}"


def _shorten(text: str) -> str:
    return " ".join(text.split())[-_LAST_WORDS:]
