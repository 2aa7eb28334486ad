"""Sums of a trace's tables beside those of `nsys stats`: calls and total nanoseconds (or bytes) by name."""

import csv
import io
import re
from collections import defaultdict
from pathlib import Path

import pyarrow.compute as pc

from speedproof.results.evidence_archive import is_there
from speedproof.results.files import read_text
from speedproof.results.trace_tables import read_table

COPIES = {"HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "DtoD": "Device-to-Device", "PtoP": "Peer-to-Peer"}


def totals(trace: Path, table: str, key: str = "name") -> dict[str, tuple[int, int]]:
    """Return calls and total nanoseconds by name; of what never ended only the calls."""
    columns = read_table(trace, table, ["start_ns", "end_ns", key])
    lengths = columns.append_column("length_ns", pc.subtract(columns["end_ns"], columns["start_ns"]))
    sums = lengths.group_by(key).aggregate([("length_ns", "sum"), ([], "count_all")]).to_pylist()
    return {row[key]: (row["count_all"], row["length_ns_sum"] or 0) for row in sums}


def read_sums(path: Path, calls: str, name: str, total: str = "Total Time (ns)") -> dict[str, tuple[int, int]]:
    """Return the same from a file of `nsys stats`; rows that our trace gives one name are added up."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in csv.DictReader(io.StringIO(read_text(path), newline="")):
        key = _plain_name(row[name])
        found[key] = (found[key][0] + int(row[calls]), found[key][1] + int(row[total]))
    return dict(found)


def _plain_name(name: str) -> str:
    """Drop an API's version (nsys drops those of four digits), autograd's numbers, and the default domain's colon."""
    return re.sub(r"_v\d{4,}$|, (seq|op_id) = .*", "", name).removeprefix(":")


def assert_sums_are_those_of_nsys(trace: Path, statistics: Path, domains: tuple[str, ...] = ()) -> list[str]:
    """Compare kernels, calls, copies and ranges, as far as `statistics` holds files; return which those were.

    `domains` are the names of NVTX domains, which nsys writes in front of a range's name. Of a range that never ended nsys
    counts the time up to the recording's end, which the trace does not hold: only its calls are compared.
    """
    compared = []
    if is_there(statistics / "cuda_gpu_kern_sum.csv"):
        assert read_sums(statistics / "cuda_gpu_kern_sum.csv", "Instances", "Name") == totals(trace, "kernels")
        compared.append("kernels")
    if is_there(statistics / "cuda_api_sum.csv"):
        assert read_sums(statistics / "cuda_api_sum.csv", "Num Calls", "Name") == totals(trace, "api")
        compared.append("api")
    if is_there(statistics / "cuda_gpu_mem_time_sum.csv"):
        official = read_sums(statistics / "cuda_gpu_mem_time_sum.csv", "Count", "Operation")
        assert official == {_operation(kind): sums for kind, sums in totals(trace, "copies", "kind").items()}
        compared.append("copies")
    if is_there(statistics / "cuda_gpu_mem_size_sum.csv"):
        _compare_sizes(trace, statistics / "cuda_gpu_mem_size_sum.csv")
        compared.append("sizes")
    if is_there(statistics / "nvtx_sum.csv"):
        _compare_ranges(trace, statistics / "nvtx_sum.csv", domains)
        compared.append("ranges")
    if is_there(statistics / "osrt_sum.csv"):
        assert read_sums(statistics / "osrt_sum.csv", "Num Calls", "Name") == totals(trace, "osrt")
        compared.append("osrt")
    return compared


def _compare_sizes(trace: Path, path: Path) -> None:
    """Compare the bytes that were moved; nsys rounds to kilobytes."""
    copies = read_table(trace, "copies", ["kind", "bytes"]).group_by("kind").aggregate([("bytes", "sum"), ([], "count_all")])
    mine = {_operation(row["kind"]): (row["count_all"], f"{row['bytes_sum'] / 1e6:.3f}") for row in copies.to_pylist()}
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    assert {row["Operation"]: (int(row["Count"]), row["Total (MB)"]) for row in rows} == mine


def _compare_ranges(trace: Path, path: Path, domains: tuple[str, ...]) -> None:
    official: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, (calls, total_ns) in read_sums(path, "Instances", "Range").items():
        domain = next((domain for domain in domains if name.startswith(f"{domain}:")), None)
        plain = name.removeprefix(f"{domain}:") if domain else name
        official[plain] = (official[plain][0] + calls, official[plain][1] + total_ns)
    ranges = read_table(trace, "ranges", ["end_ns", "name"])
    never_ended = set(ranges.filter(pc.is_null(ranges["end_ns"]))["name"].to_pylist())
    mine = totals(trace, "ranges")
    for name in [name for name in mine if ("#" in name or name == "PythonDispatchMode") and name not in official]:
        mine.pop(name)  # such as Optimizer.step#Adam.step: autograd numbers them, and no record keeps nsys' rows of these
    assert {name: calls for name, (calls, _) in official.items()} == {name: calls for name, (calls, _) in mine.items()}
    for name in mine.keys() - never_ended:
        assert official[name] == mine[name], name


def _operation(kind: str) -> str:
    """Return what nsys calls a kind of copy."""
    if kind == "memset":
        return "[CUDA memset]"
    *unified, direction = kind.split()
    return f"[CUDA memcpy {'Unified ' if unified else ''}{COPIES.get(direction, direction)}]"
