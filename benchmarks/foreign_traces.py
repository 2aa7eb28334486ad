"""Analyze profiles that others published, and compare the results with plain counting over the raw files.

    python benchmarks/foreign_traces.py FOLDER > table.md

FOLDER holds the profiles as OWNER+REPOSITORY/path/in/the/repository. docs/foreign-traces.md lists them and their sources; they
are not part of this repository. The counting shares no code with speedproof: it loads whole JSON files, queries SQLite in SQL,
and sums busy time over intervals that it sorts and merges itself.
"""

import gzip
import hashlib
import json
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from speedproof.profilers.convert import convert_input, is_input
from speedproof.results.summary import Summary
from speedproof.results.trace_tables import read_table
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import SpeedproofError

Spans = list[tuple[float, float]]  # nanoseconds
_HEAD = ["file", "sha256", "kernels", "iterations, found by", "busy, speedproof", "the same, counted", "difference"]
_HEAD += ["from first to last kernel, counted", "CPU"]


class Counted(NamedTuple):
    """What plain counting finds in a raw file."""

    kernels: Spans
    steps: Spans  # the ranges ProfilerStep#…, which only torch.profiler writes


def count_chrome(path: Path) -> Counted:
    """Read kernels and steps of what torch.profiler exported."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = json.load(file, strict=False)
    events = [event for event in content["traceEvents"] if event.get("ph") == "X"]

    def spans(chosen: list[dict[str, float]]) -> Spans:
        return [(1000 * float(event["ts"]), 1000 * (float(event["ts"]) + float(event.get("dur", 0)))) for event in chosen]

    steps = [
        event
        for event in events
        if str(event.get("name", "")).startswith("ProfilerStep#")
        and event.get("cat", "").lower() in ("user_annotation", "operator")
    ]
    return Counted(spans([event for event in events if event.get("cat", "").lower() == "kernel"]), sorted(spans(steps)))


def count_sqlite(path: Path) -> Counted:
    """Read the kernels of an export of nsys, of the process that has most."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")}
        of_one = (
            """WHERE globalPid IS (SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL
                                   GROUP BY globalPid ORDER BY sum(end - start) DESC LIMIT 1)"""
            if "globalPid" in columns
            else ""
        )
        return Counted(connection.execute(f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL {of_one}").fetchall(), [])


def merge(spans: Spans) -> Spans:
    """Return spans without their overlaps."""
    merged: Spans = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def measure_share(kernels: Spans, windows: Spans) -> float:
    """Return the share of the windows in which a kernel runs."""
    merged = merge(kernels)
    busy = sum(max(0.0, min(end, stop) - max(start, begin)) for begin, stop in windows for start, end in merged)
    return busy / sum(stop - begin for begin, stop in windows)


def main(folder: Path) -> None:
    """Print the table."""
    print("| " + " | ".join(_HEAD) + " |\n|" + "---|" * len(_HEAD))
    for path in sorted(folder.rglob("*")):
        if path.is_file() and is_input(path):
            cells = [str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest()[:12], *_compare(path)]
            print("| " + " | ".join(cells) + " |", flush=True)


def _compare(path: Path) -> list[str]:
    """Return the cells of a row with what was found."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            rows = convert_input(path, Path(scratch)).rows["kernels"]
            summary = analyze_trace(Path(scratch))
        except SpeedproofError as error:
            return ["", f"refused: {str(error).split(':', 1)[1].split(';')[0].strip()}", "", "", "", "", ""]
        took_s = time.process_time() - began
        first_ns = min(read_table(Path(scratch), "kernels", ["start_ns"])["start_ns"].to_pylist(), default=0)
    counted = count_sqlite(path) if path.suffix == ".sqlite" else count_chrome(path)
    found = f"{len(summary.epochs)} × {summary.found.name[:30]}, {summary.found.by}"
    if not counted.kernels or not summary.recorded:
        note = "none" if summary.recorded else "not said: recorded in part"
        return [f"{rows} ({len(counted.kernels)})", found, note, "–", "–", "–", f"{took_s:.1f} s"]
    ours, plain = _share(summary), measure_share(counted.kernels, _windows(summary, counted, first_ns))
    cells = [f"{ours:.1%}", f"{plain:.1%}", f"{100 * (ours - plain):+.2f} points"]
    everything = [(min(counted.kernels)[0], max(end for _, end in counted.kernels))]
    cells.append(f"{measure_share(counted.kernels, everything):.1%}")
    return [f"{rows} ({len(counted.kernels)})", found, *cells, f"{took_s:.1f} s"]


def _share(summary: Summary) -> float:
    total = sum(epoch.duration_s for epoch in summary.epochs)
    return sum(epoch.kernel_busy_fraction * epoch.duration_s for epoch in summary.epochs) / total


def _windows(summary: Summary, counted: Counted, first_ns: float) -> Spans:
    """Return the file's own steps on its clock; if it has none, the iterations that were found."""
    if counted.steps:
        return counted.steps
    offset_ns = min(counted.kernels)[0] - first_ns
    return [(epoch.start_ns + offset_ns, epoch.end_ns + offset_ns) for epoch in summary.epochs]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
